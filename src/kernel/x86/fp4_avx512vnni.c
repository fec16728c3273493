/* fp4_avx512vnni.c: 4-bit floats with AVX-512 VNNI. Doubled codes are -12..12; the panel holds them plus 12. */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/legacy_panel_avx512vnni.h"
#include "quant/layout.h"

/* The doubled value of a nibble, plus 12. */
TH_INLINE __m512i value_table(void) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)th_values_fp4);
    return _mm512_add_epi8(_mm512_broadcast_i32x4(values), bytes_of(12));
}

/* Half of the E8M0 value in the low byte of each lane: 2^(e-128), subnormal below 2. */
TH_INLINE __m512 low_e8m0_half(__m512i v) {
    __m512i e = _mm512_and_si512(v, _mm512_set1_epi32(255));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __mmask16 small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, small, _mm512_set1_epi32(0x200000), e));
}

/* 17 bytes: e, 16 bytes of nibbles; so the nibbles of block b begin in byte (b + 1) % 4 of a word. */
TH_INLINE void unpack_mxfp4(LegacyPanel *p, const __m512i *word) {
    const __m512i table = value_table();
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

/* Half of the unsigned E4M3 value in byte i of each lane; 0x7F is 0. */
TH_INLINE __m512 ue4m3_half(__m512i v, int i) {
    __m512i x = byte_to_i32(v, i), low7 = _mm512_and_si512(x, _mm512_set1_epi32(0x7F));
    __m512 normal = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(low7, 20), _mm512_set1_epi32(119 << 23)));
    __m512 small = _mm512_mul_ps(_mm512_cvtepi32_ps(low7), _mm512_set1_ps(0x1.0p-10f));
    __mmask16 subnormal = _mm512_cmplt_epi32_mask(low7, _mm512_set1_epi32(8));
    __mmask16 none = _mm512_cmpeq_epi32_mask(x, _mm512_set1_epi32(0x7F));
    return _mm512_maskz_mov_ps((__mmask16)~none, _mm512_mask_mov_ps(normal, subnormal, small));
}

/* Four scales of 16 weights, 32 bytes of nibbles: of each 8 bytes the low ones, then the high ones; 36 bytes. */
TH_INLINE void unpack_nvfp4(LegacyPanel *p, const __m512i *word) {
    const __m512i table = value_table(), low4 = bytes_of(0x0F);
    TH_UNROLL for (int b = 0; b < 8; b++) {
        const __m512i *w = word + b / 2 * 9, *half = w + 1 + 4 * (b % 2);
        p->d[b] = ue4m3_half(w[0], 2 * (b % 2));
        p->m[b] = ue4m3_half(w[0], 2 * (b % 2) + 1);
        TH_UNROLL for (int i = 0; i < 4; i++) {
            __m512i low = _mm512_and_si512(half[i], low4), high = _mm512_and_si512(_mm512_srli_epi32(half[i], 4), low4);
            p->q[b][4 * (i / 2) + i % 2] = _mm512_shuffle_epi8(table, low);
            p->q[b][4 * (i / 2) + i % 2 + 2] = _mm512_shuffle_epi8(table, high);
        }
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

static const LegacyShape nvfp4 = {144, 12, SCALE_OF_HALVES, unpack_nvfp4};
static void nvfp4_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    legacy_rows(nvfp4, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void nvfp4_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride,
                       int cols, int rows, int T) {
    legacy_rows(nvfp4, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_nvfp4_avx512vnni = {ACT_Q8_0, nvfp4_row1, nvfp4_rows, "fp4_avx512vnni"};
