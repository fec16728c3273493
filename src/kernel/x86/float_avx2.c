/* float_avx2.c: products with F32, F16 and BF16 weights: 32 lanes per (row, token) in four registers; two rows (one
 * token) or three tokens (one row) at once so that the chains of fused additions overlap. */
#include "kernel/act.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx2.h"

typedef enum FloatKind { KIND_F32, KIND_F16, KIND_BF16 } FloatKind;

TH_INLINE size_t kind_bytes(FloatKind kind) { return kind == KIND_F32 ? 4 : 2; }

/* 8 weights from i on; if not whole, only the first n of them are read and the others are zero. */
TH_INLINE __m256 load_w(const char *row, FloatKind kind, int i, bool whole, int n) {
    const char *p = row + (size_t)i * kind_bytes(kind);
    if (kind == KIND_F32) return load_few((const float *)(const void *)p, whole ? 8 : n);
    __m128i h = whole ? _mm_loadu_si128((const __m128i *)(const void *)p) : load_few_u16(p, n);
    if (kind == KIND_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

typedef struct FloatTile {
    const char *w, *x;
    size_t stride, x_stride;
    int cols;
    float *y;
    size_t y_stride;
} FloatTile;

enum { MAX_PRODUCTS = 3 }; /* of rows and tokens at once: 12 accumulators */

TH_INLINE void float_step(__m256 acc[MAX_PRODUCTS][4], const FloatTile *f, FloatKind kind, int i, bool whole, int nr,
                          int nt) {
    TH_UNROLL for (int part = 0; part < 4; part++) {
        int at = i + 8 * part, left = f->cols - at;
        TH_UNROLL for (int r = 0; r < nr; r++) {
            __m256 w = load_w(f->w + (size_t)r * f->stride, kind, at, whole, left);
            TH_UNROLL for (int t = 0; t < nt; t++) {
                __m256 x = load_w(f->x + (size_t)t * f->x_stride, KIND_F32, at, whole, left);
                acc[r * nt + t][part] = _mm256_fmadd_ps(w, x, acc[r * nt + t][part]);
            }
        }
    }
}

TH_INLINE void float_tile(const FloatTile *f, FloatKind kind, int nr, int nt) {
    __m256 acc[MAX_PRODUCTS][4];
    int i = 0;
    TH_UNROLL for (int a = 0; a < 4 * nr * nt; a++) acc[a / 4][a % 4] = _mm256_setzero_ps();
    for (; i + 32 <= f->cols; i += 32) float_step(acc, f, kind, i, true, nr, nt);
    if (i < f->cols) float_step(acc, f, kind, i, false, nr, nt);
    TH_UNROLL for (int r = 0; r < nr; r++) {
        TH_UNROLL for (int t = 0; t < nt; t++) f->y[(size_t)t * f->y_stride + (size_t)r] = lanes32_sum(acc[r * nt + t]);
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
    int block = th_max_int(8, (int)((size_t)128 * 1024 / (f.stride ? f.stride : 1)) & ~7);
    for (int r0 = 0; r0 < rows; r0 += block) {
        FloatTile g = f;
        int n = th_min_int(block, rows - r0), t = 0;
        g.w += (size_t)r0 * f.stride;
        g.y += r0;
        for (; t + 3 <= T; t += 3, g.x += 3 * f.x_stride, g.y += 3 * f.y_stride) float_rows_few(g, kind, n, 1, 3);
        for (; t < T; t++, g.x += f.x_stride, g.y += f.y_stride) float_rows_few(g, kind, n, 2, 1);
    }
}

static void f32_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_F32, rows, 2, 1);
}
static void f32_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_F32, rows, T);
}
const MatKernel th_f32_avx2 = {ACT_F32, f32_row1, f32_rows, "float_avx2"};

static void f16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_F16, rows, 2, 1);
}
static void f16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                     int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_F16, rows, T);
}
const MatKernel th_f16_avx2 = {ACT_F32, f16_row1, f16_rows, "float_avx2"};

static void bf16_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    float_rows_few((FloatTile){w, x, stride, 0, cols, y, 0}, KIND_BF16, rows, 2, 1);
}
static void bf16_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    float_rows((FloatTile){w, x, stride, x_stride, cols, y, y_stride}, KIND_BF16, rows, T);
}
const MatKernel th_bf16_avx2 = {ACT_F32, bf16_row1, bf16_rows, "float_avx2"};
