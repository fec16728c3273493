/* kq_avx512vnni.c: K-quants with AVX-512 VNNI (kq_panel_avx512vnni.h). */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/kq_panel_avx512vnni.h"

/* ---- Q4_K */
/* Scales and minima of 6 bits in three words of every row (specification section 4), to the panel. */
TH_INLINE void unpack_scales6(KqPanel *p, __m512i t0, __m512i t1, __m512i t2) {
    const __m512i low6 = bytes_of(0x3F), low4 = bytes_of(0x0F), high2 = bytes_of(0x30);
    __m512i sc[2], mn[2];
    sc[0] = _mm512_and_si512(t0, low6);
    mn[0] = _mm512_and_si512(t1, low6);
    sc[1] = _mm512_or_si512(_mm512_and_si512(t2, low4), _mm512_and_si512(_mm512_srli_epi32(t0, 2), high2));
    mn[1] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(t2, 4), low4),
                            _mm512_and_si512(_mm512_srli_epi32(t1, 2), high2));
    TH_UNROLL for (int g = 0; g < 8; g++) {
        p->scale[g] = byte_to_i32(sc[g / 4], g % 4);
        p->min[g] = bytes_to_pair(mn[g / 4], g % 4, g % 4);
    }
}

TH_INLINE void unpack_q4_k(KqPanel *p, const Rows16 *r, size_t at) {
    __m512i v[4];
    const __m512i low4 = bytes_of(0x0F);
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = high_f16(v[0]);
    unpack_scales6(p, v[1], v[2], v[3]);
    for (int c = 0; c < 4; c++) { /* 32 bytes: 32 low nibbles, then 32 high ones */
        TH_UNROLL for (int half = 0; half < 2; half++) {
            turn4(v, r, at + 16 + (size_t)c * 32 + (size_t)half * 16);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                p->q[16 * c + 4 * half + j] = _mm512_and_si512(v[j], low4);
                p->q[16 * c + 8 + 4 * half + j] = _mm512_and_si512(_mm512_srli_epi32(v[j], 4), low4);
            }
        }
    }
}

static const KqShape q4_k = {144, 8, true, unpack_q4_k};
static void q4_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q4_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q4_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_k_avx512vnni = {ACT_Q8_K, q4_k_row1, q4_k_rows, "kq_avx512vnni"};

/* ---- Q5_K */
TH_INLINE void unpack_q5_k(KqPanel *p, const Rows16 *r, size_t at) {
    __m512i v[4], high[8];
    const __m512i low4 = bytes_of(0x0F), bit4 = bytes_of(0x10);
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = high_f16(v[0]);
    unpack_scales6(p, v[1], v[2], v[3]);
    turn4(high, r, at + 16);
    turn4(high + 4, r, at + 32);
    for (int c = 0; c < 4; c++) { /* as Q4_K; the fifth bits are now bits 0 and 1 of high's bytes */
        TH_UNROLL for (int half = 0; half < 2; half++) {
            turn4(v, r, at + 48 + (size_t)c * 32 + (size_t)half * 16);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                __m512i h = high[4 * half + j], h0 = _mm512_slli_epi32(h, 4), h1 = _mm512_slli_epi32(h, 3);
                __m512i v1 = _mm512_srli_epi32(v[j], 4), *q = p->q + 16 * c + 4 * half + j;
                q[0] = _mm512_or_si512(_mm512_and_si512(v[j], low4), _mm512_and_si512(h0, bit4));
                q[8] = _mm512_or_si512(_mm512_and_si512(v1, low4), _mm512_and_si512(h1, bit4));
                high[4 * half + j] = _mm512_srli_epi32(h, 2);
            }
        }
    }
}

static const KqShape q5_k = {176, 8, true, unpack_q5_k};
static void q5_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q5_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q5_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_k_avx512vnni = {ACT_Q8_K, q5_k_row1, q5_k_rows, "kq_avx512vnni"};

/* ---- Q3_K */
TH_INLINE void unpack_q3_k(KqPanel *p, const Rows16 *r, size_t at) {
    const __m512i low2 = bytes_of(3), low4 = bytes_of(0x0F), bits45 = bytes_of(0x30), bit2 = bytes_of(4);
    const __m512i offset = bytes_of(32);
    __m512i v[4], high[8], sc[4];
    turn4(v, r, at + 94); /* the 12 bytes of scales begin in the middle of a word; the last ends in d */
    p->d = high_f16(v[3]);
    p->dmin = _mm512_setzero_ps();
    __m512i s0 = join(v), s1 = join(v + 1), s2 = join(v + 2);
    sc[0] = _mm512_or_si512(_mm512_and_si512(s0, low4), _mm512_and_si512(_mm512_slli_epi32(s2, 4), bits45));
    sc[1] = _mm512_or_si512(_mm512_and_si512(s1, low4), _mm512_and_si512(_mm512_slli_epi32(s2, 2), bits45));
    s0 = _mm512_srli_epi32(s0, 4);
    s1 = _mm512_srli_epi32(s1, 4);
    sc[2] = _mm512_or_si512(_mm512_and_si512(s0, low4), _mm512_and_si512(s2, bits45));
    sc[3] = _mm512_or_si512(_mm512_and_si512(s1, low4), _mm512_and_si512(_mm512_srli_epi32(s2, 2), bits45));
    TH_UNROLL for (int i = 0; i < 4; i++) sc[i] = _mm512_sub_epi8(sc[i], offset);
    signed_scales(p, sc, 2);
    turn4(high, r, at);
    turn4(high + 4, r, at + 16);
    for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 32 + 16 * (size_t)i);
        TH_UNROLL for (int e = 0; e < 4; e++) { /* the third bits of this half are bits 0..3 of high's bytes */
            __m512i h = high[l / 4 + e], *q = p->q + 32 * n + l / 4 + e;
            high[l / 4 + e] = _mm512_srli_epi32(h, 4);
            h = _mm512_slli_epi32(h, 2);
            TH_UNROLL for (unsigned j = 0; j < 4; j++) {
                __m512i code = _mm512_and_si512(_mm512_srli_epi32(v[e], 2 * j), low2);
                q[8 * j] = _mm512_or_si512(code, _mm512_and_si512(_mm512_srli_epi32(h, j), bit2));
            }
        }
    }
}

static const KqShape q3_k = {110, 16, false, unpack_q3_k};
static void q3_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q3_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q3_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q3_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q3_k_avx512vnni = {ACT_Q8_K, q3_k_row1, q3_k_rows, "kq_avx512vnni"};

/* ---- Q6_K */
TH_INLINE void unpack_q6_k(KqPanel *p, const Rows16 *r, size_t at) {
    const __m512i low4 = bytes_of(0x0F), bits45 = bytes_of(0x30);
    __m512i sc[4], lo[4], hi[4];
    turn4(lo, r, at + 194); /* its last word ends in d */
    p->d = high_f16(lo[3]);
    p->dmin = _mm512_setzero_ps();
    turn4(sc, r, at + 192);
    signed_scales(p, sc, 5);
    for (int i = 0; i < 4; i++) { /* n = i / 2: a half of 128 weights; i % 2: which 16 of its 32 columns of bytes */
        size_t n = (size_t)i / 2, l = (size_t)i % 2 * 16;
        turn4(hi, r, at + 128 + 32 * n + l);
        TH_UNROLL for (int k = 0; k < 2; k++) {
            turn4(lo, r, at + 64 * n + 32 * (size_t)k + l);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                __m512i h0 = k ? _mm512_slli_epi32(hi[j], 2) : _mm512_slli_epi32(hi[j], 4);
                __m512i h2 = k ? _mm512_srli_epi32(hi[j], 2) : hi[j];
                __m512i *q = p->q + 32 * n + 8 * (size_t)k + l / 4 + j;
                q[0] = _mm512_or_si512(_mm512_and_si512(lo[j], low4), _mm512_and_si512(h0, bits45));
                q[16] =
                    _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(lo[j], 4), low4), _mm512_and_si512(h2, bits45));
            }
        }
    }
}

static const KqShape q6_k = {210, 16, false, unpack_q6_k};
static void q6_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q6_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q6_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q6_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q6_k_avx512vnni = {ACT_Q8_K, q6_k_row1, q6_k_rows, "kq_avx512vnni"};

/* ---- Q2_K: a code of 2 bits times a scale of 4 fits a byte, so the panel holds the products and needs no scales. */
TH_INLINE void unpack_q2_k(KqPanel *p, const Rows16 *r, size_t at) {
    const __m512i low2 = bytes_of(3), low4 = bytes_of(0x0F);
    __m512i s[4], v[4], sc[16];
    turn4(v, r, at + 68); /* its last word is d and dmin */
    p->d = low_f16(v[3]);
    p->dmin = high_f16(v[3]);
    turn4(s, r, at);
    TH_UNROLL for (int i = 0; i < 4; i++) {
        __m512i mn = _mm512_and_si512(_mm512_srli_epi32(s[i], 4), low4), low = _mm512_and_si512(s[i], low4);
        p->min[2 * i] = bytes_to_pair(mn, 0, 1);
        p->min[2 * i + 1] = bytes_to_pair(mn, 2, 3);
        TH_UNROLL for (int b = 0; b < 4; b++) sc[4 * i + b] = bytes_to_pair(low, b, b);
    }
    TH_UNROLL for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 16 + 16 * (size_t)i);
        TH_UNROLL for (int j = 0; j < 4; j++) {
            TH_UNROLL for (int e = 0; e < 4; e++) {
                __m512i q = _mm512_and_si512(_mm512_srli_epi32(v[e], 2 * (unsigned)j), low2);
                p->q[32 * n + 8 * j + l / 4 + e] = _mm512_mullo_epi16(q, sc[8 * n + 2 * j + l / 16]);
            }
        }
    }
}

static const KqShape q2_k = {84, 1, true, unpack_q2_k};
static void q2_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q2_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q2_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_k_avx512vnni = {ACT_Q8_K, q2_k_row1, q2_k_rows, "kq_avx512vnni"};
