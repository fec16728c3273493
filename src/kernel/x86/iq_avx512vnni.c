/* iq_avx512vnni.c: codebook types with AVX-512 VNNI. Codes are signed bytes; the panel holds them plus 128, and the
 * sums of the activations take that away again (kq_panel_avx512vnni.h, legacy_panel_avx512vnni.h). */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/kq_panel_avx512vnni.h"
#include "kernel/x86/legacy_panel_avx512vnni.h"

TH_INLINE __m256i negate_where(__m256i v, uint32_t mask) {
    return _mm256_mask_sub_epi8(v, mask, _mm256_setzero_si256(), v);
}
#include "kernel/x86/iq_rows_x86.h"

/* The 16 values of a nibble, plus 128. */
TH_INLINE __m512i value_table(void) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)th_values_iq4);
    return _mm512_xor_si512(_mm512_broadcast_i32x4(values), bytes_of(0x80));
}

TH_INLINE void unpack_decoded(KqPanel *p, const Rows16 *r, size_t at, DecodeRow *decode) {
    IqRow row[16];
    Rows16 c;
    float d[16];
    __m512i sc[4];
    for (int i = 0; i < 16; i++) {
        decode(row + i, r->p[i] + at);
        c.p[i] = (const uint8_t *)row[i].q;
        d[i] = row[i].d;
    }
    p->d = _mm512_loadu_ps(d);
    p->dmin = _mm512_setzero_ps();
    for (size_t i = 0; i < 16; i++) {
        turn4(p->q + 4 * i, &c, 16 * i);
        TH_UNROLL for (int j = 0; j < 4; j++) p->q[4 * i + (size_t)j] =
            _mm512_xor_si512(p->q[4 * i + (size_t)j], bytes_of(0x80));
    }
    turn4(sc, &c, 256);
    signed_scales(p, sc, 7);
}

TH_INLINE void unpack_iq4_xs(KqPanel *p, const Rows16 *r, size_t at) {
    const __m512i low4 = bytes_of(0x0F), table = value_table(), nibble = _mm512_set1_epi32(15),
                  two = _mm512_set1_epi32(3);
    __m512i v[4];
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = _mm512_setzero_ps();
    TH_UNROLL for (unsigned g = 0; g < 8; g++) {
        __m512i low = _mm512_and_si512(_mm512_srli_epi32(v[1], 4 * g), nibble);
        __m512i high = _mm512_and_si512(_mm512_srli_epi32(v[0], 16 + 2 * g), two);
        __m512i sc = _mm512_sub_epi32(_mm512_or_si512(low, _mm512_slli_epi32(high, 4)), _mm512_set1_epi32(32));
        p->scale[g] = sc;
        sc = _mm512_or_si512(_mm512_slli_epi32(sc, 16), _mm512_and_si512(sc, _mm512_set1_epi32(0xFFFF)));
        p->min[g] = _mm512_slli_epi16(sc, 7);
    }
    for (size_t g = 0; g < 8; g++) {
        turn4(v, r, at + 8 + 16 * g);
        TH_UNROLL for (size_t j = 0; j < 4; j++) {
            p->q[8 * g + j] = _mm512_shuffle_epi8(table, _mm512_and_si512(v[j], low4));
            p->q[8 * g + 4 + j] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi32(v[j], 4), low4));
        }
    }
}

TH_INLINE void unpack_iq4_nl(LegacyPanel *p, const __m512i *word) {
    const __m512i table = value_table();
    unpack_q4_0(p, word);
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        TH_UNROLL for (int k = 0; k < 8; k++) p->q[b][k] = _mm512_shuffle_epi8(table, p->q[b][k]);
    }
}

TH_INLINE void unpack_iq2_xxs(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq2_xxs); }
static const KqShape iq2_xxs = {66, 16, false, unpack_iq2_xxs};
static void iq2_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_xxs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    kq_rows(iq2_xxs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_xxs_avx512vnni = {ACT_Q8_K, iq2_xxs_row1, iq2_xxs_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq2_xs(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq2_xs); }
static const KqShape iq2_xs = {74, 16, false, unpack_iq2_xs};
static void iq2_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_xs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    kq_rows(iq2_xs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_xs_avx512vnni = {ACT_Q8_K, iq2_xs_row1, iq2_xs_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq2_s(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq2_s); }
static const KqShape iq2_s = {82, 16, false, unpack_iq2_s};
static void iq2_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq2_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq2_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq2_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq2_s_avx512vnni = {ACT_Q8_K, iq2_s_row1, iq2_s_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq3_xxs(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq3_xxs); }
static const KqShape iq3_xxs = {98, 16, false, unpack_iq3_xxs};
static void iq3_xxs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq3_xxs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq3_xxs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                         int cols, int rows, int T) {
    kq_rows(iq3_xxs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq3_xxs_avx512vnni = {ACT_Q8_K, iq3_xxs_row1, iq3_xxs_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq3_s(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq3_s); }
static const KqShape iq3_s = {110, 16, false, unpack_iq3_s};
static void iq3_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq3_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq3_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq3_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq3_s_avx512vnni = {ACT_Q8_K, iq3_s_row1, iq3_s_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq1_s(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq1_s); }
static const KqShape iq1_s = {50, 16, false, unpack_iq1_s};
static void iq1_s_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq1_s, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq1_s_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq1_s, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq1_s_avx512vnni = {ACT_Q8_K, iq1_s_row1, iq1_s_rows, "iq_avx512vnni"};

TH_INLINE void unpack_iq1_m(KqPanel *p, const Rows16 *r, size_t at) { unpack_decoded(p, r, at, decode_iq1_m); }
static const KqShape iq1_m = {56, 16, false, unpack_iq1_m};
static void iq1_m_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq1_m, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq1_m_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    kq_rows(iq1_m, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq1_m_avx512vnni = {ACT_Q8_K, iq1_m_row1, iq1_m_rows, "iq_avx512vnni"};

static const KqShape iq4_xs = {136, 8, false, unpack_iq4_xs};
static void iq4_xs_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(iq4_xs, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq4_xs_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    kq_rows(iq4_xs, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq4_xs_avx512vnni = {ACT_Q8_K, iq4_xs_row1, iq4_xs_rows, "iq_avx512vnni"};

static const LegacyShape iq4_nl = {144, 128, ONE_SCALE, unpack_iq4_nl};
static void iq4_nl_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(iq4_nl, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void iq4_nl_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                        int cols, int rows, int T) {
    legacy_rows(iq4_nl, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_iq4_nl_avx512vnni = {ACT_Q8_0, iq4_nl_row1, iq4_nl_rows, "iq_avx512vnni"};
