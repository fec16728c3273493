/* lowbit_avx512vnni.c: one- and two-bit and ternary types with AVX-512 VNNI (kq_panel_avx512vnni.h,
 * legacy_panel_avx512vnni.h). The panel holds codes plus 1. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/kq_panel_avx512vnni.h"
#include "kernel/x86/legacy_panel_avx512vnni.h"

/* x * 3 >> 8 */
TH_INLINE __m512i first_digit(__m512i x) {
    const __m512i one = bytes_of(1);
    __m512i d = _mm512_maskz_mov_epi8(_mm512_cmpge_epu8_mask(x, bytes_of(86)), one);
    return _mm512_mask_add_epi8(d, _mm512_cmpge_epu8_mask(x, bytes_of(171)), d, one);
}
TH_INLINE __m512i two_where(__m512i v, __m512i bit) {
    return _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(v, bit), bytes_of(2));
}

/* Four codes of two bits in byte j of each lane, one byte each. */
TH_INLINE __m512i spread_pairs(__m512i w, int j) {
    __m512i t = byte_to_i32(w, j);
    t = _mm512_or_si512(t, _mm512_slli_epi32(t, 6));
    return _mm512_and_si512(_mm512_or_si512(t, _mm512_slli_epi32(t, 12)), bytes_of(3));
}

/* ---- TQ2_0: 64 bytes as Q2_K's, d; 66 bytes. One scale: the panel's are 1, and so is the offset. */
TH_INLINE void unit_scales(KqPanel *p) {
    TH_UNROLL for (int g = 0; g < 8; g++) {
        p->scale[g] = _mm512_set1_epi32(1);
        p->min[g] = _mm512_set1_epi16(1);
    }
}

TH_INLINE void unpack_tq2_0(KqPanel *p, const Rows16 *r, size_t at) {
    __m512i v[4];
    unit_scales(p);
    turn4(v, r, at + 50); /* its last word ends in d */
    p->d = high_f16(v[3]);
    p->dmin = _mm512_setzero_ps();
    TH_UNROLL for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups of 32 in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 16 * (size_t)i);
        TH_UNROLL for (int j = 0; j < 4; j++) {
            TH_UNROLL for (int e = 0; e < 4; e++) p->q[32 * n + 8 * j + l / 4 + e] =
                _mm512_and_si512(_mm512_srli_epi32(v[e], 2 * (unsigned)j), bytes_of(3));
        }
    }
}

/* ---- ternary digits: bytes are fractions, three times one is its first digit and the rest */
TH_INLINE __m512i tripled(__m512i x) { return _mm512_add_epi8(_mm512_add_epi8(x, x), x); }

/* TQ1_0: 48 bytes of five digits, 4 of four, d; 54 bytes. */
TH_INLINE void unpack_tq1_0(KqPanel *p, const Rows16 *r, size_t at) {
    __m512i w[16], tail[4];
    unit_scales(p);
    TH_UNROLL for (int i = 0; i < 3; i++) turn4(w + 4 * i, r, at + 16 * (size_t)i);
    turn4(tail, r, at + 38); /* ends in the 4 bytes and d */
    p->d = high_f16(tail[3]);
    p->dmin = _mm512_setzero_ps();
    w[12] = join(tail + 2);
    TH_UNROLL for (int n = 0; n < 5; n++) {
        TH_UNROLL for (int i = 0; i < 8; i++) p->q[8 * n + i] = first_digit(w[i]);
        TH_UNROLL for (int i = 0; i < 4; i++) p->q[40 + 4 * n + i] = first_digit(w[8 + i]);
        if (n < 4) p->q[60 + n] = first_digit(w[12]);
        TH_UNROLL for (int i = 0; i < 13; i++) w[i] = tripled(w[i]);
    }
}

/* PTQ1_0: 16 + 8 bytes of five digits, 2 of four, d; 28 bytes of 128 weights. */
TH_INLINE void unpack_ptq1_0(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < 2; b++) {
        __m512i w[7], *q = p->q[4 * b], last[4];
        TH_UNROLL for (int i = 0; i < 7; i++) w[i] = word[7 * b + i];
        p->d[4 * b + 3] = high_f16(w[6]);
        TH_UNROLL for (int n = 0; n < 5; n++) {
            TH_UNROLL for (int i = 0; i < 4; i++) q[4 * n + i] = first_digit(w[i]);
            TH_UNROLL for (int i = 0; i < 2; i++) q[20 + 2 * n + i] = first_digit(w[4 + i]);
            if (n < 4) last[n] = _mm512_and_si512(first_digit(w[6]), _mm512_set1_epi32(0xFFFF));
            TH_UNROLL for (int i = 0; i < 7; i++) w[i] = tripled(w[i]);
        }
        q[30] = _mm512_or_si512(last[0], _mm512_slli_epi32(last[1], 16));
        q[31] = _mm512_or_si512(last[2], _mm512_slli_epi32(last[3], 16));
    }
}

/* ---- Q1_0: d, 128 bits; 18 bytes. A bit is the code 2, less the offset +1 or -1. */
TH_INLINE void unpack_q1_0(LegacyPanel *p, const __m512i *word) {
    const __m512i bits0 = _mm512_set1_epi32(0x08040201), bits4 = _mm512_set1_epi32((int)0x80402010u);
    TH_UNROLL for (int b = 0; b < 2; b++) {
        p->d[4 * b + 3] = b ? high_f16(word[4]) : low_f16(word[0]);
        TH_UNROLL for (int m = 0; m < 4; m++) {
            __m512i v = b ? word[5 + m] : join(word + m);
            TH_UNROLL for (int j = 0; j < 8; j++) p->q[4 * b + m][j] =
                two_where(byte_to_all(v, j / 2), j % 2 ? bits4 : bits0);
        }
    }
}

/* ---- Q2_0: d, 64 codes of two bits; 18 bytes */
TH_INLINE void unpack_q2_0(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < 4; b++) {
        const __m512i *w = word + b / 2 * 9;
        p->d[2 * b + 1] = b % 2 ? high_f16(w[4]) : low_f16(w[0]);
        TH_UNROLL for (int m = 0; m < 4; m++) {
            __m512i v = b % 2 ? w[5 + m] : join(w + m);
            TH_UNROLL for (int j = 0; j < 4; j++) p->q[2 * b + m / 2][m % 2 * 4 + j] = spread_pairs(v, j);
        }
    }
}

/* ---- PQ2_0: d, 128 codes of two bits; 34 bytes */
TH_INLINE void unpack_pq2_0(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < 2; b++) {
        p->d[4 * b + 3] = b ? high_f16(word[8]) : low_f16(word[0]);
        TH_UNROLL for (int m = 0; m < 8; m++) {
            __m512i v = b ? word[9 + m] : join(word + m);
            TH_UNROLL for (int j = 0; j < 4; j++) p->q[4 * b + m / 2][m % 2 * 4 + j] = spread_pairs(v, j);
        }
    }
}

static const KqShape tq1_0 = {54, 1, false, unpack_tq1_0};
static void tq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(tq1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void tq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(tq1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_tq1_0_avx512vnni = {ACT_Q8_K, tq1_0_row1, tq1_0_rows, "lowbit_avx512vnni"};

static const KqShape tq2_0 = {66, 1, false, unpack_tq2_0};
static void tq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(tq2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void tq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(tq2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_tq2_0_avx512vnni = {ACT_Q8_K, tq2_0_row1, tq2_0_rows, "lowbit_avx512vnni"};

static const LegacyShape q1_0 = {36, 1, SCALE_OF_FOUR, unpack_q1_0};
static void q1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q1_0_avx512vnni = {ACT_Q8_0, q1_0_row1, q1_0_rows, "lowbit_avx512vnni"};

static const LegacyShape q2_0 = {72, 1, SCALE_OF_TWO, unpack_q2_0};
static void q2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_0_avx512vnni = {ACT_Q8_0, q2_0_row1, q2_0_rows, "lowbit_avx512vnni"};

static const LegacyShape pq2_0 = {68, 1, SCALE_OF_FOUR, unpack_pq2_0};
static void pq2_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(pq2_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void pq2_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(pq2_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_pq2_0_avx512vnni = {ACT_Q8_0, pq2_0_row1, pq2_0_rows, "lowbit_avx512vnni"};

static const LegacyShape ptq1_0 = {56, 1, SCALE_OF_FOUR, unpack_ptq1_0};
static void ptq1_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(ptq1_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void ptq1_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    legacy_rows(ptq1_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_ptq1_0_avx512vnni = {ACT_Q8_0, ptq1_0_row1, ptq1_0_rows, "lowbit_avx512vnni"};
