/* kernel.h: the arithmetic behind a table that is filled once, ascending: C first, then what the machine has.
 *
 * Contract of matrix kernels: any number of rows; cols is a multiple of the type's block and of the activation form's
 * (so a type of 32-blocks takes any multiple of 32); no alignment of w beyond 1 byte; reads no byte past the row;
 * allocates nothing, locks nothing, keeps nothing.
 *
 * Order of addition. Integer-dot types: per (row, token) one f32 accumulator starting at +0; the integer sum of a block
 * (super-block for the K types) is formed exactly, then enters by one fixed expression, blocks ascending:
 *     symmetric types      acc = fma(dw * dx, (float)n, acc)
 *     Q4_1, Q5_1           acc = fma(dw * dx, (float)n, acc); acc = fma(mw * dx, (float)s, acc)
 *     K types with minimum acc = fma(dx, dw * (float)n - mw * (float)m, acc)
 * (the C kernel of a type is the definition; docs/KERNELS.md lists the expressions). T = 1, T > 1 and every instruction
 * set agree in every bit. Float types: 32 lanes, merged in a fixed tree, the same for T = 1 and T > 1. */
#ifndef THIMBLE_KERNEL_H
#define THIMBLE_KERNEL_H

#include "base/isa.h"
#include "kernel/act.h"
#include "quant/type.h"

typedef struct MatKernel {
    ActForm act; /* the form x must be prepared in */
    /* y[r] = w_r . x for r < rows; row r begins at w + r * stride bytes */
    void (*row1)(float *y, const void *w, size_t stride, const void *x, int cols, int rows);
    /* y[t * y_stride + r] = w_r . x_t; x_t begins at x + t * x_stride bytes; y_stride in floats */
    void (*rows)(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                 int rows, int T);
    const char *origin; /* "kq_avx512": printed by `thimble info`, so a slow path cannot hide */
} MatKernel;

/* Vector functions: orders of addition in docs/KERNELS.md; all instruction sets agree in every bit. */
typedef struct VecKernel {
    float (*dot_f32)(const float *a, const float *b, int n);
    float (*dot_f16)(const float *a, const uint16_t *b, int n);
    void (*axpy_f32)(float *y, float a, const float *x, int n);    /* y = fma(a, x, y) */
    void (*axpy_f16)(float *y, float a, const uint16_t *x, int n); /* y = fma(a, widen(x), y) */
    void (*to_f16)(uint16_t *y, const float *x, int n);            /* nearest even */
    void (*from_f16)(float *y, const uint16_t *x, int n);
    void (*add)(float *y, const float *x, int n);                  /* y += x */
    void (*scale)(float *y, float a, int n);                       /* y *= a */
    void (*silu_mul)(float *gate, const float *up, int n);         /* gate = silu(gate) * up */
    void (*gelu_mul)(float *gate, const float *up, int n);         /* gate = gelu_tanh(gate) * up */
    /* y = x * scale * w, scale = 1/sqrt(mean(x^2) + eps), the sum of squares in binary64, fixed order; w may be NULL */
    void (*rms_norm)(float *y, const float *x, const float *w, int n, float eps);
    /* x = exp(x - max), returns the sum in fixed order; -INFINITY gives exactly 0 */
    float (*exp_sub)(float *x, float max, int n);
    float (*max)(const float *x, int n);
    /* y[r] = row r of w [rows][n] . x for routers: no fused operations. 16 partial sums over columns i mod 16, then
     * lanes l, l + 4, l + 8, l + 12 as (a + b) + (c + d), and those four likewise */
    void (*plain_dots)(float *y, const float *w, int rows, const float *x, int n);
    const char *origin;
} VecKernel;

/* Attention's two products, on chunks of ATTN_CHUNK positions. Every element is one chain of fused multiply-adds in a
 * stated order, so all instruction sets agree in every bit, and how queries are grouped cannot show. */
enum { ATTN_CHUNK = 32 };
typedef struct AttnKernel {
    /* kt [n][ATTN_CHUNK]: column r is row r of k [rows][n], widened; columns from `rows` on are zero. */
    void (*turn_f16)(float *kt, const uint16_t *k, int rows, int n);
    void (*turn_f32)(float *kt, const float *k, int rows, int n);
    /* s[i * s_stride + j] = sum over d ascending of q[i * n + d] * kt[d][j], from +0, for i < n_q and all columns j */
    void (*scores)(float *s, size_t s_stride, const float *q, int n_q, const float *kt, int n);
    /* acc[i * n + d] += sum over rows r ascending of w[i * w_stride + r] * v[r * n + d], for i < n_q */
    void (*weigh)(float *acc, const float *w, size_t w_stride, int n_q, const float *v, int rows, int n);
    const char *origin;
} AttnKernel;

/* Recurrent memories. A head's memory is a matrix of keys x values, cut into blocks of at most SCAN_COLS value columns:
 * s [keys][cols], contiguous. Columns do not know of each other: every sum runs over keys, ascending, from +0, each
 * step one fma, so no instruction set needs a horizontal sum and all of them agree in every bit. Per token, for each
 * column:
 *     r = sum_i s[i] * (a[i] * k[i])      what the decayed memory answers for k (`add`: 0)
 *     d = beta * (v - r);  s[i] = fma(k[i], d, a[i] * s[i]);  o = sum_i s[i] * q[i]
 * and with `halves` s[i] is then rounded to the nearest binary16 (th_f16_nearest), so that a run of tokens leaves what
 * the same tokens one by one leave in a memory of binary16. */
enum { SCAN_COLS = 32 };
typedef struct ScanJob {
    float *s;
    int keys, cols, T;
    bool halves;
    const float *q, *k, *v, *a, *beta; /* [T][keys], [T][keys], [T][cols], [T] or [T][keys], [T] */
    float *o;                          /* [T][cols] */
    size_t q_stride, k_stride, v_stride, a_stride, beta_stride, o_stride; /* floats from token to token */
} ScanJob;
typedef struct ScanKernel {
    void (*delta)(const ScanJob *j);      /* gated delta rule, one decay per token  */
    void (*delta_keys)(const ScanJob *j); /* a decay per key (KDA)                  */
    void (*add)(const ScanJob *j);        /* r = 0, one decay per token (Mamba-2)   */
    /* One token's causal convolution: y[c] = act(sum_i fma(w[c * taps + i], x[i][c]) from bias[c] or +0), i ascending;
     * x[i] NULL: nothing was there, the tap is left out. y may be x[taps - 1]. */
    void (*conv)(float *y, const float *const *x, const float *w, const float *bias, int n, int taps, bool silu);
    void (*sigmoid_mul)(float *y, const float *gate, int n); /* y *= sigmoid(gate) */
    const char *origin;
} ScanKernel;

typedef struct Kernels {
    unsigned isa;
    const MatKernel *mat[N_TYPES]; /* NULL: no products with this type */
    void (*act[N_ACT_FORMS])(void *dst, const float *x, int cols);
    VecKernel vec;
    AttnKernel attn;
    ScanKernel scan;
} Kernels;

void th_kernels_init(Kernels *k, unsigned isa); /* pure: no global, no environment */
void th_kernels_init_c(Kernels *k);
void th_kernels_init_x86(Kernels *k, unsigned isa); /* each overwrites upward; does nothing on other machines */
void th_kernels_init_arm(Kernels *k, unsigned isa);

#endif
