/* act_avx512.c: prepared activations, bit for bit those of kernel/act.c. */
#include <string.h>

#include "base/num.h"
#include "kernel/act.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx512.h"

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

TH_INLINE __m512i magnitude(const float *x) {
    return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
}

/* 64 codes of 64 values. */
TH_INLINE __m512i codes64(const float *x, float inverse) {
    __m512 k = _mm512_set1_ps(inverse);
    __m128i q[4];
    TH_UNROLL for (int i = 0; i < 4; i++) q[i] =
        _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), k)));
    __m512i v = _mm512_inserti32x4(_mm512_castsi128_si512(q[0]), q[1], 1);
    return _mm512_inserti32x4(_mm512_inserti32x4(v, q[2], 2), q[3], 3);
}

TH_INLINE void clear_padding(void *part, size_t used, size_t all) { memset((char *)part + used, 0, all - used); }

void th_act_q8_0_avx512(void *dst, const float *x, int cols) {
    char *q = dst, *d_part = q + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_0, cols);
    size_t blocks = (size_t)cols / 32;
    for (size_t b = 0; b < blocks; b++, x += 32) {
        float d,
            inverse = inverse_scale(_mm512_reduce_max_epu32(_mm512_max_epu32(magnitude(x), magnitude(x + 16))), &d);
        int32_t s = 0;
        if (inverse == 0) {
            memset(q + 32 * b, 0, 32);
        } else {
            __m512 k = _mm512_set1_ps(inverse);
            __m512i lo = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), k));
            __m512i hi = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), k));
            _mm_storeu_si128((__m128i *)(void *)(q + 32 * b), _mm512_cvtepi32_epi8(lo));
            _mm_storeu_si128((__m128i *)(void *)(q + 32 * b + 16), _mm512_cvtepi32_epi8(hi));
            s = _mm512_reduce_add_epi32(_mm512_add_epi32(lo, hi));
        }
        memcpy(d_part + 4 * b, &d, 4);
        memcpy(s_part + 4 * b, &s, 4);
    }
    clear_padding(q, (size_t)cols, th_act_q_bytes(cols));
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_0, cols));
    clear_padding(s_part, blocks * 4, (blocks * 4 + 63) & ~(size_t)63);
}

/* Sums of 8 codes each, as 16-bit numbers: vpsadbw adds unsigned bytes, so 128 is added to each code first. */
TH_INLINE __m128i sums_of_8(__m512i q) {
    __m512i u = _mm512_xor_si512(q, _mm512_set1_epi8((char)0x80));
    return _mm_sub_epi16(_mm512_cvtepi64_epi16(_mm512_sad_epu8(u, _mm512_setzero_si512())), _mm_set1_epi16(8 * 128));
}

void th_act_q8_k_avx512(void *dst, const float *x, int cols) {
    char *q = dst, *d_part = q + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_K, cols);
    size_t blocks = (size_t)cols / 256;
    for (size_t b = 0; b < blocks; b++, x += 256) {
        __m512i most = magnitude(x);
        for (int i = 16; i < 256; i += 16) most = _mm512_max_epu32(most, magnitude(x + i));
        float d, inverse = inverse_scale(_mm512_reduce_max_epu32(most), &d);
        for (size_t i = 0; i < 2; i++) { /* 128 codes, 8 sums of 16 */
            __m512i lo = _mm512_setzero_si512(), hi = lo;
            if (inverse != 0) {
                lo = codes64(x + 128 * i, inverse);
                hi = codes64(x + 128 * i + 64, inverse);
            }
            _mm512_storeu_si512(q + 256 * b + 128 * i, lo);
            _mm512_storeu_si512(q + 256 * b + 128 * i + 64, hi);
            __m256i eights = _mm256_inserti128_si256(_mm256_castsi128_si256(sums_of_8(lo)), sums_of_8(hi), 1);
            __m256i pairs = _mm256_madd_epi16(eights, _mm256_set1_epi16(1));
            _mm_storeu_si128((__m128i *)(void *)(s_part + 32 * b + 16 * i), _mm256_cvtepi32_epi16(pairs));
        }
        memcpy(d_part + 4 * b, &d, 4);
    }
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_K, cols));
    clear_padding(s_part, blocks * 32, (blocks * 32 + 63) & ~(size_t)63);
}
