/* act_avx2.c: prepared activations, bit for bit those of kernel/act.c. */
#include <string.h>

#include "base/num.h"
#include "kernel/act.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx2.h"

enum { TINY = (127 - 100) << 23, INFINITE = 0x7F800000 }; /* bit patterns: 2^-100, infinity */

/* 127 / largest and the scale of a block whose largest magnitude has this bit pattern; 0 where all codes are 0. */
TH_INLINE float inverse_scale(uint32_t largest, float *d) {
    if (largest >= INFINITE || largest < TINY) {
        *d = largest >= INFINITE ? th_f32_from_bits(0x7FC00000) : 0.0f;
        return 0;
    }
    float max = th_f32_from_bits(largest);
    *d = max / 127.0f;
    return 127.0f / max;
}

TH_INLINE __m256i magnitude(const float *x) {
    return _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(const void *)x), _mm256_set1_epi32(0x7FFFFFFF));
}
/* Patterns without sign compare alike as signed numbers. */
TH_INLINE uint32_t largest_magnitude(const float *x, int n) {
    __m256i most = magnitude(x);
    for (int i = 8; i < n; i += 8) most = _mm256_max_epi32(most, magnitude(x + i));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1)));
}

/* 32 codes of 32 values; all 0 if inverse is (0 * infinity would not be). */
TH_INLINE __m256i codes32(const float *x, float inverse) {
    if (inverse == 0) return _mm256_setzero_si256();
    __m256 k = _mm256_set1_ps(inverse);
    __m256i v[4];
    TH_UNROLL for (int i = 0; i < 4; i++) v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), k));
    __m256i q = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(q, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)); /* packs works within halves */
}
/* Sums of 8 codes each, in 64-bit lanes: vpsadbw adds unsigned bytes, so 128 is added to each code first. */
TH_INLINE __m256i sums_of_8(__m256i q) {
    __m256i u = _mm256_xor_si256(q, _mm256_set1_epi8((char)0x80));
    return _mm256_sub_epi64(_mm256_sad_epu8(u, _mm256_setzero_si256()), _mm256_set1_epi64x(8 * 128));
}

TH_INLINE void clear_padding(void *part, size_t used, size_t all) { memset((char *)part + used, 0, all - used); }

void th_act_q8_0_avx2(void *dst, const float *x, int cols) {
    char *q = dst, *d_part = q + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_0, cols);
    size_t blocks = (size_t)cols / 32;
    for (size_t b = 0; b < blocks; b++, x += 32) {
        float d, inverse = inverse_scale(largest_magnitude(x, 32), &d);
        __m256i v = codes32(x, inverse), eights = sums_of_8(v);
        __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
        int32_t s = _mm_cvtsi128_si32(_mm_add_epi64(sum, _mm_unpackhi_epi64(sum, sum)));
        _mm256_storeu_si256((__m256i *)(void *)(q + 32 * b), v);
        memcpy(d_part + 4 * b, &d, 4);
        memcpy(s_part + 4 * b, &s, 4);
    }
    clear_padding(q, (size_t)cols, th_act_q_bytes(cols));
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_0, cols));
    clear_padding(s_part, blocks * 4, (blocks * 4 + 63) & ~(size_t)63);
}

void th_act_q8_k_avx2(void *dst, const float *x, int cols) {
    char *q = dst, *d_part = q + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_K, cols);
    size_t blocks = (size_t)cols / 256;
    for (size_t b = 0; b < blocks; b++, x += 256) {
        float d, inverse = inverse_scale(largest_magnitude(x, 256), &d);
        for (size_t i = 0; i < 8; i++) { /* 32 codes, 2 sums of 16 */
            __m256i v = codes32(x + 32 * i, inverse), eights = sums_of_8(v);
            __m256i sums = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
            int16_t s[2] = {(int16_t)_mm256_extract_epi16(sums, 0), (int16_t)_mm256_extract_epi16(sums, 8)};
            _mm256_storeu_si256((__m256i *)(void *)(q + 256 * b + 32 * i), v);
            memcpy(s_part + 32 * b + 4 * i, s, 4);
        }
        memcpy(d_part + 4 * b, &d, 4);
    }
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_K, cols));
    clear_padding(s_part, blocks * 32, (blocks * 32 + 63) & ~(size_t)63);
}
