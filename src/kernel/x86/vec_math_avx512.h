/* vec_math_avx512.h: kernel/vec_math.h line by line, sixteen numbers at once. Nothing is fused: the bits are the same.
 */
#ifndef THIMBLE_VEC_MATH_AVX512_H
#define THIMBLE_VEC_MATH_AVX512_H

#include <immintrin.h>

#include "kernel/vec_math.h"

static inline __m512 exp_avx512(__m512 x) {
    /* vmaxps and vminps give their second operand where one is NaN. */
    x = _mm512_min_ps(_mm512_set1_ps(TH_EXP_HIGH), _mm512_max_ps(_mm512_set1_ps(TH_EXP_LOW), x));
    __m512 t = _mm512_add_ps(_mm512_mul_ps(x, _mm512_set1_ps(TH_LOG2_E)), _mm512_set1_ps(TH_ROUND));
    __m512 n = _mm512_sub_ps(t, _mm512_set1_ps(TH_ROUND));
    __m512 r = _mm512_sub_ps(x, _mm512_mul_ps(n, _mm512_set1_ps(TH_LN2_HIGH)));
    r = _mm512_sub_ps(r, _mm512_mul_ps(n, _mm512_set1_ps(TH_LN2_LOW)));
    __m512 p = _mm512_set1_ps(TH_EXP_C4);
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(TH_EXP_C3));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(TH_EXP_C2));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(TH_EXP_C1));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(TH_EXP_C0));
    p = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(p, _mm512_mul_ps(r, r)), r), _mm512_set1_ps(1.0f));
    __m512i u = _mm512_sub_epi32(_mm512_castps_si512(t), _mm512_set1_epi32((int)(TH_ROUND_BITS - 256)));
    __m512i half = _mm512_srli_epi32(u, 1), one = _mm512_set1_epi32(1);
    __m512i first = _mm512_slli_epi32(_mm512_sub_epi32(half, one), 23);
    __m512i second = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_sub_epi32(u, half), one), 23);
    return _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(first)), _mm512_castsi512_ps(second));
}

static inline __m512 gate_avx512(__m512 x, __m512 u) {
    __m512 e = exp_avx512(_mm512_or_ps(u, _mm512_set1_ps(-0.0f)));
    __mmask16 positive = _mm512_cmp_ps_mask(u, _mm512_setzero_ps(), _CMP_GE_OQ);
    __m512 top = _mm512_mask_mul_ps(x, (__mmask16)~positive, x, e);
    return _mm512_div_ps(top, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}
static inline __m512 silu_avx512(__m512 x) { return gate_avx512(x, x); }
static inline __m512 gelu_avx512(__m512 x) {
    __m512 c = _mm512_mul_ps(_mm512_set1_ps(TH_GELU_C1), _mm512_mul_ps(x, x));
    return gate_avx512(x, _mm512_mul_ps(x, _mm512_add_ps(_mm512_set1_ps(TH_GELU_C0), c)));
}

#endif
