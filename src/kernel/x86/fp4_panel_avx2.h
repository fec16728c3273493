/* fp4_panel_avx2.h: 4-bit floats in registers of 256 bits (legacy_panel_avx2.h). Doubled codes are -12..12; the panel
 * holds them plus 12. */
#ifndef THIMBLE_FP4_PANEL_AVX2_H
#define THIMBLE_FP4_PANEL_AVX2_H

#include "kernel/x86/legacy_panel_avx2.h"
#include "quant/layout.h"

/* The doubled value of a nibble. */
TH_INLINE __m256i value_table(void) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)th_values_fp4));
}

/* Half of the E8M0 value in the low byte of each lane: 2^(e-128), subnormal below 2. */
TH_INLINE __m256 low_e8m0_half(__m256i v) {
    __m256i e = _mm256_and_si256(v, _mm256_set1_epi32(255));
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e), small));
}

/* 17 bytes: e, 16 bytes of nibbles; so the nibbles of block b begin in byte (b + 1) % 4 of a word. */
TH_INLINE void unpack_mxfp4(LegacyPanel *p, const __m256i *word) {
    const __m256i table = _mm256_add_epi8(value_table(), bytes_of(12));
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + (17 * b + 1) / 4;
        const int first = 8 * ((b + 1) % 4);
        p->d[b] = low_e8m0_half(_mm256_srli_epi32(word[17 * b / 4], 8 * (b % 4)));
        TH_UNROLL for (int j = 0; j < 4; j++) {
            __m256i v = w[j];
            if (first) v = _mm256_or_si256(_mm256_srli_epi32(v, first), _mm256_slli_epi32(w[j + 1], 32 - first));
            split_nibbles(p->q[b], j, v);
        }
        TH_UNROLL for (int k = 0; k < 8; k++) p->q[b][k] = _mm256_shuffle_epi8(table, p->q[b][k]);
    }
}

/* Half of the unsigned E4M3 value in byte i of each lane; 0x7F is 0. */
TH_INLINE __m256 ue4m3_half(__m256i v, int i) {
    __m256i x = byte_to_i32(v, i), low7 = _mm256_and_si256(x, _mm256_set1_epi32(0x7F));
    __m256 normal = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_slli_epi32(low7, 20), _mm256_set1_epi32(119 << 23)));
    __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(low7), _mm256_set1_ps(0x1.0p-10f));
    __m256i subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), low7);
    __m256i none = _mm256_cmpeq_epi32(x, _mm256_set1_epi32(0x7F));
    __m256 value = _mm256_blendv_ps(normal, small, _mm256_castsi256_ps(subnormal));
    return _mm256_andnot_ps(_mm256_castsi256_ps(none), value);
}

/* Four scales of 16 weights, 32 bytes of nibbles: of each 8 bytes the low ones, then the high ones; 36 bytes. */
TH_INLINE void unpack_nvfp4(LegacyPanel *p, const __m256i *word) {
    const __m256i table = value_table(), low4 = bytes_of(0x0F);
    TH_UNROLL for (int b = 0; b < 8; b++) {
        const __m256i *w = word + b / 2 * 9, *half = w + 1 + 4 * (b % 2);
        p->d[b] = ue4m3_half(w[0], 2 * (b % 2));
        p->m[b] = ue4m3_half(w[0], 2 * (b % 2) + 1);
        TH_UNROLL for (int i = 0; i < 4; i++) {
            __m256i low = _mm256_and_si256(half[i], low4), high = _mm256_and_si256(_mm256_srli_epi32(half[i], 4), low4);
            p->q[b][4 * (i / 2) + i % 2] = _mm256_shuffle_epi8(table, low);
            p->q[b][4 * (i / 2) + i % 2 + 2] = _mm256_shuffle_epi8(table, high);
        }
    }
}

#endif
