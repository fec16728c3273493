/* kq_c.c: products with the K types; the definition of their bits (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/tile_c.h"

static void unpack_q2_k(Super *u, const void *block) {
    const BlockQ2_K *b = block;
    u->d = th_half(b->d);
    u->dmin = th_half(b->dmin);
    for (int g = 0; g < 16; g++) {
        u->sc[g] = (int8_t)(b->s[g] & 15);
        u->mn[g] = b->s[g] >> 4;
    }
    for (int i = 0; i < 256; i++) u->q[i] = (int8_t)(b->qs[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3);
}
static void q2_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q2_k, sizeof(BlockQ2_K), true);
}
static void q2_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q2_k, sizeof(BlockQ2_K), true);
}
const MatKernel th_q2_k_c = {ACT_Q8_K, q2_k_row1, q2_k_rows, "kq_c"};

static void unpack_q3_k(Super *u, const void *block) {
    const BlockQ3_K *b = block;
    u->d = th_half(b->d);
    for (int g = 0; g < 16; g++) u->sc[g] = (int8_t)th_q3_k_scale(b->s, g);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, j = i % 128 / 32, l = i % 32;
        u->q[i] = (int8_t)((b->qs[32 * half + l] >> 2 * j & 3) + 4 * (b->hm[l] >> (4 * half + j) & 1) - 4);
    }
}
static void q3_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q3_k, sizeof(BlockQ3_K), false);
}
static void q3_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q3_k, sizeof(BlockQ3_K), false);
}
const MatKernel th_q3_k_c = {ACT_Q8_K, q3_k_row1, q3_k_rows, "kq_c"};

static void unpack_q4_k(Super *u, const void *block) {
    const BlockQ4_K *b = block;
    u->d = th_half(b->d);
    u->dmin = th_half(b->dmin);
    for (int g = 0; g < 16; g++) {
        u->sc[g] = (int8_t)th_k_scale(b->t, g / 2);
        u->mn[g] = (uint8_t)th_k_min(b->t, g / 2);
    }
    for (int c = 0; c < 4; c++) {
        for (int l = 0; l < 32; l++) {
            u->q[64 * c + l] = (int8_t)(b->qs[32 * c + l] & 15);
            u->q[64 * c + 32 + l] = (int8_t)(b->qs[32 * c + l] >> 4);
        }
    }
}
static void q4_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q4_k, sizeof(BlockQ4_K), true);
}
static void q4_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q4_k, sizeof(BlockQ4_K), true);
}
const MatKernel th_q4_k_c = {ACT_Q8_K, q4_k_row1, q4_k_rows, "kq_c"};

static void unpack_q5_k(Super *u, const void *block) {
    const BlockQ5_K *b = block;
    u->d = th_half(b->d);
    u->dmin = th_half(b->dmin);
    for (int g = 0; g < 16; g++) {
        u->sc[g] = (int8_t)th_k_scale(b->t, g / 2);
        u->mn[g] = (uint8_t)th_k_min(b->t, g / 2);
    }
    for (int c = 0; c < 4; c++) {
        for (int l = 0; l < 32; l++) {
            u->q[64 * c + l] = (int8_t)((b->qs[32 * c + l] & 15) + 16 * (b->qh[l] >> 2 * c & 1));
            u->q[64 * c + 32 + l] = (int8_t)((b->qs[32 * c + l] >> 4) + 16 * (b->qh[l] >> (2 * c + 1) & 1));
        }
    }
}
static void q5_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q5_k, sizeof(BlockQ5_K), true);
}
static void q5_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q5_k, sizeof(BlockQ5_K), true);
}
const MatKernel th_q5_k_c = {ACT_Q8_K, q5_k_row1, q5_k_rows, "kq_c"};

static void unpack_q6_k(Super *u, const void *block) {
    const BlockQ6_K *b = block;
    u->d = th_half(b->d);
    memcpy(u->sc, b->sc, 16);
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = b->ql + 64 * half, *high = b->qh + 32 * half;
        int8_t *q = u->q + 128 * half;
        for (int l = 0; l < 32; l++) {
            q[l] = (int8_t)(((low[l] & 15) | (high[l] & 3) << 4) - 32);
            q[l + 32] = (int8_t)(((low[l + 32] & 15) | (high[l] >> 2 & 3) << 4) - 32);
            q[l + 64] = (int8_t)((low[l] >> 4 | (high[l] >> 4 & 3) << 4) - 32);
            q[l + 96] = (int8_t)((low[l + 32] >> 4 | (high[l] >> 6) << 4) - 32);
        }
    }
}
static void q6_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q6_k, sizeof(BlockQ6_K), false);
}
static void q6_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q6_k, sizeof(BlockQ6_K), false);
}
const MatKernel th_q6_k_c = {ACT_Q8_K, q6_k_row1, q6_k_rows, "kq_c"};
