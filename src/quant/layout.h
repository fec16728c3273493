/* layout.h: the blocks of weight files as structs, field by field as gguf-tensor-types sections 3 to 8 list them.
 *
 * Blocks lie in files at any address. Every 16-bit field is therefore a pair of bytes (type U16, read with th_u16 or
 * th_half), so that all structs have alignment 1: a pointer to a block may be formed from any pointer to bytes. */
#ifndef THIMBLE_LAYOUT_H
#define THIMBLE_LAYOUT_H

#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "quant/type.h"

typedef struct U16 {
    uint8_t b[2];
} U16;
typedef struct U32 {
    uint8_t b[4];
} U32;

static inline uint16_t th_u16(U16 v) { return (uint16_t)(v.b[0] | v.b[1] << 8); }
static inline uint32_t th_u32(U32 v) {
    return v.b[0] | (uint32_t)v.b[1] << 8 | (uint32_t)v.b[2] << 16 | (uint32_t)v.b[3] << 24;
}
static inline float th_half(U16 v) { return th_f16_to_f32(th_u16(v)); }

/* legacy: 32 weights; the low nibble of byte j is weight j, the high nibble weight j + 16 */
typedef struct { U16 d; uint8_t p[16]; } BlockQ4_0;
typedef struct { U16 d, m; uint8_t p[16]; } BlockQ4_1;
typedef struct { U16 d; U32 h; uint8_t p[16]; } BlockQ5_0;
typedef struct { U16 d, m; U32 h; uint8_t p[16]; } BlockQ5_1;
typedef struct { U16 d; int8_t q[32]; } BlockQ8_0;
typedef struct { U16 d, s; int8_t q[32]; } BlockQ8_1;

/* k: super-blocks of 256 */
typedef struct { uint8_t s[16], qs[64]; U16 d, dmin; } BlockQ2_K;
typedef struct { uint8_t hm[32], qs[64], s[12]; U16 d; } BlockQ3_K;
typedef struct { U16 d, dmin; uint8_t t[12], qs[128]; } BlockQ4_K;
typedef struct { U16 d, dmin; uint8_t t[12], qh[32], qs[128]; } BlockQ5_K;
typedef struct { uint8_t ql[128], qh[64]; int8_t sc[16]; U16 d; } BlockQ6_K;
typedef struct { U32 d; int8_t q[256]; U16 bsum[16]; } BlockQ8_K;

/* codebooks */
typedef struct { U16 d; struct { uint8_t x[4]; U32 w; } g[8]; } BlockIQ2_XXS;
typedef struct { U16 d, v[32]; uint8_t sc[8]; } BlockIQ2_XS;
typedef struct { U16 d; uint8_t lo[32], m[32], qh[8], sc[8]; } BlockIQ2_S;
typedef struct { U16 d; uint8_t x[64]; U32 w[8]; } BlockIQ3_XXS;
typedef struct { U16 d; uint8_t lo[64], qh[8], m[32], sc[4]; } BlockIQ3_S;
typedef struct { U16 d; uint8_t lo[32]; U16 h[8]; } BlockIQ1_S;
typedef struct { uint8_t lo[32], qh[16]; U16 w[4]; } BlockIQ1_M;
typedef struct { U16 d; uint8_t p[16]; } BlockIQ4_NL;
typedef struct { U16 d, sh; uint8_t sl[4], p[128]; } BlockIQ4_XS;

/* low bits */
typedef struct { uint8_t qs[48], qh[4]; U16 d; } BlockTQ1_0;
typedef struct { uint8_t qs[64]; U16 d; } BlockTQ2_0;
typedef struct { U16 d; uint8_t b[16]; } BlockQ1_0;
typedef struct { U16 d; uint8_t b[16]; } BlockQ2_0;
typedef struct { U16 d; uint8_t b[32]; } BlockPQ2_0;
typedef struct { uint8_t qs[24], qh[2]; U16 d; } BlockPTQ1_0;

/* 4-bit floats */
typedef struct { uint8_t e, p[16]; } BlockMXFP4;
typedef struct { uint8_t sc[4], p[32]; } BlockNVFP4;

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22, "size");
static_assert(sizeof(BlockQ5_1) == 24 && sizeof(BlockQ8_0) == 34 && sizeof(BlockQ8_1) == 36, "size");
static_assert(sizeof(BlockQ2_K) == 84 && sizeof(BlockQ3_K) == 110 && sizeof(BlockQ4_K) == 144, "size");
static_assert(sizeof(BlockQ5_K) == 176 && sizeof(BlockQ6_K) == 210 && sizeof(BlockQ8_K) == 292, "size");
static_assert(sizeof(BlockIQ2_XXS) == 66 && sizeof(BlockIQ2_XS) == 74 && sizeof(BlockIQ2_S) == 82, "size");
static_assert(sizeof(BlockIQ3_XXS) == 98 && sizeof(BlockIQ3_S) == 110 && sizeof(BlockIQ1_S) == 50, "size");
static_assert(sizeof(BlockIQ1_M) == 56 && sizeof(BlockIQ4_NL) == 18 && sizeof(BlockIQ4_XS) == 136, "size");
static_assert(sizeof(BlockTQ1_0) == 54 && sizeof(BlockTQ2_0) == 66 && sizeof(BlockQ1_0) == 18, "size");
static_assert(sizeof(BlockQ2_0) == 18 && sizeof(BlockPQ2_0) == 34 && sizeof(BlockPTQ1_0) == 28, "size");
static_assert(sizeof(BlockMXFP4) == 17 && sizeof(BlockNVFP4) == 36, "size");

/* The 6-bit scale and minimum number g of Q4_K and Q5_K. */
static inline int th_k_scale(const uint8_t t[12], int g) {
    return g < 4 ? t[g] & 63 : (t[g + 4] & 15) | (t[g - 4] >> 6) << 4;
}
static inline int th_k_min(const uint8_t t[12], int g) {
    return g < 4 ? t[g + 4] & 63 : t[g + 4] >> 4 | (t[g] >> 6) << 4;
}
/* The 6-bit scale number g of Q3_K, -32..31. */
static inline int th_q3_k_scale(const uint8_t s[12], int g) {
    int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4;
    return (low | ((s[8 + g % 4] >> 2 * (g / 4)) & 3) << 4) - 32;
}
/* Digit n (0 = most significant) of a byte of five base-3 digits: 0, 1 or 2 for every byte value. */
static inline int th_ternary_digit(uint8_t byte, int n) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    return (uint8_t)(byte * power[n]) * 3 >> 8;
}
/* Seven stored sign bits; the eighth makes the number of ones even. */
static inline uint8_t th_even_signs(unsigned k) {
    unsigned p = k ^ k >> 4;
    p ^= p >> 2;
    p ^= p >> 1;
    return (uint8_t)(k | (p & 1) << 7);
}
static inline float th_iq1_m_scale(const U16 w[4]) {
    return th_f16_to_f32((uint16_t)(th_u16(w[0]) >> 12 | (th_u16(w[1]) >> 12) << 4 | (th_u16(w[2]) >> 12) << 8 |
                                    (th_u16(w[3]) >> 12) << 12));
}

static inline int th_iq4_xs_scale(const BlockIQ4_XS *b, int g) {
    return ((b->sl[g / 2] >> 4 * (g % 2) & 15) | (th_u16(b->sh) >> 2 * g & 3) << 4) - 32;
}
static inline int th_tq1_0_digit(const BlockTQ1_0 *b, int i) {
    if (i < 160) return th_ternary_digit(b->qs[i % 32], i / 32);
    if (i < 240) return th_ternary_digit(b->qs[32 + i % 16], (i - 160) / 16);
    return th_ternary_digit(b->qh[i % 4], (i - 240) / 4);
}
static inline int th_ptq1_0_digit(const BlockPTQ1_0 *b, int i) {
    if (i < 80) return th_ternary_digit(b->qs[i % 16], i / 16);
    if (i < 120) return th_ternary_digit(b->qs[16 + i % 8], (i - 80) / 8);
    return th_ternary_digit(b->qh[i % 2], (i - 120) / 2);
}

/* iq_tables.c: codebooks; weight order is byte order */
extern const uint8_t th_grid_iq2_xxs[256][8], th_grid_iq2_xs[512][8], th_grid_iq2_s[1024][8];
extern const uint8_t th_grid_iq3_xxs[256][4], th_grid_iq3_s[512][4];
extern const int8_t th_grid_iq1[2048][8];
extern const int8_t th_values_iq4[16], th_values_fp4[16];

/* one per type, in the file of its family; y[0..n) from n / block blocks */
typedef void DequantizeFn(float *y, const void *w, size_t n);
DequantizeFn th_dequantize_f32, th_dequantize_f16, th_dequantize_bf16, th_dequantize_f64;
DequantizeFn th_dequantize_q4_0, th_dequantize_q4_1, th_dequantize_q5_0, th_dequantize_q5_1, th_dequantize_q8_0,
    th_dequantize_q8_1;
DequantizeFn th_dequantize_q2_k, th_dequantize_q3_k, th_dequantize_q4_k, th_dequantize_q5_k, th_dequantize_q6_k,
    th_dequantize_q8_k;
DequantizeFn th_dequantize_iq2_xxs, th_dequantize_iq2_xs, th_dequantize_iq2_s, th_dequantize_iq3_xxs,
    th_dequantize_iq3_s, th_dequantize_iq1_s, th_dequantize_iq1_m, th_dequantize_iq4_nl, th_dequantize_iq4_xs;
DequantizeFn th_dequantize_tq1_0, th_dequantize_tq2_0, th_dequantize_q1_0, th_dequantize_q2_0, th_dequantize_pq2_0,
    th_dequantize_ptq1_0;
DequantizeFn th_dequantize_mxfp4, th_dequantize_nvfp4;

#endif
