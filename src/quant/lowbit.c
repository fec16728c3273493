/* lowbit.c: one and two bits and base-3 digits (sections 6 and 8). */
#include "quant/layout.h"

void th_dequantize_tq1_0(float *y, const void *w, size_t n) {
    const BlockTQ1_0 *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int i = 0; i < 256; i++) y[i] = (float)(th_tq1_0_digit(b, i) - 1) * d;
    }
}

void th_dequantize_ptq1_0(float *y, const void *w, size_t n) {
    const BlockPTQ1_0 *b = w;
    for (; n >= 128; n -= 128, b++, y += 128) {
        float d = th_half(b->d);
        for (int i = 0; i < 128; i++) y[i] = (float)(th_ptq1_0_digit(b, i) - 1) * d;
    }
}

void th_dequantize_tq2_0(float *y, const void *w, size_t n) {
    const BlockTQ2_0 *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int i = 0; i < 256; i++) {
            int code = b->qs[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
            y[i] = (float)(code - 1) * d;
        }
    }
}

void th_dequantize_q1_0(float *y, const void *w, size_t n) {
    const BlockQ1_0 *b = w;
    for (; n >= 128; n -= 128, b++, y += 128) {
        float d = th_half(b->d);
        for (int i = 0; i < 128; i++) y[i] = b->b[i / 8] >> i % 8 & 1 ? d : -d;
    }
}

static void put_pairs(float *y, float d, const uint8_t *p, int count) {
    for (int i = 0; i < count; i++) y[i] = (float)((p[i / 4] >> 2 * (i % 4) & 3) - 1) * d;
}

void th_dequantize_q2_0(float *y, const void *w, size_t n) {
    const BlockQ2_0 *b = w;
    for (; n >= 64; n -= 64, b++, y += 64) put_pairs(y, th_half(b->d), b->b, 64);
}

void th_dequantize_pq2_0(float *y, const void *w, size_t n) {
    const BlockPQ2_0 *b = w;
    for (; n >= 128; n -= 128, b++, y += 128) put_pairs(y, th_half(b->d), b->b, 128);
}
