/* lowbit_c.c: products with one- and two-bit and ternary types; the definition of their bits (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/tile_c.h"

static void unpack_tq1_0(Super *u, const void *block) {
    const BlockTQ1_0 *b = block;
    u->d = th_half(b->d);
    memset(u->sc, 1, 16);
    for (int i = 0; i < 256; i++) u->q[i] = (int8_t)(th_tq1_0_digit(b, i) - 1);
}
static void tq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_tq1_0, sizeof(BlockTQ1_0), false);
}
static void tq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_tq1_0, sizeof(BlockTQ1_0), false);
}
const MatKernel th_tq1_0_c = {ACT_Q8_K, tq1_0_row1, tq1_0_rows, "lowbit_c"};

static void unpack_tq2_0(Super *u, const void *block) {
    const BlockTQ2_0 *b = block;
    u->d = th_half(b->d);
    memset(u->sc, 1, 16);
    for (int i = 0; i < 256; i++) u->q[i] = (int8_t)((b->qs[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3) - 1);
}
static void tq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_super((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_tq2_0, sizeof(BlockTQ2_0), false);
}
static void tq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_super((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_tq2_0, sizeof(BlockTQ2_0), false);
}
const MatKernel th_tq2_0_c = {ACT_Q8_K, tq2_0_row1, tq2_0_rows, "lowbit_c"};

TH_INLINE void put_pairs(int8_t *q, const uint8_t *p, int count) {
    for (int i = 0; i < count; i++) q[i] = (int8_t)((p[i / 4] >> 2 * (i % 4) & 3) - 1);
}

static void unpack_q1_0(Groups *u, const void *block) {
    const BlockQ1_0 *b = block;
    u->d[0] = th_half(b->d);
    for (int i = 0; i < 128; i++) u->q[i] = b->b[i / 8] >> i % 8 & 1 ? 1 : -1;
}
static void q1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q1_0, add_shared_4, 128, sizeof(BlockQ1_0));
}
static void q1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q1_0, add_shared_4, 128,
               sizeof(BlockQ1_0));
}
const MatKernel th_q1_0_c = {ACT_Q8_0, q1_0_row1, q1_0_rows, "lowbit_c"};

static void unpack_q2_0(Groups *u, const void *block) {
    const BlockQ2_0 *b = block;
    u->d[0] = th_half(b->d);
    put_pairs(u->q, b->b, 64);
}
static void q2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_q2_0, add_shared_2, 64, sizeof(BlockQ2_0));
}
static void q2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_q2_0, add_shared_2, 64,
               sizeof(BlockQ2_0));
}
const MatKernel th_q2_0_c = {ACT_Q8_0, q2_0_row1, q2_0_rows, "lowbit_c"};

static void unpack_pq2_0(Groups *u, const void *block) {
    const BlockPQ2_0 *b = block;
    u->d[0] = th_half(b->d);
    put_pairs(u->q, b->b, 128);
}
static void pq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_pq2_0, add_shared_4, 128, sizeof(BlockPQ2_0));
}
static void pq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_pq2_0, add_shared_4, 128,
               sizeof(BlockPQ2_0));
}
const MatKernel th_pq2_0_c = {ACT_Q8_0, pq2_0_row1, pq2_0_rows, "lowbit_c"};

static void unpack_ptq1_0(Groups *u, const void *block) {
    const BlockPTQ1_0 *b = block;
    u->d[0] = th_half(b->d);
    for (int i = 0; i < 128; i++) u->q[i] = (int8_t)(th_ptq1_0_digit(b, i) - 1);
}
static void ptq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_ptq1_0, add_shared_4, 128, sizeof(BlockPTQ1_0));
}
static void ptq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_ptq1_0, add_shared_4, 128,
               sizeof(BlockPTQ1_0));
}
const MatKernel th_ptq1_0_c = {ACT_Q8_0, ptq1_0_row1, ptq1_0_rows, "lowbit_c"};
