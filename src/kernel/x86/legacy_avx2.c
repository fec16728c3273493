/* legacy_avx2.c: blocks of 32 weights with AVX2 (legacy_panel_avx2.h).
 *
 * Q8_0 keeps its sign and multiplies |w| with x signed by w: |-128| is 128 as an unsigned byte. How many products of
 * pairs fit in 16 bits (32767), activations being at most 127: 4 bits   15*127*2 =  3810, 8 steps: 30480 5 bits
 * 31*127*2 =  7874, 4 steps: 31496 8 bits  128*127*2 = 32512, 1 step */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avx2.h"

static const LegacyShape q4_0 = {144, 8, 8, ONE_SCALE, unpack_q4_0, block_pairs};
static void q4_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_0_avx2 = {ACT_Q8_0, q4_0_row1, q4_0_rows, "legacy_avx2"};

static const LegacyShape q4_1 = {160, 0, 8, SCALE_AND_MINIMUM, unpack_q4_1, block_pairs};
static void q4_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_1_avx2 = {ACT_Q8_0, q4_1_row1, q4_1_rows, "legacy_avx2"};

static const LegacyShape q5_0 = {176, 16, 4, ONE_SCALE, unpack_q5_0, block_pairs};
static void q5_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_0_avx2 = {ACT_Q8_0, q5_0_row1, q5_0_rows, "legacy_avx2"};

static const LegacyShape q5_1 = {192, 0, 4, SCALE_AND_MINIMUM, unpack_q5_1, block_pairs};
static void q5_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_1_avx2 = {ACT_Q8_0, q5_1_row1, q5_1_rows, "legacy_avx2"};

static const LegacyShape q8_0 = {272, 0, 1, ONE_SCALE, unpack_q8_0, block_pairs};
static void q8_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q8_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q8_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q8_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q8_0_avx2 = {ACT_Q8_0, q8_0_row1, q8_0_rows, "legacy_avx2"};
