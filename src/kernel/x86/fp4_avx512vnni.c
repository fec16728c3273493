/* fp4_avx512vnni.c: MXFP4 with AVX-512 VNNI. Doubled codes are -12..12; the panel holds them plus 12. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/legacy_panel_avx512vnni.h"
#include "quant/layout.h"

/* Half of the E8M0 value in the low byte of each lane: 2^(e-128), subnormal below 2. */
TH_INLINE __m512 low_e8m0_half(__m512i v) {
    __m512i e = _mm512_and_si512(v, _mm512_set1_epi32(255));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x200000), e));
}

/* 17 bytes: e, 16 bytes of nibbles; so the nibbles of block b begin in byte (b + 1) % 4 of a word. */
TH_INLINE void unpack_mxfp4(LegacyPanel *p, const __m512i *word) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)th_values_fp4);
    const __m512i table = _mm512_add_epi8(_mm512_broadcast_i32x4(values), bytes_of(12));
    TH_UNROLL for (unsigned b = 0; b < GROUP; b++) {
        const __m512i *w = word + (17 * b + 1) / 4;
        const unsigned first = 8 * ((b + 1) % 4);
        p->d[b] = low_e8m0_half(_mm512_srli_epi32(word[17 * b / 4], 8 * (b % 4)));
        TH_UNROLL for (int j = 0; j < 4; j++) {
            __m512i v = w[j];
            if (first) v = _mm512_or_si512(_mm512_srli_epi32(v, first), _mm512_slli_epi32(w[j + 1], 32 - first));
            split_nibbles(p->q[b], j, v);
        }
        TH_UNROLL for (int k = 0; k < 8; k++) p->q[b][k] = _mm512_shuffle_epi8(table, p->q[b][k]);
    }
}

static const LegacyShape mxfp4 = {136, 12, ONE_SCALE, unpack_mxfp4};
static void mxfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(mxfp4, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void mxfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(mxfp4, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_mxfp4_avx512vnni = {ACT_Q8_0, mxfp4_row1, mxfp4_rows, "fp4_avx512vnni"};
