/* num.h: exact conversions between binary32 and the small formats of weight files
 * (gguf-tensor-types specification, sections 0, 2 and 7). */
#ifndef THIMBLE_NUM_H
#define THIMBLE_NUM_H

#include <stdint.h>
#include <string.h>

static inline float th_f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}
static inline uint32_t th_f32_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

/* Widening is exact; NaN stays NaN. */
static inline float th_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (h >> 10) & 31, mantissa = h & 0x3FF;
    if (exponent == 31) return th_f32_from_bits(sign | 0x7F800000u | mantissa << 13);
    if (exponent) return th_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Zero and subnormals: mantissa * 2^-24 is exact in binary32. */
    float f = (float)mantissa * 0x1.0p-24f;
    return sign ? -f : f;
}

/* Nearest even; subnormals kept; |x| >= 65520 becomes infinity; NaN becomes a quiet NaN. */
static inline uint16_t th_f32_to_f16(float f) {
    uint32_t bits = th_f32_bits(f);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t a = bits & 0x7FFFFFFF;
    if (a > 0x7F800000) return (uint16_t)(sign | 0x7E00 | (a >> 13 & 0x3FF));
    if (a >= 0x477FF000) return (uint16_t)(sign | 0x7C00);
    if (a >= 0x38800000) return (uint16_t)(sign | ((a - 0x38000000 + 0xFFF + (a >> 13 & 1)) >> 13));
    if (a < 0x33000000) return sign; /* at most half of the smallest subnormal: 2^-25 itself ties to even zero */
    uint32_t shift = 126 - (a >> 23);
    uint32_t m = (a & 0x7FFFFF) | 0x800000;
    uint32_t half = 1u << (shift - 1);
    return (uint16_t)(sign | ((m + half - 1 + (m >> shift & 1)) >> shift));
}

/* The nearest value that binary16 has; what is beyond its range becomes the largest finite one, NaN stays NaN. */
#define TH_F16_MAX 65504.0f
static inline float th_f16_nearest(float x) {
    x = x > TH_F16_MAX ? TH_F16_MAX : x < -TH_F16_MAX ? -TH_F16_MAX : x;
    return th_f16_to_f32(th_f32_to_f16(x));
}

static inline float th_bf16_to_f32(uint16_t h) { return th_f32_from_bits((uint32_t)h << 16); }
static inline uint16_t th_f32_to_bf16(float f) {
    uint32_t u = th_f32_bits(f);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

/* Half of the E8M0 value: 2^(e-128), subnormal for e < 2. */
static inline float th_e8m0_half(uint8_t e) {
    return th_f32_from_bits(e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23);
}
/* Half of the unsigned E4M3 value; 0x7F is 0, bit 7 otherwise ignored. */
static inline float th_ue4m3_half(uint8_t x) {
    if (x == 0 || x == 0x7F) return 0;
    int exponent = x >> 3 & 15, mantissa = x & 7;
    if (exponent == 0) return (float)mantissa * 0x1.0p-10f;
    return th_f32_from_bits((uint32_t)(exponent - 8 + 127) << 23) * (1.0f + (float)mantissa * 0.125f);
}

#endif
