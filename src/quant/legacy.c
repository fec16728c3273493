/* legacy.c: blocks of 32 weights with one binary16 scale, some with a minimum (section 3). */
#include "quant/layout.h"

void th_dequantize_q4_0(float *y, const void *w, size_t n) {
    const BlockQ4_0 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((b->p[j] & 15) - 8) * d;
            y[j + 16] = (float)((b->p[j] >> 4) - 8) * d;
        }
    }
}

void th_dequantize_q4_1(float *y, const void *w, size_t n) {
    const BlockQ4_1 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d), m = th_half(b->m);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)(b->p[j] & 15) * d + m;
            y[j + 16] = (float)(b->p[j] >> 4) * d + m;
        }
    }
}

void th_dequantize_q5_0(float *y, const void *w, size_t n) {
    const BlockQ5_0 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d);
        uint32_t h = th_u32(b->h);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((b->p[j] & 15) + (int)(h >> j & 1) * 16 - 16) * d;
            y[j + 16] = (float)((b->p[j] >> 4) + (int)(h >> (j + 16) & 1) * 16 - 16) * d;
        }
    }
}

void th_dequantize_q5_1(float *y, const void *w, size_t n) {
    const BlockQ5_1 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d), m = th_half(b->m);
        uint32_t h = th_u32(b->h);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)((b->p[j] & 15) + (int)(h >> j & 1) * 16) * d + m;
            y[j + 16] = (float)((b->p[j] >> 4) + (int)(h >> (j + 16) & 1) * 16) * d + m;
        }
    }
}

void th_dequantize_q8_0(float *y, const void *w, size_t n) {
    const BlockQ8_0 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d);
        for (int j = 0; j < 32; j++) y[j] = (float)b->q[j] * d;
    }
}

void th_dequantize_q8_1(float *y, const void *w, size_t n) {
    const BlockQ8_1 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d);
        for (int j = 0; j < 32; j++) y[j] = (float)b->q[j] * d;
    }
}
