/* legacy_avxvnni.c: blocks of 32 weights with AVX-VNNI (legacy_panel_avx2.h): vpdpbusd adds four products to 32 bits
 * and never saturates. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/legacy_panel_avx2.h"

/* Two sums for each token: vpdpbusd takes four cycles and two can begin in each. */
TH_INLINE void sum_dot(__m256i n[4], const __m256i q[8], int run, const char *x, size_t x_stride, int nt) {
    __m256i odd[4];
    (void)run;
    TH_UNROLL for (int t = 0; t < nt; t++) odd[t] = _mm256_setzero_si256();
    TH_UNROLL for (int k = 0; k < 8; k += 2) {
        TH_UNROLL for (int t = 0; t < nt; t++) {
            const char *v = x + (size_t)t * x_stride + 4 * (size_t)k;
            n[t] = _mm256_dpbusd_avx_epi32(n[t], q[k], broadcast32(v));
            odd[t] = _mm256_dpbusd_avx_epi32(odd[t], q[k + 1], broadcast32(v + 4));
        }
    }
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_add_epi32(n[t], odd[t]);
}
/* Q8_0 plus 128: unsigned codes, so -128 is 0. */
TH_INLINE void unpack_q8_0_unsigned(LegacyPanel *p, const __m256i *word) {
    unpack_q8_0(p, word);
    TH_UNROLL for (int i = 0; i < 8 * GROUP; i++) p->q[i / 8][i % 8] =
        _mm256_xor_si256(p->q[i / 8][i % 8], bytes_of(0x80));
}

static const LegacyShape q4_0 = {18, 8, 8, false, unpack_q4_0, sum_dot};
static void q4_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_0_avxvnni = {ACT_Q8_0, q4_0_row1, q4_0_rows, "legacy_avxvnni"};

static const LegacyShape q4_1 = {20, 0, 8, true, unpack_q4_1, sum_dot};
static void q4_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_1_avxvnni = {ACT_Q8_0, q4_1_row1, q4_1_rows, "legacy_avxvnni"};

static const LegacyShape q5_0 = {22, 16, 4, false, unpack_q5_0, sum_dot};
static void q5_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_0_avxvnni = {ACT_Q8_0, q5_0_row1, q5_0_rows, "legacy_avxvnni"};

static const LegacyShape q5_1 = {24, 0, 4, true, unpack_q5_1, sum_dot};
static void q5_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_1_avxvnni = {ACT_Q8_0, q5_1_row1, q5_1_rows, "legacy_avxvnni"};

static const LegacyShape q8_0 = {34, 128, 1, false, unpack_q8_0_unsigned, sum_dot};
static void q8_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q8_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q8_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q8_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q8_0_avxvnni = {ACT_Q8_0, q8_0_row1, q8_0_rows, "legacy_avxvnni"};
