/* iq_c.c: products with the codebook types; the definition of their bits (docs/KERNELS.md).
 *
 * The halves and eighths of the formulas go into the block's scale, where they are exact. The +-1/8 that IQ1 adds to
 * its grid makes integers of 8 * grid +- 1. */
#include "kernel/c/c.h"
#include "kernel/c/tile_c.h"

/* q[0..count) = grid entry, negated where the mask has a bit. */
TH_INLINE void put_signed(int8_t *q, const uint8_t *grid, int count, unsigned mask) {
    for (int e = 0; e < count; e++) q[e] = (int8_t)(mask >> e & 1 ? -grid[e] : grid[e]);
}

static void unpack_iq2_xxs(Super *u, const void *block) {
    const BlockIQ2_XXS *b = block;
    u->d = 0.125f * th_half(b->d);
    for (int k = 0; k < 32; k++) {
        uint32_t word = th_u32(b->g[k / 4].w);
        u->sc[k / 2] = (int8_t)(2 * (word >> 28) + 1);
        put_signed(u->q + 8 * k, th_grid_iq2_xxs[b->g[k / 4].x[k % 4]], 8, th_even_signs(word >> 7 * (k % 4) & 127));
    }
}
static void iq2_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq2_xxs, sizeof(BlockIQ2_XXS), false);
}
static void iq2_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq2_xxs, sizeof(BlockIQ2_XXS),
              false);
}
const MatKernel th_iq2_xxs_c = {ACT_Q8_K, iq2_xxs_row1, iq2_xxs_rows, "iq_c"};

static void unpack_iq2_xs(Super *u, const void *block) {
    const BlockIQ2_XS *b = block;
    u->d = 0.125f * th_half(b->d);
    for (int k = 0; k < 32; k++) {
        unsigned v = th_u16(b->v[k]);
        u->sc[k / 2] = (int8_t)(2 * (b->sc[k / 4] >> 4 * (k % 4 / 2) & 15) + 1);
        put_signed(u->q + 8 * k, th_grid_iq2_xs[v & 511], 8, th_even_signs(v >> 9));
    }
}
static void iq2_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq2_xs, sizeof(BlockIQ2_XS), false);
}
static void iq2_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq2_xs, sizeof(BlockIQ2_XS), false);
}
const MatKernel th_iq2_xs_c = {ACT_Q8_K, iq2_xs_row1, iq2_xs_rows, "iq_c"};

static void unpack_iq2_s(Super *u, const void *block) {
    const BlockIQ2_S *b = block;
    u->d = 0.125f * th_half(b->d);
    for (int k = 0; k < 32; k++) {
        u->sc[k / 2] = (int8_t)(2 * (b->sc[k / 4] >> 4 * (k % 4 / 2) & 15) + 1);
        put_signed(u->q + 8 * k, th_grid_iq2_s[b->lo[k] | (b->qh[k / 4] >> 2 * (k % 4) & 3) << 8], 8, b->m[k]);
    }
}
static void iq2_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq2_s, sizeof(BlockIQ2_S), false);
}
static void iq2_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq2_s, sizeof(BlockIQ2_S), false);
}
const MatKernel th_iq2_s_c = {ACT_Q8_K, iq2_s_row1, iq2_s_rows, "iq_c"};

static void unpack_iq3_xxs(Super *u, const void *block) {
    const BlockIQ3_XXS *b = block;
    u->d = 0.25f * th_half(b->d);
    for (int k = 0; k < 32; k++) {
        uint32_t word = th_u32(b->w[k / 4]);
        unsigned mask = th_even_signs(word >> 7 * (k % 4) & 127);
        u->sc[k / 2] = (int8_t)(2 * (word >> 28) + 1);
        put_signed(u->q + 8 * k, th_grid_iq3_xxs[b->x[2 * k]], 4, mask);
        put_signed(u->q + 8 * k + 4, th_grid_iq3_xxs[b->x[2 * k + 1]], 4, mask >> 4);
    }
}
static void iq3_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq3_xxs, sizeof(BlockIQ3_XXS), false);
}
static void iq3_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq3_xxs, sizeof(BlockIQ3_XXS),
              false);
}
const MatKernel th_iq3_xxs_c = {ACT_Q8_K, iq3_xxs_row1, iq3_xxs_rows, "iq_c"};

static void unpack_iq3_s(Super *u, const void *block) {
    const BlockIQ3_S *b = block;
    u->d = th_half(b->d);
    for (int t = 0; t < 64; t++) {
        u->sc[t / 4] = (int8_t)(2 * (b->sc[t / 16] >> 4 * (t / 8 % 2) & 15) + 1);
        put_signed(u->q + 4 * t, th_grid_iq3_s[b->lo[t] | (b->qh[t / 8] >> t % 8 & 1) << 8], 4,
                   (unsigned)b->m[t / 2] >> 4 * (t % 2));
    }
}
static void iq3_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq3_s, sizeof(BlockIQ3_S), false);
}
static void iq3_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq3_s, sizeof(BlockIQ3_S), false);
}
const MatKernel th_iq3_s_c = {ACT_Q8_K, iq3_s_row1, iq3_s_rows, "iq_c"};

TH_INLINE void put_iq1(int8_t *q, const int8_t *grid, int delta) {
    for (int e = 0; e < 8; e++) q[e] = (int8_t)(8 * grid[e] + delta);
}

static void unpack_iq1_s(Super *u, const void *block) {
    const BlockIQ1_S *b = block;
    u->d = 0.125f * th_half(b->d);
    for (int k = 0; k < 32; k++) {
        int h = th_u16(b->h[k / 4]);
        u->sc[k / 2] = (int8_t)(2 * (h >> 12 & 7) + 1);
        put_iq1(u->q + 8 * k, th_grid_iq1[b->lo[k] | (h >> 3 * (k % 4) & 7) << 8], h & 0x8000 ? -1 : 1);
    }
}
static void iq1_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq1_s, sizeof(BlockIQ1_S), false);
}
static void iq1_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq1_s, sizeof(BlockIQ1_S), false);
}
const MatKernel th_iq1_s_c = {ACT_Q8_K, iq1_s_row1, iq1_s_rows, "iq_c"};

static void unpack_iq1_m(Super *u, const void *block) {
    const BlockIQ1_M *b = block;
    u->d = 0.125f * th_iq1_m_scale(b->w);
    for (int k = 0; k < 32; k++) {
        int h = k / 2, high = b->qh[h] >> 4 * (k % 2);
        u->sc[h] = (int8_t)(2 * (th_u16(b->w[h / 4]) >> 3 * (h % 4) & 7) + 1);
        put_iq1(u->q + 8 * k, th_grid_iq1[b->lo[k] | (high & 7) << 8], high & 8 ? -1 : 1);
    }
}
static void iq1_m_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq1_m, sizeof(BlockIQ1_M), false);
}
static void iq1_m_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq1_m, sizeof(BlockIQ1_M), false);
}
const MatKernel th_iq1_m_c = {ACT_Q8_K, iq1_m_row1, iq1_m_rows, "iq_c"};

static void unpack_iq4_xs(Super *u, const void *block) {
    const BlockIQ4_XS *b = block;
    u->d = th_half(b->d);
    for (int g = 0; g < 8; g++) {
        u->sc[2 * g] = u->sc[2 * g + 1] = (int8_t)th_iq4_xs_scale(b, g);
        for (int j = 0; j < 16; j++) {
            u->q[32 * g + j] = th_values_iq4[b->p[16 * g + j] & 15];
            u->q[32 * g + j + 16] = th_values_iq4[b->p[16 * g + j] >> 4];
        }
    }
}
static void iq4_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq4_xs, sizeof(BlockIQ4_XS), false);
}
static void iq4_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq4_xs, sizeof(BlockIQ4_XS), false);
}
const MatKernel th_iq4_xs_c = {ACT_Q8_K, iq4_xs_row1, iq4_xs_rows, "iq_c"};

static void unpack_iq4_nl(Groups *u, const void *block) {
    const BlockIQ4_NL *b = block;
    u->d[0] = th_half(b->d);
    for (int j = 0; j < 16; j++) {
        u->q[j] = th_values_iq4[b->p[j] & 15];
        u->q[j + 16] = th_values_iq4[b->p[j] >> 4];
    }
}
static void iq4_nl_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_iq4_nl, add_one, 32, sizeof(BlockIQ4_NL));
}
static void iq4_nl_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_iq4_nl, add_one, 32,
               sizeof(BlockIQ4_NL));
}
const MatKernel th_iq4_nl_c = {ACT_Q8_0, iq4_nl_row1, iq4_nl_rows, "iq_c"};
