/* attn_avx512.c: attention's products, bit for bit those of c/attn_c.c: lanes are columns, so no sum crosses lanes. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx512.h"

/* Loops over tiles must vanish, or their accumulators live in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- turning: 16 x 16 blocks ------------------------------------------------------------------------------------ */

TH_INLINE void store_turned(float *kt, __m512 r[16]) {
    __m512 t[16];
    UNROLL
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    /* r[4g + c]: column c of each 128-bit quarter, rows 4g .. 4g + 3 */
    UNROLL
    for (int g = 0; g < 4; g++) {
        __m512d a = _mm512_castps_pd(t[4 * g]), b = _mm512_castps_pd(t[4 * g + 2]);
        __m512d c = _mm512_castps_pd(t[4 * g + 1]), d = _mm512_castps_pd(t[4 * g + 3]);
        r[4 * g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        r[4 * g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        r[4 * g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        r[4 * g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        __m512 lo02 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88), lo13 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
        __m512 hi02 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88),
               hi13 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
        _mm512_storeu_ps(kt + (size_t)c * ATTN_CHUNK, _mm512_shuffle_f32x4(lo02, hi02, 0x88));
        _mm512_storeu_ps(kt + (size_t)(8 + c) * ATTN_CHUNK, _mm512_shuffle_f32x4(lo02, hi02, 0xdd));
        _mm512_storeu_ps(kt + (size_t)(4 + c) * ATTN_CHUNK, _mm512_shuffle_f32x4(lo13, hi13, 0x88));
        _mm512_storeu_ps(kt + (size_t)(12 + c) * ATTN_CHUNK, _mm512_shuffle_f32x4(lo13, hi13, 0xdd));
    }
}

static void turn_f16(float *kt, const uint16_t *k, int rows, int n) {
    int whole = n & ~15;
    for (int half = 0; half < ATTN_CHUNK; half += 16)
        for (int d = 0; d < whole; d += 16) {
            __m512 r[16];
            UNROLL
            for (int i = 0; i < 16; i++) {
                const void *at = k + (size_t)(half + i) * (size_t)n + (size_t)d;
                r[i] = half + i < rows ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at)) : _mm512_setzero_ps();
            }
            store_turned(kt + (size_t)d * ATTN_CHUNK + half, r);
        }
    for (int d = whole; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? _cvtsh_ss(k[(size_t)r * (size_t)n + (size_t)d]) : 0;
}

static void turn_f32(float *kt, const float *k, int rows, int n) {
    int whole = n & ~15;
    for (int half = 0; half < ATTN_CHUNK; half += 16)
        for (int d = 0; d < whole; d += 16) {
            __m512 r[16];
            UNROLL
            for (int i = 0; i < 16; i++)
                r[i] = half + i < rows ? _mm512_loadu_ps(k + (size_t)(half + i) * (size_t)n + (size_t)d)
                                       : _mm512_setzero_ps();
            store_turned(kt + (size_t)d * ATTN_CHUNK + half, r);
        }
    for (int d = whole; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? k[(size_t)r * (size_t)n + (size_t)d] : 0;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

TH_INLINE void scores_few(float *s, size_t s_stride, const float *q, const float *kt, int n, const int n_q) {
    __m512 lo[8], hi[8];
    UNROLL
    for (int i = 0; i < n_q; i++) lo[i] = hi[i] = _mm512_setzero_ps();
    for (int d = 0; d < n; d++, kt += ATTN_CHUNK) {
        __m512 a = _mm512_loadu_ps(kt), b = _mm512_loadu_ps(kt + 16);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            __m512 k = _mm512_set1_ps(q[(size_t)i * (size_t)n + (size_t)d]);
            lo[i] = _mm512_fmadd_ps(k, a, lo[i]);
            hi[i] = _mm512_fmadd_ps(k, b, hi[i]);
        }
    }
    UNROLL
    for (int i = 0; i < n_q; i++) {
        _mm512_storeu_ps(s + (size_t)i * s_stride, lo[i]);
        _mm512_storeu_ps(s + (size_t)i * s_stride + 16, hi[i]);
    }
}

static void scores(float *s, size_t s_stride, const float *q, int n_q, const float *kt, int n) {
    for (; n_q >= 8; n_q -= 8, s += 8 * s_stride, q += 8 * (size_t)n) scores_few(s, s_stride, q, kt, n, 8);
    if (n_q & 4) scores_few(s, s_stride, q, kt, n, 4), s += 4 * s_stride, q += 4 * (size_t)n;
    if (n_q & 2) scores_few(s, s_stride, q, kt, n, 2), s += 2 * s_stride, q += 2 * (size_t)n;
    if (n_q & 1) scores_few(s, s_stride, q, kt, n, 1);
}

/* Up to 64 of the n values, in n_v vectors of which the last is masked. */
TH_INLINE void weigh_few(float *acc, const float *w, size_t w_stride, const float *v, int rows, int n, const int n_q,
                         const int n_v, __mmask16 last) {
    __m512 sum[4][4];
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < n_v; c++)
            sum[i][c] = _mm512_maskz_loadu_ps(c == n_v - 1 ? last : 0xffff, acc + (size_t)i * (size_t)n + 16 * c);
    for (int r = 0; r < rows; r++, v += n) {
        __m512 x[4];
        UNROLL
        for (int c = 0; c < n_v; c++) x[c] = _mm512_maskz_loadu_ps(c == n_v - 1 ? last : 0xffff, v + 16 * c);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            __m512 k = _mm512_set1_ps(w[(size_t)i * w_stride + (size_t)r]);
            UNROLL
            for (int c = 0; c < n_v; c++) sum[i][c] = _mm512_fmadd_ps(k, x[c], sum[i][c]);
        }
    }
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < n_v; c++)
            _mm512_mask_storeu_ps(acc + (size_t)i * (size_t)n + 16 * c, c == n_v - 1 ? last : 0xffff, sum[i][c]);
}

TH_INLINE void weigh_rows(float *acc, const float *w, size_t w_stride, const float *v, int rows, int n, const int n_q) {
    int d = 0;
    for (; d + 64 <= n; d += 64) weigh_few(acc + d, w, w_stride, v + d, rows, n, n_q, 4, 0xffff);
    for (; d < n; d += 16) weigh_few(acc + d, w, w_stride, v + d, rows, n, n_q, 1, first_lanes(n - d));
}

static void weigh(float *acc, const float *w, size_t w_stride, int n_q, const float *v, int rows, int n) {
    for (; n_q >= 4; n_q -= 4, acc += 4 * (size_t)n, w += 4 * w_stride) weigh_rows(acc, w, w_stride, v, rows, n, 4);
    if (n_q & 2) weigh_rows(acc, w, w_stride, v, rows, n, 2), acc += 2 * (size_t)n, w += 2 * w_stride;
    if (n_q & 1) weigh_rows(acc, w, w_stride, v, rows, n, 1);
}

const AttnKernel th_attn_avx512 = {turn_f16, turn_f32, scores, weigh, "attn_avx512"};
