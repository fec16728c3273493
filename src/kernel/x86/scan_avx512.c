/* scan_avx512.c: recurrent memories, bit for bit those of c/scan_c.c: 32 columns are two registers, keys go by one
 * after another, and what token t leaves in a row is at once what token t + 1 asks of it: one sweep over the block a
 * token. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx512.h"
#include "kernel/x86/vec_math_avx512.h"

typedef struct Rule {
    bool by_key, is_delta, halves;
} Rule;
typedef struct Pair {
    __m512 lo, hi;
} Pair;

TH_INLINE Pair pair_zero(void) { return (Pair){_mm512_setzero_ps(), _mm512_setzero_ps()}; }
TH_INLINE Pair pair_load(const float *x, __mmask16 lo, __mmask16 hi) {
    return (Pair){_mm512_maskz_loadu_ps(lo, x), _mm512_maskz_loadu_ps(hi, x + 16)};
}
TH_INLINE void pair_store(float *x, Pair v, __mmask16 lo, __mmask16 hi) {
    _mm512_mask_storeu_ps(x, lo, v.lo);
    _mm512_mask_storeu_ps(x + 16, hi, v.hi);
}
TH_INLINE Pair pair_fma(Pair a, __m512 b, Pair c) {
    return (Pair){_mm512_fmadd_ps(a.lo, b, c.lo), _mm512_fmadd_ps(a.hi, b, c.hi)};
}

TH_INLINE __m512 nearest_half(__m512 x) {
    __m512 most = _mm512_set1_ps(TH_F16_MAX); /* of two values with a NaN, min and max give the second */
    x = _mm512_max_ps(_mm512_set1_ps(-TH_F16_MAX), _mm512_min_ps(most, x));
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* r = sum over keys of s * (a * k). */
TH_INLINE Pair recall(const ScanJob *j, const float *k, const float *a, bool by_key, __mmask16 lo, __mmask16 hi) {
    Pair r = pair_zero();
    for (int i = 0; i < j->keys; i++)
        r = pair_fma(pair_load(j->s + (size_t)i * (size_t)j->cols, lo, hi), _mm512_set1_ps(a[by_key ? i : 0] * k[i]),
                     r);
    return r;
}

/* One token; returns the next one's r if it is wanted (next_k). */
TH_INLINE Pair step(const ScanJob *j, size_t t, Pair d, Rule rule, bool next, __mmask16 lo, __mmask16 hi) {
    const float *k = j->k + t * j->k_stride, *q = j->q + t * j->q_stride, *a = j->a + t * j->a_stride;
    const float *next_k = k + (next ? j->k_stride : 0), *next_a = a + (next ? j->a_stride : 0);
    Pair o = pair_zero(), r = pair_zero();
    for (int i = 0; i < j->keys; i++) {
        float *row = j->s + (size_t)i * (size_t)j->cols;
        __m512 decay = _mm512_set1_ps(a[rule.by_key ? i : 0]), key = _mm512_set1_ps(k[i]);
        Pair s = pair_load(row, lo, hi);
        s = pair_fma(d, key, (Pair){_mm512_mul_ps(decay, s.lo), _mm512_mul_ps(decay, s.hi)});
        o = pair_fma(s, _mm512_set1_ps(q[i]), o);
        if (rule.halves) s = (Pair){nearest_half(s.lo), nearest_half(s.hi)};
        pair_store(row, s, lo, hi);
        if (next) r = pair_fma(s, _mm512_set1_ps(next_a[rule.by_key ? i : 0] * next_k[i]), r);
    }
    pair_store(j->o + t * j->o_stride, o, lo, hi);
    return r;
}

TH_INLINE void scan(const ScanJob *j, Rule rule, __mmask16 lo, __mmask16 hi) {
    Pair r = pair_zero();
    if (rule.is_delta && j->T > 0) r = recall(j, j->k, j->a, rule.by_key, lo, hi);
    for (size_t t = 0; t < (size_t)j->T; t++) {
        Pair d = pair_load(j->v + t * j->v_stride, lo, hi);
        __m512 beta = _mm512_set1_ps(j->beta[t * j->beta_stride]);
        if (rule.is_delta) d = (Pair){_mm512_sub_ps(d.lo, r.lo), _mm512_sub_ps(d.hi, r.hi)};
        d = (Pair){_mm512_mul_ps(beta, d.lo), _mm512_mul_ps(beta, d.hi)};
        if (rule.is_delta && t + 1 < (size_t)j->T)
            r = step(j, t, d, rule, true, lo, hi);
        else
            step(j, t, d, rule, false, lo, hi);
    }
}

/* Constants in, so that each kind of memory is code of its own. */
TH_INLINE void scan_either(const ScanJob *j, bool by_key, bool is_delta) {
    __mmask16 lo = first_lanes(j->cols), hi = first_lanes(j->cols - 16);
    if (j->halves) scan(j, (Rule){by_key, is_delta, true}, lo, hi);
    else scan(j, (Rule){by_key, is_delta, false}, lo, hi);
}
static void delta(const ScanJob *j) { scan_either(j, false, true); }
static void delta_keys(const ScanJob *j) { scan_either(j, true, true); }
static void add(const ScanJob *j) { scan_either(j, false, false); }

/* Four taps of 16 channels, [channel][tap] in memory, to tap[i][channel]. */
TH_INLINE void turn_taps(const float *w, __m512 tap[4]) {
    __m512i lane = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 a = _mm512_loadu_ps(w), b = _mm512_loadu_ps(w + 16), c = _mm512_loadu_ps(w + 32),
           d = _mm512_loadu_ps(w + 48);
    for (int i = 0; i < 4; i++) {
        __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32(i));
        __m512 low = _mm512_permutex2var_ps(a, at, b), high = _mm512_permutex2var_ps(c, at, d);
        tap[i] = _mm512_shuffle_f32x4(low, high, 0x44);
    }
}

/* Any taps, fewer channels: gathered. */
TH_INLINE __m512 gather_tap(const float *w, int taps, __mmask16 few) {
    __m512i at = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), few, _mm512_mullo_epi32(at, _mm512_set1_epi32(taps)), w, 4);
}

static void conv(float *y, const float *const *x, const float *w, const float *bias, int n, int taps, bool silu) {
    for (int c = 0; c < n; c += 16) {
        __mmask16 few = first_lanes(n - c);
        __m512 sum = bias ? _mm512_maskz_loadu_ps(few, bias + c) : _mm512_setzero_ps(), turned[4];
        bool full = taps == 4 && n - c >= 16;
        if (full) turn_taps(w + (size_t)c * 4, turned);
        for (int i = 0; i < taps; i++) {
            if (!x[i]) continue;
            __m512 tap = full ? turned[i] : gather_tap(w + (size_t)c * (size_t)taps + i, taps, few);
            sum = _mm512_fmadd_ps(tap, _mm512_maskz_loadu_ps(few, x[i] + c), sum);
        }
        _mm512_mask_storeu_ps(y + c, few, silu ? silu_avx512(sum) : sum);
    }
}

static void sigmoid_mul(float *y, const float *gate, int n) {
    for (int i = 0; i < n; i += 16) {
        __mmask16 few = first_lanes(n - i);
        __m512 open = gate_avx512(_mm512_set1_ps(1.0f), _mm512_maskz_loadu_ps(few, gate + i));
        _mm512_mask_storeu_ps(y + i, few, _mm512_mul_ps(_mm512_maskz_loadu_ps(few, y + i), open));
    }
}

const ScanKernel th_scan_avx512 = {.delta = delta,
                                   .delta_keys = delta_keys,
                                   .add = add,
                                   .conv = conv,
                                   .sigmoid_mul = sigmoid_mul,
                                   .origin = "scan_avx512"};
