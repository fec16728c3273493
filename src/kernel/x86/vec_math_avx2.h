/* vec_math_avx2.h: kernel/vec_math.h line by line, eight numbers at once. Nothing is fused: the bits are the same. */
#ifndef THIMBLE_VEC_MATH_AVX2_H
#define THIMBLE_VEC_MATH_AVX2_H

#include <immintrin.h>

#include "kernel/vec_math.h"

static inline __m256 exp_avx2(__m256 x) {
    /* vmaxps and vminps give their second operand where one is NaN. */
    x = _mm256_min_ps(_mm256_set1_ps(TH_EXP_HIGH), _mm256_max_ps(_mm256_set1_ps(TH_EXP_LOW), x));
    __m256 t = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(TH_LOG2_E)), _mm256_set1_ps(TH_ROUND));
    __m256 n = _mm256_sub_ps(t, _mm256_set1_ps(TH_ROUND));
    __m256 r = _mm256_sub_ps(x, _mm256_mul_ps(n, _mm256_set1_ps(TH_LN2_HIGH)));
    r = _mm256_sub_ps(r, _mm256_mul_ps(n, _mm256_set1_ps(TH_LN2_LOW)));
    __m256 p = _mm256_set1_ps(TH_EXP_C4);
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(TH_EXP_C3));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(TH_EXP_C2));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(TH_EXP_C1));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(TH_EXP_C0));
    p = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r), _mm256_set1_ps(1.0f));
    __m256i u = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32((int)(TH_ROUND_BITS - 256)));
    __m256i half = _mm256_srli_epi32(u, 1), one = _mm256_set1_epi32(1);
    __m256i first = _mm256_slli_epi32(_mm256_sub_epi32(half, one), 23);
    __m256i second = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_sub_epi32(u, half), one), 23);
    return _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

static inline __m256 gate_avx2(__m256 x, __m256 u) {
    __m256 e = exp_avx2(_mm256_or_ps(u, _mm256_set1_ps(-0.0f)));
    __m256 positive = _mm256_cmp_ps(u, _mm256_setzero_ps(), _CMP_GE_OQ);
    __m256 top = _mm256_blendv_ps(_mm256_mul_ps(x, e), x, positive);
    return _mm256_div_ps(top, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}
static inline __m256 silu_avx2(__m256 x) { return gate_avx2(x, x); }
static inline __m256 gelu_avx2(__m256 x) {
    __m256 c = _mm256_mul_ps(_mm256_set1_ps(TH_GELU_C1), _mm256_mul_ps(x, x));
    return gate_avx2(x, _mm256_mul_ps(x, _mm256_add_ps(_mm256_set1_ps(TH_GELU_C0), c)));
}

#endif
