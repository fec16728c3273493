/* scan_neon.c: recurrent memories, bit for bit those of c/scan_c.c: 16 columns are four registers, keys go by one after
 * another, and what token t leaves in a row is at once what token t + 1 asks of it: one sweep over the columns a token.
 */
#include <arm_neon.h>

#include "kernel/arm/kernels_arm.h"
#include "kernel/vec_math.h"

#define TH_INLINE static inline __attribute__((always_inline))
enum { WIDE = 4 }; /* registers of a full piece of columns */

typedef struct Rule {
    bool by_key, is_delta, halves;
} Rule;
typedef struct Columns {
    float32x4_t v[WIDE];
} Columns;

/* n registers; the last one may be a part of `few` columns (4: whole). */
TH_INLINE Columns load(const float *x, int n, int few) {
    Columns c = {{vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)}};
    for (int i = 0; i < n; i++) {
        float part[4] = {0};
        if (few == 4 || i + 1 < n) {
            c.v[i] = vld1q_f32(x + 4 * i);
        } else {
            for (int e = 0; e < few; e++) part[e] = x[4 * i + e];
            c.v[i] = vld1q_f32(part);
        }
    }
    return c;
}
TH_INLINE void store(float *x, Columns c, int n, int few) {
    for (int i = 0; i < n; i++) {
        float part[4];
        if (few == 4 || i + 1 < n) {
            vst1q_f32(x + 4 * i, c.v[i]);
        } else {
            vst1q_f32(part, c.v[i]);
            for (int e = 0; e < few; e++) x[4 * i + e] = part[e];
        }
    }
}
TH_INLINE Columns zero(void) { return load(NULL, 0, 4); }
TH_INLINE Columns fuse(Columns a, float b, Columns c, int n) {
    for (int i = 0; i < n; i++) c.v[i] = vfmaq_n_f32(c.v[i], a.v[i], b);
    return c;
}
TH_INLINE Columns mul(float a, Columns b, int n) {
    for (int i = 0; i < n; i++) b.v[i] = vmulq_n_f32(b.v[i], a);
    return b;
}
TH_INLINE Columns sub(Columns a, Columns b, int n) {
    for (int i = 0; i < n; i++) a.v[i] = vsubq_f32(a.v[i], b.v[i]);
    return a;
}

TH_INLINE Columns nearest_half(Columns a, int n) {
    for (int i = 0; i < n; i++) { /* NaN goes through min and max */
        float32x4_t x = vminq_f32(vdupq_n_f32(TH_F16_MAX), vmaxq_f32(vdupq_n_f32(-TH_F16_MAX), a.v[i]));
        a.v[i] = vcvt_f32_f16(vcvt_f16_f32(x));
    }
    return a;
}

/* One token of columns [at, ...); returns the next one's r if it is wanted. */
TH_INLINE Columns step(const ScanJob *j, int at, size_t t, Columns d, Rule rule, bool next, int n, int few) {
    const float *k = j->k + t * j->k_stride, *q = j->q + t * j->q_stride, *a = j->a + t * j->a_stride;
    const float *next_k = k + (next ? j->k_stride : 0), *next_a = a + (next ? j->a_stride : 0);
    Columns o = zero(), r = zero();
    for (int i = 0; i < j->keys; i++) {
        float *row = j->s + (size_t)i * (size_t)j->cols + at;
        Columns s = fuse(d, k[i], mul(a[rule.by_key ? i : 0], load(row, n, few), n), n);
        o = fuse(s, q[i], o, n);
        if (rule.halves) s = nearest_half(s, n);
        store(row, s, n, few);
        if (next) r = fuse(s, next_a[rule.by_key ? i : 0] * next_k[i], r, n);
    }
    store(j->o + t * j->o_stride + at, o, n, few);
    return r;
}

TH_INLINE void piece(const ScanJob *j, int at, Rule rule, int n, int few) {
    Columns r = zero();
    for (int i = 0; rule.is_delta && i < j->keys && j->T > 0; i++)
        r = fuse(load(j->s + (size_t)i * (size_t)j->cols + at, n, few), j->a[rule.by_key ? i : 0] * j->k[i], r, n);
    for (size_t t = 0; t < (size_t)j->T; t++) {
        Columns d = load(j->v + t * j->v_stride + at, n, few);
        if (rule.is_delta) d = sub(d, r, n);
        d = mul(j->beta[t * j->beta_stride], d, n);
        if (rule.is_delta && t + 1 < (size_t)j->T)
            r = step(j, at, t, d, rule, true, n, few);
        else
            step(j, at, t, d, rule, false, n, few);
    }
}

TH_INLINE void scan(const ScanJob *j, Rule rule) {
    int at = 0;
    for (; at + 4 * WIDE <= j->cols; at += 4 * WIDE) piece(j, at, rule, WIDE, 4);
    for (; at + 4 <= j->cols; at += 4) piece(j, at, rule, 1, 4);
    if (at < j->cols) piece(j, at, rule, 1, j->cols - at);
}

/* Constants in, so that each kind of memory is code of its own. */
TH_INLINE void scan_either(const ScanJob *j, bool by_key, bool is_delta) {
    if (j->halves) scan(j, (Rule){by_key, is_delta, true});
    else scan(j, (Rule){by_key, is_delta, false});
}
static void delta(const ScanJob *j) { scan_either(j, false, true); }
static void delta_keys(const ScanJob *j) { scan_either(j, true, true); }
static void add(const ScanJob *j) { scan_either(j, false, false); }

/* Four taps of four channels come apart in one load; everything else goes channel by channel. */
static void conv(float *y, const float *const *x, const float *w, const float *bias, int n, int taps, bool silu) {
    int c = 0;
    for (; taps == 4 && c + 4 <= n; c += 4) {
        float32x4_t sum = bias ? vld1q_f32(bias + c) : vdupq_n_f32(0);
        float32x4x4_t tap = vld4q_f32(w + (size_t)c * 4);
        for (int i = 0; i < 4; i++)
            if (x[i]) sum = vfmaq_f32(sum, tap.val[i], vld1q_f32(x[i] + c));
        vst1q_f32(y + c, sum);
        for (int e = c; silu && e < c + 4; e++) y[e] = th_silu(y[e]);
    }
    for (; c < n; c++) {
        float sum = bias ? bias[c] : 0;
        for (int i = 0; i < taps; i++)
            if (x[i]) sum = __builtin_fmaf(w[(size_t)c * (size_t)taps + (size_t)i], x[i][c], sum);
        y[c] = silu ? th_silu(sum) : sum;
    }
}

void th_scan_neon(ScanKernel *k) {
    k->delta = delta, k->delta_keys = delta_keys, k->add = add, k->conv = conv;
    k->origin = "scan_neon";
}
