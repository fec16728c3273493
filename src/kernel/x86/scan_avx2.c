/* scan_avx2.c: recurrent memories, bit for bit those of c/scan_c.c: 16 columns are two registers, keys go by one after
 * another, and what token t leaves in a row is at once what token t + 1 asks of it: one sweep over the columns a token.
 */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx2.h"
#include "kernel/x86/vec_math_avx2.h"

/* Columns [at, at + n) of a job: two registers, one, or a part of one. */
typedef struct Columns {
    int at;
    bool two;
    int n; /* below 8: a part */
} Columns;
typedef struct Rule {
    bool by_key, is_delta, halves;
} Rule;
typedef struct Pair {
    __m256 lo, hi;
} Pair;

TH_INLINE Pair pair_zero(void) { return (Pair){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
TH_INLINE Pair pair_load(const float *x, Columns c) {
    return (Pair){load_few(x, c.n), c.two ? _mm256_loadu_ps(x + 8) : _mm256_setzero_ps()};
}
TH_INLINE void pair_store(float *x, Pair v, Columns c) {
    store_few(x, c.n, v.lo);
    if (c.two) _mm256_storeu_ps(x + 8, v.hi);
}
TH_INLINE Pair pair_fma(Pair a, __m256 b, Pair c, bool two) {
    return (Pair){_mm256_fmadd_ps(a.lo, b, c.lo), two ? _mm256_fmadd_ps(a.hi, b, c.hi) : c.hi};
}
TH_INLINE __m256 nearest_half(__m256 x) {
    __m256 most = _mm256_set1_ps(TH_F16_MAX); /* of two values with a NaN, min and max give the second */
    x = _mm256_max_ps(_mm256_set1_ps(-TH_F16_MAX), _mm256_min_ps(most, x));
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TH_INLINE Pair pair_nearest_half(Pair x, bool two) {
    return (Pair){nearest_half(x.lo), two ? nearest_half(x.hi) : x.hi};
}
TH_INLINE Pair pair_mul(__m256 a, Pair b) { return (Pair){_mm256_mul_ps(a, b.lo), _mm256_mul_ps(a, b.hi)}; }

/* r = sum over keys of s * (a * k). */
TH_INLINE Pair recall(const ScanJob *j, bool by_key, Columns c) {
    Pair r = pair_zero();
    for (int i = 0; i < j->keys; i++)
        r = pair_fma(pair_load(j->s + (size_t)i * (size_t)j->cols + c.at, c),
                     _mm256_set1_ps(j->a[by_key ? i : 0] * j->k[i]), r, c.two);
    return r;
}

/* One token; returns the next one's r if it is wanted. */
TH_INLINE Pair step(const ScanJob *j, size_t t, Pair d, Rule rule, bool next, Columns c) {
    const float *k = j->k + t * j->k_stride, *q = j->q + t * j->q_stride, *a = j->a + t * j->a_stride;
    const float *next_k = k + (next ? j->k_stride : 0), *next_a = a + (next ? j->a_stride : 0);
    Pair o = pair_zero(), r = pair_zero();
    for (int i = 0; i < j->keys; i++) {
        float *row = j->s + (size_t)i * (size_t)j->cols + c.at;
        __m256 decay = _mm256_set1_ps(a[rule.by_key ? i : 0]);
        Pair s = pair_fma(d, _mm256_set1_ps(k[i]), pair_mul(decay, pair_load(row, c)), c.two);
        o = pair_fma(s, _mm256_set1_ps(q[i]), o, c.two);
        if (rule.halves) s = pair_nearest_half(s, c.two);
        pair_store(row, s, c);
        if (next) r = pair_fma(s, _mm256_set1_ps(next_a[rule.by_key ? i : 0] * next_k[i]), r, c.two);
    }
    pair_store(j->o + t * j->o_stride + c.at, o, c);
    return r;
}

TH_INLINE void columns(const ScanJob *j, Rule rule, Columns c) {
    Pair r = pair_zero();
    if (rule.is_delta && j->T > 0) r = recall(j, rule.by_key, c);
    for (size_t t = 0; t < (size_t)j->T; t++) {
        Pair d = pair_load(j->v + t * j->v_stride + c.at, c);
        if (rule.is_delta) d = (Pair){_mm256_sub_ps(d.lo, r.lo), _mm256_sub_ps(d.hi, r.hi)};
        d = pair_mul(_mm256_set1_ps(j->beta[t * j->beta_stride]), d);
        if (rule.is_delta && t + 1 < (size_t)j->T)
            r = step(j, t, d, rule, true, c);
        else
            step(j, t, d, rule, false, c);
    }
}

TH_INLINE void scan(const ScanJob *j, Rule rule) {
    int at = 0;
    for (; at + 16 <= j->cols; at += 16) columns(j, rule, (Columns){.at = at, .two = true, .n = 8});
    for (; at + 8 <= j->cols; at += 8) columns(j, rule, (Columns){.at = at, .n = 8});
    if (at < j->cols) columns(j, rule, (Columns){.at = at, .n = j->cols - at});
}

/* Constants in, so that each kind of memory is code of its own. */
TH_INLINE void scan_either(const ScanJob *j, bool by_key, bool is_delta) {
    if (j->halves) scan(j, (Rule){by_key, is_delta, true});
    else scan(j, (Rule){by_key, is_delta, false});
}
static void delta(const ScanJob *j) { scan_either(j, false, true); }
static void delta_keys(const ScanJob *j) { scan_either(j, true, true); }
static void add(const ScanJob *j) { scan_either(j, false, false); }

/* Four taps of 8 channels, [channel][tap] in memory, to tap[i][channel]. */
TH_INLINE void turn_taps(const float *w, __m256 tap[4]) {
    __m256 a = _mm256_loadu_ps(w), b = _mm256_loadu_ps(w + 8), c = _mm256_loadu_ps(w + 16), d = _mm256_loadu_ps(w + 24);
    __m256 c04 = _mm256_permute2f128_ps(a, c, 0x20), c15 = _mm256_permute2f128_ps(a, c, 0x31);
    __m256 c26 = _mm256_permute2f128_ps(b, d, 0x20), c37 = _mm256_permute2f128_ps(b, d, 0x31);
    __m256 low = _mm256_unpacklo_ps(c04, c15), high = _mm256_unpacklo_ps(c26, c37);
    tap[0] = _mm256_shuffle_ps(low, high, 0x44), tap[1] = _mm256_shuffle_ps(low, high, 0xEE);
    low = _mm256_unpackhi_ps(c04, c15), high = _mm256_unpackhi_ps(c26, c37);
    tap[2] = _mm256_shuffle_ps(low, high, 0x44), tap[3] = _mm256_shuffle_ps(low, high, 0xEE);
}

/* Any taps, fewer channels. */
TH_INLINE __m256 pick_tap(const float *w, int taps, int n) {
    float part[8] = {0};
    for (int c = 0; c < n && c < 8; c++) part[c] = w[(size_t)c * (size_t)taps];
    return _mm256_loadu_ps(part);
}

static void conv(float *y, const float *const *x, const float *w, const float *bias, int n, int taps, bool silu) {
    for (int c = 0; c < n; c += 8) {
        __m256 sum = bias ? load_few(bias + c, n - c) : _mm256_setzero_ps(), turned[4];
        bool full = taps == 4 && n - c >= 8;
        if (full) turn_taps(w + (size_t)c * 4, turned);
        for (int i = 0; i < taps; i++) {
            if (!x[i]) continue;
            __m256 tap = full ? turned[i] : pick_tap(w + (size_t)c * (size_t)taps + i, taps, n - c);
            sum = _mm256_fmadd_ps(tap, load_few(x[i] + c, n - c), sum);
        }
        store_few(y + c, n - c, silu ? silu_avx2(sum) : sum);
    }
}

static void sigmoid_mul(float *y, const float *gate, int n) {
    for (int i = 0; i < n; i += 8) {
        __m256 open = gate_avx2(_mm256_set1_ps(1.0f), load_few(gate + i, n - i));
        store_few(y + i, n - i, _mm256_mul_ps(load_few(y + i, n - i), open));
    }
}

const ScanKernel th_scan_avx2 = {.delta = delta,
                                 .delta_keys = delta_keys,
                                 .add = add,
                                 .conv = conv,
                                 .sigmoid_mul = sigmoid_mul,
                                 .origin = "scan_avx2"};
