/* legacy_avx512vnni.c: Q4_0 .. Q8_0 with AVX-512 VNNI (legacy_panel_avx512vnni.h). */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/legacy_panel_avx512vnni.h"

/* Bit i of high, the fifth bit of code i, to bit 4 of its byte. */
TH_INLINE void add_fifth_bits(__m512i q[8], __m512i high) {
    const __m512i bits0 = _mm512_set1_epi32(0x08040201), bits4 = _mm512_set1_epi32((int)0x80402010u);
    TH_UNROLL for (int j = 0; j < 8; j++) {
        __mmask64 set = _mm512_test_epi8_mask(byte_to_all(high, j / 2), j % 2 ? bits4 : bits0);
        q[j] = _mm512_mask_add_epi8(q[j], set, q[j], bytes_of(16));
    }
}

/* ---- Q4_1: d, m, 16 bytes; 20 bytes */
TH_INLINE void unpack_q4_1(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m512i *w = word + b * 5;
        p->d[b] = low_f16(w[0]);
        p->m[b] = high_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, w[1 + j]);
    }
}
/* ---- Q5_0: d, 32 fifth bits, 16 bytes; 22 bytes */
TH_INLINE void unpack_q5_0(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m512i *w = word + b / 2 * 11;
        p->d[b] = b % 2 ? high_f16(w[5]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, b % 2 ? w[7 + j] : join(w + 1 + j));
        add_fifth_bits(p->q[b], b % 2 ? w[6] : join(w));
    }
}
/* ---- Q5_1: d, m, 32 fifth bits, 16 bytes; 24 bytes */
TH_INLINE void unpack_q5_1(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m512i *w = word + b * 6;
        p->d[b] = low_f16(w[0]);
        p->m[b] = high_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, w[2 + j]);
        add_fifth_bits(p->q[b], w[1]);
    }
}
/* ---- Q8_0: d, 32 signed bytes; 34 bytes */
TH_INLINE void unpack_q8_0(LegacyPanel *p, const __m512i *word) {
    const __m512i sign = bytes_of(0x80);
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m512i *w = word + b / 2 * 17;
        p->d[b] = b % 2 ? high_f16(w[8]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 8; j++) p->q[b][j] = _mm512_xor_si512(b % 2 ? w[9 + j] : join(w + j), sign);
    }
}

static const LegacyShape q4_0 = {144, 8, ONE_SCALE, unpack_q4_0};
static void q4_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_0_avx512vnni = {ACT_Q8_0, q4_0_row1, q4_0_rows, "legacy_avx512vnni"};

static const LegacyShape q4_1 = {160, 0, SCALE_AND_MINIMUM, unpack_q4_1};
static void q4_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_1_avx512vnni = {ACT_Q8_0, q4_1_row1, q4_1_rows, "legacy_avx512vnni"};

static const LegacyShape q5_0 = {176, 16, ONE_SCALE, unpack_q5_0};
static void q5_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_0_avx512vnni = {ACT_Q8_0, q5_0_row1, q5_0_rows, "legacy_avx512vnni"};

static const LegacyShape q5_1 = {192, 0, SCALE_AND_MINIMUM, unpack_q5_1};
static void q5_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_1_avx512vnni = {ACT_Q8_0, q5_1_row1, q5_1_rows, "legacy_avx512vnni"};

static const LegacyShape q8_0 = {272, 128, ONE_SCALE, unpack_q8_0};
static void q8_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q8_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q8_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q8_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q8_0_avx512vnni = {ACT_Q8_0, q8_0_row1, q8_0_rows, "legacy_avx512vnni"};
