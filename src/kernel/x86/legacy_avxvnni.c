/* legacy_avxvnni.c: blocks of 32 weights with AVX-VNNI (legacy_panel_avx2.h): vpdpbusd adds four products to 32 bits
 * and never saturates. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avxvnni.h"

/* Q8_0 plus 128: unsigned codes, so -128 is 0. */
TH_INLINE void unpack_q8_0_unsigned(LegacyPanel *p, const __m256i *word) {
    unpack_q8_0(p, word);
    TH_UNROLL for (int i = 0; i < 8 * GROUP; i++) p->q[i / 8][i % 8] =
        _mm256_xor_si256(p->q[i / 8][i % 8], bytes_of(0x80));
}

static const LegacyShape q4_0 = {144, 8, 8, ONE_SCALE, unpack_q4_0, block_dot};
static void q4_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_0_avxvnni = {ACT_Q8_0, q4_0_row1, q4_0_rows, "legacy_avxvnni"};

static const LegacyShape q4_1 = {160, 0, 8, SCALE_AND_MINIMUM, unpack_q4_1, block_dot};
static void q4_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q4_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q4_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_1_avxvnni = {ACT_Q8_0, q4_1_row1, q4_1_rows, "legacy_avxvnni"};

static const LegacyShape q5_0 = {176, 16, 4, ONE_SCALE, unpack_q5_0, block_dot};
static void q5_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_0_avxvnni = {ACT_Q8_0, q5_0_row1, q5_0_rows, "legacy_avxvnni"};

static const LegacyShape q5_1 = {192, 0, 4, SCALE_AND_MINIMUM, unpack_q5_1, block_dot};
static void q5_1_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q5_1, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_1_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q5_1, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_1_avxvnni = {ACT_Q8_0, q5_1_row1, q5_1_rows, "legacy_avxvnni"};

static const LegacyShape q8_0 = {272, 128, 1, ONE_SCALE, unpack_q8_0_unsigned, block_dot};
static void q8_0_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(q8_0, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q8_0_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    legacy_rows(q8_0, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q8_0_avxvnni = {ACT_Q8_0, q8_0_row1, q8_0_rows, "legacy_avxvnni"};
