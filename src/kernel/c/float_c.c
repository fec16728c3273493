/* float_c.c: products with F32, F16 and BF16 weights: 32 lanes of fused additions (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/lanes_c.h"
#include "kernel/c/tile_c.h"

typedef void Widen(float y[32], const char *w, int first, int count);

TH_INLINE void mat_float(MatJob j, Widen *widen) {
    for (int r = 0; r < j.rows; r++) {
        for (int t0 = 0; t0 < j.T; t0 += TILE) {
            int n = th_min_int(TILE, j.T - t0);
            Lanes32 acc[TILE] = {0};
            float w[32];
            for (int first = 0; first < j.cols; first += 32) {
                int count = th_min_int(32, j.cols - first);
                widen(w, job_row(&j, r), first, count);
                for (int t = 0; t < n; t++) {
                    const float *x = (const float *)(const void *)job_x(&j, t0 + t) + first;
                    lanes32_add(&acc[t], w, x, count);
                }
            }
            for (int t = 0; t < n; t++) j.y[(size_t)(t0 + t) * j.y_stride + (size_t)r] = lanes32_sum(&acc[t]);
        }
    }
}

TH_INLINE void widen_f32(float y[32], const char *w, int first, int count) {
    memcpy(y, w + 4 * (size_t)first, 4 * (size_t)count);
}
TH_INLINE void widen_f16(float y[32], const char *w, int first, int count) {
    const U16 *h = (const U16 *)(const void *)w + first;
    for (int i = 0; i < count; i++) y[i] = th_half(h[i]);
}
TH_INLINE void widen_bf16(float y[32], const char *w, int first, int count) {
    const U16 *h = (const U16 *)(const void *)w + first;
    for (int i = 0; i < count; i++) y[i] = th_bf16_to_f32(th_u16(h[i]));
}

static void f32_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_float((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, widen_f32);
}
static void f32_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    mat_float((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, widen_f32);
}
const MatKernel th_f32_c = {ACT_F32, f32_row1, f32_rows, "float_c"};

static void f16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_float((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, widen_f16);
}
static void f16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    mat_float((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, widen_f16);
}
const MatKernel th_f16_c = {ACT_F32, f16_row1, f16_rows, "float_c"};

static void bf16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    mat_float((MatJob){y, 0, w, stride, x, 0, cols, rows, 1}, widen_bf16);
}
static void bf16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    mat_float((MatJob){y, y_stride, w, stride, x, x_stride, cols, rows, T}, widen_bf16);
}
const MatKernel th_bf16_c = {ACT_F32, bf16_row1, bf16_rows, "float_c"};
