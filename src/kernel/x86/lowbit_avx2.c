/* lowbit_avx2.c: one- and two-bit and ternary types with AVX2 (lowbit_panel_avx2.h). A pair of products is at most
 * 3*127*2 = 762: 8 steps fit in 16 bits. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lowbit_panel_avx2.h"
#include "kernel/x86/sum_avx2.h"

static const KqShape tq1_0 = {54, 8, 8, KQ_OFFSET, unpack_tq1_0, sum_pairs};
static void tq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(tq1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void tq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(tq1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_tq1_0_avx2 = {ACT_Q8_K, tq1_0_row1, tq1_0_rows, "lowbit_avx2"};

static const KqShape tq2_0 = {66, 8, 8, KQ_OFFSET, unpack_tq2_0, sum_pairs};
static void tq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(tq2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void tq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(tq2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_tq2_0_avx2 = {ACT_Q8_K, tq2_0_row1, tq2_0_rows, "lowbit_avx2"};

static const LegacyShape q1_0 = {36, 1, 8, SCALE_OF_FOUR, unpack_q1_0, block_pairs};
static void q1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q1_0_avx2 = {ACT_Q8_0, q1_0_row1, q1_0_rows, "lowbit_avx2"};

static const LegacyShape q2_0 = {72, 1, 8, SCALE_OF_TWO, unpack_q2_0, block_pairs};
static void q2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_0_avx2 = {ACT_Q8_0, q2_0_row1, q2_0_rows, "lowbit_avx2"};

static const LegacyShape pq2_0 = {68, 1, 8, SCALE_OF_FOUR, unpack_pq2_0, block_pairs};
static void pq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(pq2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void pq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(pq2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_pq2_0_avx2 = {ACT_Q8_0, pq2_0_row1, pq2_0_rows, "lowbit_avx2"};

static const LegacyShape ptq1_0 = {56, 1, 8, SCALE_OF_FOUR, unpack_ptq1_0, block_pairs};
static void ptq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(ptq1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void ptq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    legacy_rows(ptq1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_ptq1_0_avx2 = {ACT_Q8_0, ptq1_0_row1, ptq1_0_rows, "lowbit_avx2"};
