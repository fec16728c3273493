/* iq_avxvnni.c: codebook types with AVX-VNNI (iq_panel_avx2.h); codes plus 128. */
#include "kernel/x86/iq_panel_avx2.h"
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/sum_avxvnni.h"

TH_INLINE void unpack_iq2_xxs(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq2_xxs, bytes_of(0x80));
}
static const KqShape iq2_xxs = {66, 16, 2, KQ_OFFSET, unpack_iq2_xxs, sum_dot};
static void iq2_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_xxs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    kq_rows(iq2_xxs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_xxs_avxvnni = {ACT_Q8_K, iq2_xxs_row1, iq2_xxs_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq2_xs(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq2_xs, bytes_of(0x80));
}
static const KqShape iq2_xs = {74, 16, 2, KQ_OFFSET, unpack_iq2_xs, sum_dot};
static void iq2_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_xs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    kq_rows(iq2_xs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_xs_avxvnni = {ACT_Q8_K, iq2_xs_row1, iq2_xs_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq2_s(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq2_s, bytes_of(0x80));
}
static const KqShape iq2_s = {82, 16, 2, KQ_OFFSET, unpack_iq2_s, sum_dot};
static void iq2_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq2_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_s_avxvnni = {ACT_Q8_K, iq2_s_row1, iq2_s_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq3_xxs(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq3_xxs, bytes_of(0x80));
}
static const KqShape iq3_xxs = {98, 16, 2, KQ_OFFSET, unpack_iq3_xxs, sum_dot};
static void iq3_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq3_xxs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq3_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    kq_rows(iq3_xxs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq3_xxs_avxvnni = {ACT_Q8_K, iq3_xxs_row1, iq3_xxs_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq3_s(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq3_s, bytes_of(0x80));
}
static const KqShape iq3_s = {110, 16, 2, KQ_OFFSET, unpack_iq3_s, sum_dot};
static void iq3_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq3_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq3_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq3_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq3_s_avxvnni = {ACT_Q8_K, iq3_s_row1, iq3_s_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq1_s(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq1_s, bytes_of(0x80));
}
static const KqShape iq1_s = {50, 16, 4, KQ_OFFSET, unpack_iq1_s, sum_dot};
static void iq1_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq1_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq1_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq1_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq1_s_avxvnni = {ACT_Q8_K, iq1_s_row1, iq1_s_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq1_m(KqPanel *p, const Rows8 *r, size_t at) {
    unpack_decoded(p, r, at, decode_iq1_m, bytes_of(0x80));
}
static const KqShape iq1_m = {56, 16, 4, KQ_OFFSET, unpack_iq1_m, sum_dot};
static void iq1_m_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq1_m, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq1_m_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq1_m, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq1_m_avxvnni = {ACT_Q8_K, iq1_m_row1, iq1_m_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq4_xs(KqPanel *p, const Rows8 *r, size_t at) { turn_iq4_xs(p, r, at, bytes_of(0x80)); }
static const KqShape iq4_xs = {136, 8, 1, KQ_OFFSET, unpack_iq4_xs, sum_dot};
static void iq4_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq4_xs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq4_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    kq_rows(iq4_xs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq4_xs_avxvnni = {ACT_Q8_K, iq4_xs_row1, iq4_xs_rows, "iq_avxvnni"};

TH_INLINE void unpack_iq4_nl(LegacyPanel *p, const __m256i *word) { turn_iq4_nl(p, word, bytes_of(0x80)); }
static const LegacyShape iq4_nl = {144, 128, 1, ONE_SCALE, unpack_iq4_nl, block_dot};
static void iq4_nl_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(iq4_nl, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq4_nl_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    legacy_rows(iq4_nl, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq4_nl_avxvnni = {ACT_Q8_0, iq4_nl_row1, iq4_nl_rows, "iq_avxvnni"};
