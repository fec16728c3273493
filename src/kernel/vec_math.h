/* vec_math.h: exp, tanh and what is built on them, one rounding sequence for every instruction set.
 *
 * Only multiplications, additions, comparisons and one integer shift, none of them fused, so that C, compiled C and
 * intrinsics that mirror it line by line give the same bits. Relative error of th_exp below 0.7 * 2^-23 where the
 * result is normal; exp(-infinity) is 0, results below 2^-150 are 0, above the range infinity, NaN stays NaN. */
#ifndef THIMBLE_VEC_MATH_H
#define THIMBLE_VEC_MATH_H

#include <math.h>

#include "base/num.h"

#define TH_EXP_LOW (-104.0f)  /* below: 0 */
#define TH_EXP_HIGH 89.0f   /* above: infinity */
#define TH_LOG2_E 0x1.715476p+0f
#define TH_LN2_HIGH 0x1.63p-1f /* 9 bits: n * LN2_HIGH is exact */
#define TH_LN2_LOW (-0x1.bd0106p-13f)
#define TH_ROUND 0x1.8p23f /* adding it rounds to an integer, which is then in the low bits */
#define TH_ROUND_BITS 0x4B400000u
/* (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2, minimax in the relative error of exp */
#define TH_EXP_C0 0x1.fffffcp-2f
#define TH_EXP_C1 0x1.55549p-3f
#define TH_EXP_C2 0x1.5558fcp-5f
#define TH_EXP_C3 0x1.123b9cp-7f
#define TH_EXP_C4 0x1.6a2156p-10f
#define TH_GELU_C0 0x1.988454p+0f /* 2 sqrt(2/pi) */
#define TH_GELU_C1 0x1.2444f2p-4f /* 2 sqrt(2/pi) 0.044715 */
/* (tanh(x) / x - 1) / x^2 in x^2 on |x| <= 0.55, minimax in the relative error of tanh */
#define TH_TANH_C0 (-0x1.55554cp-2f)
#define TH_TANH_C1 0x1.110d3cp-3f
#define TH_TANH_C2 (-0x1.b92bbap-5f)
#define TH_TANH_C3 0x1.595686p-6f
#define TH_TANH_C4 (-0x1.9bba6ap-8f)

static inline float th_exp(float x) {
    x = x < TH_EXP_LOW ? TH_EXP_LOW : x; /* NaN fails both comparisons and stays */
    x = x > TH_EXP_HIGH ? TH_EXP_HIGH : x;
    float t = x * TH_LOG2_E + TH_ROUND;
    float n = t - TH_ROUND;
    float r = (x - n * TH_LN2_HIGH) - n * TH_LN2_LOW;
    float p = TH_EXP_C4;
    p = p * r + TH_EXP_C3;
    p = p * r + TH_EXP_C2;
    p = p * r + TH_EXP_C1;
    p = p * r + TH_EXP_C0;
    p = (p * (r * r) + r) + 1.0f;
    /* 2^n in two factors: one alone would not reach subnormals or 2^128. */
    uint32_t u = th_f32_bits(t) - TH_ROUND_BITS + 256, half = u >> 1;
    return p * th_f32_from_bits((half - 1) << 23) * th_f32_from_bits((u - half - 1) << 23);
}

/* x / (1 + exp(-u)) without overflow on either side. */
static inline float th_gate(float x, float u) {
    float a = th_f32_from_bits(th_f32_bits(u) | 0x80000000u); /* -|u| */
    float e = th_exp(a);
    return (u >= 0 ? x : x * e) / (1.0f + e);
}
static inline float th_sigmoid(float x) { return th_gate(1.0f, x); }
static inline float th_silu(float x) { return th_gate(x, x); }
/* The tanh form: x/2 * (1 + tanh(v)) = x / (1 + exp(-2v)), v = sqrt(2/pi) (x + 0.044715 x^3). */
static inline float th_gelu(float x) { return th_gate(x, x * (TH_GELU_C0 + TH_GELU_C1 * (x * x))); }

/* Relative error below 2^-22. A libc's tanhf is not one function: it is fused where the compiler may. */
static inline float th_tanh(float x) {
    float a = th_f32_from_bits(th_f32_bits(x) & 0x7fffffffu);
    if (a > 0.55f) {
        float y = 1.0f - 2.0f / (th_exp(2 * a) + 1.0f);
        return x < 0 ? -y : y;
    }
    float z = x * x, p = TH_TANH_C4;
    p = p * z + TH_TANH_C3;
    p = p * z + TH_TANH_C2;
    p = p * z + TH_TANH_C1;
    p = p * z + TH_TANH_C0;
    return x + x * z * p;
}
static inline float th_tanh_capped(float x, float cap) { return cap * th_tanh(x / cap); }
/* ln(1 + exp(x)). In binary64 a libc's own roundings vanish when the result is rounded. */
static inline float th_softplus(float x) { return x > 20 ? x : (float)log1p(exp((double)x)); }

#endif
