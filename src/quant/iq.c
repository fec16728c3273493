/* iq.c: codebook types: groups of 4 or 8 weights are entries of a fixed grid, signs apart (section 5). */
#include "quant/layout.h"

/* y[0..count) = scale * grid entry, negated where the mask has a bit. */
static void put_signed(float *y, float scale, const uint8_t *grid, int count, unsigned mask) {
    for (int e = 0; e < count; e++) {
        float v = scale * (float)grid[e];
        y[e] = mask >> e & 1 ? -v : v;
    }
}

void th_dequantize_iq2_xxs(float *y, const void *w, size_t n) {
    const BlockIQ2_XXS *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int k = 0; k < 32; k++) {
            uint32_t word = th_u32(b->g[k / 4].w);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
            put_signed(y + 8 * k, scale, th_grid_iq2_xxs[b->g[k / 4].x[k % 4]], 8,
                       th_even_signs(word >> 7 * (k % 4) & 127));
        }
    }
}

void th_dequantize_iq2_xs(float *y, const void *w, size_t n) {
    const BlockIQ2_XS *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int k = 0; k < 32; k++) {
            unsigned v = th_u16(b->v[k]);
            int s = b->sc[k / 4] >> 4 * (k % 4 / 2) & 15;
            put_signed(y + 8 * k, d * (0.5f + (float)s) * 0.25f, th_grid_iq2_xs[v & 511], 8, th_even_signs(v >> 9));
        }
    }
}

void th_dequantize_iq2_s(float *y, const void *w, size_t n) {
    const BlockIQ2_S *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int k = 0; k < 32; k++) {
            int index = b->lo[k] | (b->qh[k / 4] >> 2 * (k % 4) & 3) << 8;
            int s = b->sc[k / 4] >> 4 * (k % 4 / 2) & 15;
            put_signed(y + 8 * k, d * (0.5f + (float)s) * 0.25f, th_grid_iq2_s[index], 8, b->m[k]);
        }
    }
}

void th_dequantize_iq3_xxs(float *y, const void *w, size_t n) {
    const BlockIQ3_XXS *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int k = 0; k < 32; k++) {
            uint32_t word = th_u32(b->w[k / 4]);
            float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
            unsigned mask = th_even_signs(word >> 7 * (k % 4) & 127);
            put_signed(y + 8 * k, scale, th_grid_iq3_xxs[b->x[2 * k]], 4, mask);
            put_signed(y + 8 * k + 4, scale, th_grid_iq3_xxs[b->x[2 * k + 1]], 4, mask >> 4);
        }
    }
}

void th_dequantize_iq3_s(float *y, const void *w, size_t n) {
    const BlockIQ3_S *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int t = 0; t < 64; t++) {
            int index = b->lo[t] | (b->qh[t / 8] >> t % 8 & 1) << 8;
            int s = b->sc[t / 16] >> 4 * (t / 8 % 2) & 15;
            unsigned mask = (unsigned)b->m[t / 2] >> 4 * (t % 2);
            put_signed(y + 4 * t, d * (float)(1 + 2 * s), th_grid_iq3_s[index], 4, mask);
        }
    }
}

static void put_iq1(float *y, float scale, const int8_t *grid, float delta) {
    for (int e = 0; e < 8; e++) y[e] = scale * ((float)grid[e] + delta);
}

void th_dequantize_iq1_s(float *y, const void *w, size_t n) {
    const BlockIQ1_S *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int k = 0; k < 32; k++) {
            int h = th_u16(b->h[k / 4]);
            int index = b->lo[k] | (h >> 3 * (k % 4) & 7) << 8;
            put_iq1(y + 8 * k, d * (float)(2 * (h >> 12 & 7) + 1), th_grid_iq1[index], h & 0x8000 ? -0.125f : 0.125f);
        }
    }
}

void th_dequantize_iq1_m(float *y, const void *w, size_t n) {
    const BlockIQ1_M *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_iq1_m_scale(b->w);
        for (int k = 0; k < 32; k++) {
            int h = k / 2, high = b->qh[h] >> 4 * (k % 2);
            int s = th_u16(b->w[h / 4]) >> 3 * (h % 4) & 7;
            put_iq1(y + 8 * k, d * (float)(2 * s + 1), th_grid_iq1[b->lo[k] | (high & 7) << 8],
                    high & 8 ? -0.125f : 0.125f);
        }
    }
}

void th_dequantize_iq4_nl(float *y, const void *w, size_t n) {
    const BlockIQ4_NL *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_half(b->d);
        for (int j = 0; j < 16; j++) {
            y[j] = d * (float)th_values_iq4[b->p[j] & 15];
            y[j + 16] = d * (float)th_values_iq4[b->p[j] >> 4];
        }
    }
}

void th_dequantize_iq4_xs(float *y, const void *w, size_t n) {
    const BlockIQ4_XS *b = w;
    for (; n >= 256; n -= 256, b++, y += 256) {
        float d = th_half(b->d);
        for (int g = 0; g < 8; g++) {
            float scale = d * (float)th_iq4_xs_scale(b, g);
            for (int j = 0; j < 16; j++) {
                y[32 * g + j] = scale * (float)th_values_iq4[b->p[16 * g + j] & 15];
                y[32 * g + j + 16] = scale * (float)th_values_iq4[b->p[16 * g + j] >> 4];
            }
        }
    }
}
