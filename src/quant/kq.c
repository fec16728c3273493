/* kq.c: super-blocks of 256 weights whose sub-blocks have small integer scales (section 4). */
#include "quant/layout.h"

void th_dequantize_q2_k(float *y, const void *w, size_t n) {
    const BlockQ2_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d), dmin = th_half(b->dmin);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, j = i % 128 / 32, l = i % 32, s = b->s[i / 16];
            int q = b->qs[32 * half + l] >> 2 * j & 3;
            y[i] = d * (float)(s & 15) * (float)q - dmin * (float)(s >> 4);
        }
    }
}

void th_dequantize_q3_k(float *y, const void *w, size_t n) {
    const BlockQ3_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, j = i % 128 / 32, l = i % 32;
            int q = (b->qs[32 * half + l] >> 2 * j & 3) + 4 * (b->hm[l] >> (4 * half + j) & 1) - 4;
            y[i] = d * (float)th_q3_k_scale(b->s, i / 16) * (float)q;
        }
    }
}

void th_dequantize_q4_k(float *y, const void *w, size_t n) {
    const BlockQ4_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d), dmin = th_half(b->dmin);
        for (int g = 0; g < 8; g++) {
            float scale = d * (float)th_k_scale(b->t, g), min = dmin * (float)th_k_min(b->t, g);
            for (int l = 0; l < 32; l++) {
                int q = b->qs[32 * (g / 2) + l] >> 4 * (g & 1) & 15;
                y[32 * g + l] = scale * (float)q - min;
            }
        }
    }
}

void th_dequantize_q5_k(float *y, const void *w, size_t n) {
    const BlockQ5_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d), dmin = th_half(b->dmin);
        for (int g = 0; g < 8; g++) {
            float scale = d * (float)th_k_scale(b->t, g), min = dmin * (float)th_k_min(b->t, g);
            for (int l = 0; l < 32; l++) {
                int q = (b->qs[32 * (g / 2) + l] >> 4 * (g & 1) & 15) + 16 * (b->qh[l] >> g & 1);
                y[32 * g + l] = scale * (float)q - min;
            }
        }
    }
}

void th_dequantize_q6_k(float *y, const void *w, size_t n) {
    const BlockQ6_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int i = 0; i < 256; i++) {
            int half = i / 128, k = i % 128 / 32, l = i % 32, group = i / 16;
            int low = b->ql[64 * half + 32 * (k & 1) + l] >> 4 * (k >> 1) & 15;
            int q = (low | (b->qh[32 * half + l] >> 2 * k & 3) << 4) - 32;
            y[i] = d * (float)b->sc[group] * (float)q;
        }
    }
}

void th_dequantize_q8_k(float *y, const void *w, size_t n) {
    const BlockQ8_K *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_f32_from_bits(th_u32(b->d));
        for (int i = 0; i < 256; i++) y[i] = d * (float)b->q[i];
    }
}
