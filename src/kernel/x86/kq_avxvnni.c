/* kq_avxvnni.c: K-quants with AVX-VNNI (kq_panel_avx2.h): vpdpbusd adds four products to 32 bits and never saturates.
 */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avxvnni.h"

static const KqShape q2_k = {84, 16, 4, KQ_MINIMUM, unpack_q2_k, sum_dot};
static void q2_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q2_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q2_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_k_avxvnni = {ACT_Q8_K, q2_k_row1, q2_k_rows, "kq_avxvnni"};

static const KqShape q3_k = {110, 16, 4, KQ_OFFSET, unpack_q3_k, sum_dot};
static void q3_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q3_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q3_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q3_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q3_k_avxvnni = {ACT_Q8_K, q3_k_row1, q3_k_rows, "kq_avxvnni"};

static const KqShape q4_k = {144, 8, 8, KQ_MINIMUM, unpack_q4_k, sum_dot};
static void q4_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q4_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q4_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_k_avxvnni = {ACT_Q8_K, q4_k_row1, q4_k_rows, "kq_avxvnni"};

static const KqShape q5_k = {176, 8, 4, KQ_MINIMUM, unpack_q5_k, sum_dot};
static void q5_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q5_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q5_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_k_avxvnni = {ACT_Q8_K, q5_k_row1, q5_k_rows, "kq_avxvnni"};

static const KqShape q6_k = {210, 16, 2, KQ_OFFSET, unpack_q6_k, sum_dot};
static void q6_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q6_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q6_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q6_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q6_k_avxvnni = {ACT_Q8_K, q6_k_row1, q6_k_rows, "kq_avxvnni"};
