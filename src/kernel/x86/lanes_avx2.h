/* lanes_avx2.h: the 32 binary32 lanes of docs/KERNELS.md as four registers, and the tree that merges them; tails. */
#ifndef THIMBLE_LANES_AVX2_H
#define THIMBLE_LANES_AVX2_H

#include <immintrin.h>

#include "base/base.h"
#include "kernel/x86/unroll.h"

/* All ones in the first n lanes, for vmaskmovps; any n. */
TH_INLINE __m256i first_lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
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

/* The first n of 8 16-bit numbers, zero above: vmaskmovps knows no halves. */
TH_INLINE __m128i load_few_u16(const void *p, int n) {
    uint16_t part[8] = {0};
    __builtin_memcpy(part, p, (size_t)(n < 0 ? 0 : n > 8 ? 8 : n) * 2);
    return _mm_loadu_si128((const __m128i *)(const void *)part);
}

#endif
