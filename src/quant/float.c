/* float.c: plain floats. F64 occurs in a few metadata-like tensors and is narrowed. */
#include "quant/layout.h"

void th_dequantize_f32(float *y, const void *w, size_t n) { memcpy(y, w, n * sizeof *y); }

void th_dequantize_f16(float *y, const void *w, size_t n) {
    const U16 *h = w;
    for (size_t i = 0; i < n; i++) y[i] = th_half(h[i]);
}

void th_dequantize_bf16(float *y, const void *w, size_t n) {
    const U16 *h = w;
    for (size_t i = 0; i < n; i++) y[i] = th_bf16_to_f32(th_u16(h[i]));
}

void th_dequantize_f64(float *y, const void *w, size_t n) {
    const char *p = w;
    for (size_t i = 0; i < n; i++) {
        double d;
        memcpy(&d, p + i * sizeof d, sizeof d);
        y[i] = (float)d;
    }
}
