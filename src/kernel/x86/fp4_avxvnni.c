/* fp4_avxvnni.c: 4-bit floats with AVX-VNNI (fp4_panel_avx2.h). */
#include "kernel/x86/fp4_panel_avx2.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avxvnni.h"

static const LegacyShape mxfp4 = {136, 12, 4, ONE_SCALE, unpack_mxfp4, block_dot};
static void mxfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(mxfp4, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void mxfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(mxfp4, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_mxfp4_avxvnni = {ACT_Q8_0, mxfp4_row1, mxfp4_rows, "fp4_avxvnni"};

static const LegacyShape nvfp4 = {144, 0, 1, SCALE_OF_HALVES, unpack_nvfp4, block_signed};
static void nvfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(nvfp4, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void nvfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(nvfp4, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_nvfp4_avxvnni = {ACT_Q8_0, nvfp4_row1, nvfp4_rows, "fp4_avxvnni"};
