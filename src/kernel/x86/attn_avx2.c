/* attn_avx2.c: attention's products, bit for bit those of c/attn_c.c: lanes are columns, so no sum crosses lanes. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx2.h"

/* Loops over tiles must vanish, or their accumulators live in memory. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- turning: 8 x 8 blocks -------------------------------------------------------------------------------------- */

TH_INLINE void store_turned(float *kt, const __m256 r[8]) {
    __m256 t[8], u[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    /* u[4g + c]: column c of each 128-bit half, rows 4g .. 4g + 3 */
    UNROLL
    for (int g = 0; g < 2; g++) {
        u[4 * g] = _mm256_shuffle_ps(t[4 * g], t[4 * g + 2], 0x44);
        u[4 * g + 1] = _mm256_shuffle_ps(t[4 * g], t[4 * g + 2], 0xee);
        u[4 * g + 2] = _mm256_shuffle_ps(t[4 * g + 1], t[4 * g + 3], 0x44);
        u[4 * g + 3] = _mm256_shuffle_ps(t[4 * g + 1], t[4 * g + 3], 0xee);
    }
    UNROLL
    for (int c = 0; c < 4; c++) {
        _mm256_storeu_ps(kt + (size_t)c * ATTN_CHUNK, _mm256_permute2f128_ps(u[c], u[4 + c], 0x20));
        _mm256_storeu_ps(kt + (size_t)(4 + c) * ATTN_CHUNK, _mm256_permute2f128_ps(u[c], u[4 + c], 0x31));
    }
}

static void turn_f16(float *kt, const uint16_t *k, int rows, int n) {
    int whole = n & ~7;
    for (int part = 0; part < ATTN_CHUNK; part += 8)
        for (int d = 0; d < whole; d += 8) {
            __m256 r[8];
            UNROLL
            for (int i = 0; i < 8; i++) {
                const void *at = k + (size_t)(part + i) * (size_t)n + (size_t)d;
                r[i] = part + i < rows ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at)) : _mm256_setzero_ps();
            }
            store_turned(kt + (size_t)d * ATTN_CHUNK + part, r);
        }
    for (int d = whole; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? _cvtsh_ss(k[(size_t)r * (size_t)n + (size_t)d]) : 0;
}

static void turn_f32(float *kt, const float *k, int rows, int n) {
    int whole = n & ~7;
    for (int part = 0; part < ATTN_CHUNK; part += 8)
        for (int d = 0; d < whole; d += 8) {
            __m256 r[8];
            UNROLL
            for (int i = 0; i < 8; i++)
                r[i] = part + i < rows ? _mm256_loadu_ps(k + (size_t)(part + i) * (size_t)n + (size_t)d)
                                       : _mm256_setzero_ps();
            store_turned(kt + (size_t)d * ATTN_CHUNK + part, r);
        }
    for (int d = whole; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? k[(size_t)r * (size_t)n + (size_t)d] : 0;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

TH_INLINE void scores_few(float *s, size_t s_stride, const float *q, const float *kt, int n, const int n_q) {
    __m256 sum[2][4];
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < 4; c++) sum[i][c] = _mm256_setzero_ps();
    for (int d = 0; d < n; d++, kt += ATTN_CHUNK) {
        __m256 x[4];
        UNROLL
        for (int c = 0; c < 4; c++) x[c] = _mm256_loadu_ps(kt + 8 * c);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            __m256 k = _mm256_broadcast_ss(q + (size_t)i * (size_t)n + d);
            UNROLL
            for (int c = 0; c < 4; c++) sum[i][c] = _mm256_fmadd_ps(k, x[c], sum[i][c]);
        }
    }
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < 4; c++) _mm256_storeu_ps(s + (size_t)i * s_stride + 8 * c, sum[i][c]);
}

static void scores(float *s, size_t s_stride, const float *q, int n_q, const float *kt, int n) {
    for (; n_q >= 2; n_q -= 2, s += 2 * s_stride, q += 2 * (size_t)n) scores_few(s, s_stride, q, kt, n, 2);
    if (n_q) scores_few(s, s_stride, q, kt, n, 1);
}

TH_INLINE void weigh_few(float *acc, const float *w, size_t w_stride, const float *v, int rows, int n, const int n_q,
                         const int n_v) {
    __m256 sum[2][4];
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < n_v; c++) sum[i][c] = _mm256_loadu_ps(acc + (size_t)i * (size_t)n + 8 * c);
    for (int r = 0; r < rows; r++, v += n) {
        __m256 x[4];
        UNROLL
        for (int c = 0; c < n_v; c++) x[c] = _mm256_loadu_ps(v + 8 * c);
        UNROLL
        for (int i = 0; i < n_q; i++) {
            __m256 k = _mm256_broadcast_ss(w + (size_t)i * w_stride + r);
            UNROLL
            for (int c = 0; c < n_v; c++) sum[i][c] = _mm256_fmadd_ps(k, x[c], sum[i][c]);
        }
    }
    UNROLL
    for (int i = 0; i < n_q; i++)
        UNROLL
        for (int c = 0; c < n_v; c++) _mm256_storeu_ps(acc + (size_t)i * (size_t)n + 8 * c, sum[i][c]);
}

TH_INLINE void weigh_rows(float *acc, const float *w, size_t w_stride, const float *v, int rows, int n, const int n_q) {
    int d = 0;
    for (; d + 32 <= n; d += 32) weigh_few(acc + d, w, w_stride, v + d, rows, n, n_q, 4);
    for (; d + 8 <= n; d += 8) weigh_few(acc + d, w, w_stride, v + d, rows, n, n_q, 1);
    for (; d < n; d++)
        UNROLL
        for (int i = 0; i < n_q; i++)
            for (int r = 0; r < rows; r++) {
                float *to = &acc[(size_t)i * (size_t)n + (size_t)d];
                *to = __builtin_fmaf(w[(size_t)i * w_stride + (size_t)r], v[(size_t)r * (size_t)n + (size_t)d], *to);
            }
}

static void weigh(float *acc, const float *w, size_t w_stride, int n_q, const float *v, int rows, int n) {
    for (; n_q >= 2; n_q -= 2, acc += 2 * (size_t)n, w += 2 * w_stride) weigh_rows(acc, w, w_stride, v, rows, n, 2);
    if (n_q) weigh_rows(acc, w, w_stride, v, rows, n, 1);
}

const AttnKernel th_attn_avx2 = {turn_f16, turn_f32, scores, weigh, "attn_avx2"};
