/* float_avx512.c: products with F32, F16 and BF16 weights: 32 lanes per (row, token) in two registers, tiles of rows
 * and tokens so that the chains of fused additions overlap and a weight is widened once for several tokens. */
#include "kernel/act.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx512.h"

typedef enum FloatKind { KIND_F32, KIND_F16, KIND_BF16 } FloatKind;

TH_INLINE size_t kind_bytes(FloatKind kind) { return kind == KIND_F32 ? 4 : 2; }

/* 16 weights from i on, zero where the mask is: nothing is read there. */
TH_INLINE __m512 load_w(const char *row, FloatKind kind, int i, bool whole, __mmask16 mask) {
    const char *p = row + (size_t)i * kind_bytes(kind);
    if (kind == KIND_F32) return whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(mask, p);
    __m256i h = whole ? _mm256_loadu_si256((const __m256i *)(const void *)p) : _mm256_maskz_loadu_epi16(mask, p);
    if (kind == KIND_F16) return _mm512_cvtph_ps(h);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

typedef struct FloatTile {
    const char *w, *x;
    size_t stride, x_stride;
    int cols;
    float *y;
    size_t y_stride;
} FloatTile;

enum { MAX_ROWS = 8, MAX_TOKENS = 3, MAX_PRODUCTS = 12 };

TH_INLINE void float_step(__m512 *acc, const FloatTile *f, FloatKind kind, int i, bool whole, int nr, int nt) {
    __mmask16 lo = first_lanes(f->cols - i), hi = first_lanes(f->cols - i - 16);
    __m512 x0[MAX_TOKENS], x1[MAX_TOKENS];
    TH_UNROLL for (int t = 0; t < nt; t++) {
        const char *x = f->x + (size_t)t * f->x_stride;
        x0[t] = load_w(x, KIND_F32, i, whole, lo);
        x1[t] = load_w(x, KIND_F32, i + 16, whole, hi);
    }
    TH_UNROLL for (int r = 0; r < nr; r++) {
        const char *row = f->w + (size_t)r * f->stride;
        __m512 w0 = load_w(row, kind, i, whole, lo), w1 = load_w(row, kind, i + 16, whole, hi);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            acc[2 * (r * nt + t)] = _mm512_fmadd_ps(w0, x0[t], acc[2 * (r * nt + t)]);
            acc[2 * (r * nt + t) + 1] = _mm512_fmadd_ps(w1, x1[t], acc[2 * (r * nt + t) + 1]);
        }
    }
}

TH_INLINE void float_tile(const FloatTile *f, FloatKind kind, int nr, int nt) {
    __m512 acc[2 * MAX_PRODUCTS];
    int i = 0;
    TH_UNROLL for (int a = 0; a < 2 * nr * nt; a++) acc[a] = _mm512_setzero_ps();
    for (; i + 32 <= f->cols; i += 32) float_step(acc, f, kind, i, true, nr, nt);
    if (i < f->cols) float_step(acc, f, kind, i, false, nr, nt);
    TH_UNROLL for (int r = 0; r < nr; r++) {
        TH_UNROLL for (int t = 0; t < nt; t++) f->y[(size_t)t * f->y_stride + (size_t)r] =
            lanes32_sum(acc[2 * (r * nt + t)], acc[2 * (r * nt + t) + 1]);
    }
}

/* All rows with nt tokens: nr rows at a time, then one by one. */
TH_INLINE void float_rows_few(FloatTile f, FloatKind kind, int rows, int nr, int nt) {
    int r = 0;
    for (; r + nr <= rows; r += nr, f.w += (size_t)nr * f.stride, f.y += nr) float_tile(&f, kind, nr, nt);
    for (; r < rows; r++, f.w += f.stride, f.y++) float_tile(&f, kind, 1, nt);
}

/* Rows in blocks that stay in L2 while the tokens pass. */
TH_INLINE void float_rows(FloatTile f, FloatKind kind, int rows, int T) {
    int block = th_max_int(8, (int)((size_t)256 * 1024 / (f.stride ? f.stride : 1)) & ~7);
    for (int r0 = 0; r0 < rows; r0 += block) {
        FloatTile g = f;
        int n = th_min_int(block, rows - r0), t = 0;
        g.w += (size_t)r0 * f.stride;
        g.y += r0;
        for (; t + 3 <= T; t += 3, g.x += 3 * f.x_stride, g.y += 3 * f.y_stride) float_rows_few(g, kind, n, 4, 3);
        for (; t < T; t++, g.x += f.x_stride, g.y += f.y_stride) float_rows_few(g, kind, n, 8, 1);
    }
}

static void f32_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_F32, rows, 8, 1);
}
static void f32_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_F32, rows, T);
}
const MatKernel th_f32_avx512 = {ACT_F32, f32_row1, f32_rows, "float_avx512"};

static void f16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_F16, rows, 8, 1);
}
static void f16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_F16, rows, T);
}
const MatKernel th_f16_avx512 = {ACT_F32, f16_row1, f16_rows, "float_avx512"};

static void bf16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_BF16, rows, 8, 1);
}
static void bf16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_BF16, rows, T);
}
const MatKernel th_bf16_avx512 = {ACT_F32, bf16_row1, bf16_rows, "float_avx512"};
