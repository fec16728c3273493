/* fp4_c.c: products with the 4-bit float types; the definition of their bits (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/tile_c.h"

static void unpack_mxfp4(Groups *u, const void *block) {
    const BlockMXFP4 *b = block;
    u->d[0] = th_e8m0_half(b->e);
    for (int j = 0; j < 16; j++) {
        u->q[j] = th_values_fp4[b->p[j] & 15];
        u->q[j + 16] = th_values_fp4[b->p[j] >> 4];
    }
}
static void mxfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_mxfp4, add_one, 32, sizeof(BlockMXFP4));
}
static void mxfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_mxfp4, add_one, 32,
               sizeof(BlockMXFP4));
}
const MatKernel th_mxfp4_c = {ACT_Q8_0, mxfp4_row1, mxfp4_rows, "fp4_c"};

static void unpack_nvfp4(Groups *u, const void *block) {
    const BlockNVFP4 *b = block;
    for (int s = 0; s < 4; s++) {
        u->d[s] = th_ue4m3_half(b->sc[s]);
        for (int j = 0; j < 8; j++) {
            u->q[16 * s + j] = th_values_fp4[b->p[8 * s + j] & 15];
            u->q[16 * s + j + 8] = th_values_fp4[b->p[8 * s + j] >> 4];
        }
    }
}
static void nvfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_groups((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, unpack_nvfp4, add_halves, 64, sizeof(BlockNVFP4));
}
static void nvfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    mat_groups((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, unpack_nvfp4, add_halves, 64,
               sizeof(BlockNVFP4));
}
const MatKernel th_nvfp4_c = {ACT_Q8_0, nvfp4_row1, nvfp4_rows, "fp4_c"};
