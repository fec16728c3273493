/* lanes_avx2.h: the 32 binary32 lanes of docs/KERNELS.md as four registers, and the tree that merges them; tails. */
#ifndef THIMBLE_LANES_AVX2_H
#define THIMBLE_LANES_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "base/base.h"
#include "kernel/x86/unroll.h"

/* The first n lanes, any n; the others zero and not read. Through memory, not by vmaskmovps: some emulators read what
 * it masks. */
TH_INLINE __m256 load_few(const float *x, int n) {
    if (n >= 8) return _mm256_loadu_ps(x);
    float part[8] = {0};
    if (n > 0) memcpy(part, x, (size_t)n * sizeof *x);
    return _mm256_loadu_ps(part);
}
TH_INLINE void store_few(float *y, int n, __m256 v) {
    if (n >= 8) {
        _mm256_storeu_ps(y, v);
    } else if (n > 0) {
        float part[8];
        _mm256_storeu_ps(part, v);
        memcpy(y, part, (size_t)n * sizeof *y);
    }
}
/* All ones in the first n lanes. */
TH_INLINE __m256 first_lanes(int n) {
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

/* Lanes 4, 2 and 1 apart. */
TH_INLINE float lanes8_sum(__m256 a) {
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
TH_INLINE float lanes32_sum(const __m256 a[4]) {
    return lanes8_sum(_mm256_add_ps(_mm256_add_ps(a[0], a[2]), _mm256_add_ps(a[1], a[3])));
}

/* The first n of 8 16-bit numbers; the others zero and not read. */
TH_INLINE __m128i load_few_u16(const void *x, int n) {
    uint16_t part[8] = {0};
    if (n > 0) memcpy(part, x, (size_t)(n > 8 ? 8 : n) * 2);
    return _mm_loadu_si128((const __m128i *)(const void *)part);
}

#endif
