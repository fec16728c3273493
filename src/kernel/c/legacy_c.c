/* legacy_c.c: products with the 32-weight types; the definition of their bits (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/tile_c.h"

static void unpack_q4_0(Groups *u, const void *block) {
    const BlockQ4_0 *b = block;
    u->d[0] = th_half(b->d);
    for (int j = 0; j < 16; j++) {
        u->q[j] = (int8_t)((b->p[j] & 15) - 8);
        u->q[j + 16] = (int8_t)((b->p[j] >> 4) - 8);
    }
}
static void q4_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q4_0, add_one, 32, sizeof(BlockQ4_0));
}
static void q4_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q4_0, add_one, 32,
               sizeof(BlockQ4_0));
}
const MatKernel th_q4_0_c = {ACT_Q8_0, q4_0_row1, q4_0_rows, "legacy_c"};

static void unpack_q4_1(Groups *u, const void *block) {
    const BlockQ4_1 *b = block;
    u->d[0] = th_half(b->d);
    u->m = th_half(b->m);
    for (int j = 0; j < 16; j++) {
        u->q[j] = (int8_t)(b->p[j] & 15);
        u->q[j + 16] = (int8_t)(b->p[j] >> 4);
    }
}
static void q4_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q4_1, add_min, 32, sizeof(BlockQ4_1));
}
static void q4_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q4_1, add_min, 32,
               sizeof(BlockQ4_1));
}
const MatKernel th_q4_1_c = {ACT_Q8_0, q4_1_row1, q4_1_rows, "legacy_c"};

/* The fifth bits of weight j and of weight j + 16, as 0 or 16. */
TH_INLINE int fifth(uint32_t h, int i) { return (int)(h >> i & 1) * 16; }

static void unpack_q5_0(Groups *u, const void *block) {
    const BlockQ5_0 *b = block;
    uint32_t h = th_u32(b->h);
    u->d[0] = th_half(b->d);
    for (int j = 0; j < 16; j++) {
        u->q[j] = (int8_t)((b->p[j] & 15) + fifth(h, j) - 16);
        u->q[j + 16] = (int8_t)((b->p[j] >> 4) + fifth(h, j + 16) - 16);
    }
}
static void q5_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q5_0, add_one, 32, sizeof(BlockQ5_0));
}
static void q5_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q5_0, add_one, 32,
               sizeof(BlockQ5_0));
}
const MatKernel th_q5_0_c = {ACT_Q8_0, q5_0_row1, q5_0_rows, "legacy_c"};

static void unpack_q5_1(Groups *u, const void *block) {
    const BlockQ5_1 *b = block;
    uint32_t h = th_u32(b->h);
    u->d[0] = th_half(b->d);
    u->m = th_half(b->m);
    for (int j = 0; j < 16; j++) {
        u->q[j] = (int8_t)((b->p[j] & 15) + fifth(h, j));
        u->q[j + 16] = (int8_t)((b->p[j] >> 4) + fifth(h, j + 16));
    }
}
static void q5_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q5_1, add_min, 32, sizeof(BlockQ5_1));
}
static void q5_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q5_1, add_min, 32,
               sizeof(BlockQ5_1));
}
const MatKernel th_q5_1_c = {ACT_Q8_0, q5_1_row1, q5_1_rows, "legacy_c"};

static void unpack_q8_0(Groups *u, const void *block) {
    const BlockQ8_0 *b = block;
    u->d[0] = th_half(b->d);
    memcpy(u->q, b->q, 32);
}
static void q8_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q8_0, add_one, 32, sizeof(BlockQ8_0));
}
static void q8_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q8_0, add_one, 32,
               sizeof(BlockQ8_0));
}
const MatKernel th_q8_0_c = {ACT_Q8_0, q8_0_row1, q8_0_rows, "legacy_c"};
