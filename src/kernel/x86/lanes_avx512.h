/* lanes_avx512.h: the 32 binary32 lanes of docs/KERNELS.md as two registers, and the tree that merges them. */
#ifndef THIMBLE_LANES_AVX512_H
#define THIMBLE_LANES_AVX512_H

#include <immintrin.h>

#include "base/base.h"
#include "kernel/x86/unroll.h"

/* The first n lanes, 0 <= n; 16 and more: all. */
TH_INLINE __mmask16 first_lanes(int n) { return n >= 16 ? (__mmask16)0xFFFF : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

/* Lanes 8, 4, 2 and 1 apart. */
TH_INLINE float lanes16_sum(__m512 a) {
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}
TH_INLINE float lanes32_sum(__m512 a, __m512 b) { return lanes16_sum(_mm512_add_ps(a, b)); }

#endif
