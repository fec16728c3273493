/* kq_avx2.c: K-quants with AVX2 (kq_panel_avx2.h).
 *
 * How many products of pairs fit in 16 bits (32767), activations being at most 127:
 *   Q2_K   3*127*2 =   762, 4 steps (a group of 16)
 *   Q3_K   7*127*2 =  1778, 4 steps
 *   Q4_K  15*127*2 =  3810, 8 steps (a group of 32): 30480
 *   Q5_K  31*127*2 =  7874, 4 steps: 31496
 *   Q6_K  63*127*2 = 16002, 2 steps: 32004 */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avx2.h"

static const KqShape q2_k = {84, 16, 4, KQ_MINIMUM, unpack_q2_k, sum_pairs};
static void q2_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q2_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q2_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_k_avx2 = {ACT_Q8_K, q2_k_row1, q2_k_rows, "kq_avx2"};

static const KqShape q3_k = {110, 16, 4, KQ_OFFSET, unpack_q3_k, sum_pairs};
static void q3_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q3_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q3_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q3_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q3_k_avx2 = {ACT_Q8_K, q3_k_row1, q3_k_rows, "kq_avx2"};

static const KqShape q4_k = {144, 8, 8, KQ_MINIMUM, unpack_q4_k, sum_pairs};
static void q4_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q4_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q4_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_k_avx2 = {ACT_Q8_K, q4_k_row1, q4_k_rows, "kq_avx2"};

static const KqShape q5_k = {176, 8, 4, KQ_MINIMUM, unpack_q5_k, sum_pairs};
static void q5_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q5_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q5_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_k_avx2 = {ACT_Q8_K, q5_k_row1, q5_k_rows, "kq_avx2"};

static const KqShape q6_k = {210, 16, 2, KQ_OFFSET, unpack_q6_k, sum_pairs};
static void q6_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q6_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q6_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q6_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q6_k_avx2 = {ACT_Q8_K, q6_k_row1, q6_k_rows, "kq_avx2"};
