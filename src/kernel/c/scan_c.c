/* scan_c.c: recurrent memories and causal convolutions; the definition of their bits (kernel.h). */
#include "kernel/c/c.h"
#include "kernel/fma.h"
#include "kernel/vec_math.h"

/* r [cols] of token t; a_step 0: one decay for all keys. */
static void recall(const ScanJob *j, const float *k, const float *a, size_t a_step, float *r) {
    for (int e = 0; e < j->cols; e++) r[e] = 0;
    for (int i = 0; i < j->keys; i++) {
        const float *s = j->s + (size_t)i * (size_t)j->cols;
        float ka = a[(size_t)i * a_step] * k[i];
        for (int e = 0; e < j->cols; e++) r[e] = th_fmaf(s[e], ka, r[e]);
    }
}

static void scan(const ScanJob *j, size_t a_step, bool is_delta) {
    for (int t = 0; t < j->T; t++) {
        size_t at = (size_t)t;
        const float *k = j->k + at * j->k_stride, *q = j->q + at * j->q_stride, *a = j->a + at * j->a_stride;
        const float *v = j->v + at * j->v_stride;
        float *o = j->o + at * j->o_stride, beta = j->beta[at * j->beta_stride], d[SCAN_COLS], sum[SCAN_COLS] = {0};
        if (is_delta) recall(j, k, a, a_step, d);
        for (int e = 0; e < j->cols; e++) d[e] = beta * (is_delta ? v[e] - d[e] : v[e]);
        for (int i = 0; i < j->keys; i++) {
            float *s = j->s + (size_t)i * (size_t)j->cols, decay = a[(size_t)i * a_step];
            for (int e = 0; e < j->cols; e++) {
                s[e] = th_fmaf(k[i], d[e], decay * s[e]);
                sum[e] = th_fmaf(s[e], q[i], sum[e]);
                if (j->halves) s[e] = th_f16_nearest(s[e]);
            }
        }
        for (int e = 0; e < j->cols; e++) o[e] = sum[e];
    }
}

static void delta(const ScanJob *j) { scan(j, 0, true); }
static void delta_keys(const ScanJob *j) { scan(j, 1, true); }
static void add(const ScanJob *j) { scan(j, 0, false); }

static void conv(float *y, const float *const *x, const float *w, const float *bias, int n, int taps, bool silu) {
    for (int c = 0; c < n; c++) {
        float sum = bias ? bias[c] : 0;
        for (int i = 0; i < taps; i++)
            if (x[i]) sum = th_fmaf(w[(size_t)c * (size_t)taps + (size_t)i], x[i][c], sum);
        y[c] = silu ? th_silu(sum) : sum;
    }
}

static void sigmoid_mul(float *y, const float *gate, int n) {
    for (int i = 0; i < n; i++) y[i] *= th_sigmoid(gate[i]);
}

const ScanKernel th_scan_c = {
    .delta = delta, .delta_keys = delta_keys, .add = add, .conv = conv, .sigmoid_mul = sigmoid_mul, .origin = "scan_c"};
