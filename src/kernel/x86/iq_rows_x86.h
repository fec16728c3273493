/* iq_rows_x86.h: a super-block of a codebook type as plain signed bytes, one row at a time.
 *
 * Codebook entries cannot be looked up for many rows at once, so these types are unpacked row by row, 32 weights per
 * register, and turned into a panel afterwards (the ordinary way of a panel, but from this buffer). Includers give
 * negate_where: v negated in the bytes whose bit is set in the mask. */
#ifndef THIMBLE_IQ_ROWS_X86_H
#define THIMBLE_IQ_ROWS_X86_H

#include "quant/layout.h"

typedef struct IqRow {
    int8_t q[256], sc[16]; /* codes; a scale for each group of 16 */
    float d;
} IqRow;
typedef void DecodeRow(IqRow *row, const void *block);

TH_INLINE uint64_t load_u64(const void *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}
TH_INLINE uint32_t load_u32(const void *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
TH_INLINE __m256i four_of_8(const void *a, const void *b, const void *c, const void *d) {
    __m128i ab = _mm_insert_epi64(_mm_cvtsi64_si128((long long)load_u64(a)), (long long)load_u64(b), 1);
    __m128i cd = _mm_insert_epi64(_mm_cvtsi64_si128((long long)load_u64(c)), (long long)load_u64(d), 1);
    return _mm256_inserti128_si256(_mm256_castsi128_si256(ab), cd, 1);
}
TH_INLINE void store32(IqRow *row, int g, __m256i v) { _mm256_storeu_si256((__m256i *)(void *)(row->q + 32 * g), v); }

/* th_even_signs of 32 bytes of seven bits. What a shift brings in from the next byte never reaches bit 0. */
TH_INLINE __m256i even_signs32(__m256i k) {
    __m256i p = _mm256_xor_si256(k, _mm256_srli_epi16(k, 4));
    p = _mm256_xor_si256(p, _mm256_srli_epi16(p, 2));
    p = _mm256_xor_si256(p, _mm256_srli_epi16(p, 1));
    return _mm256_or_si256(k, _mm256_slli_epi16(_mm256_and_si256(p, _mm256_set1_epi8(1)), 7));
}
/* Eight words, each of four times seven sign bits (lowest first) and a scale of four bits. */
TH_INLINE void words_to_signs(uint32_t mask[8], IqRow *row, __m256i w) {
    __m256i s = _mm256_and_si256(w, _mm256_set1_epi32(0x7F));
    s = _mm256_or_si256(s, _mm256_and_si256(_mm256_slli_epi32(w, 1), _mm256_set1_epi32(0x7F00)));
    s = _mm256_or_si256(s, _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_set1_epi32(0x7F0000)));
    s = _mm256_or_si256(s, _mm256_and_si256(_mm256_slli_epi32(w, 3), _mm256_set1_epi32(0x7F000000)));
    _mm256_storeu_si256((__m256i *)(void *)mask, even_signs32(s));
    w = _mm256_add_epi32(_mm256_slli_epi32(_mm256_srli_epi32(w, 28), 1), _mm256_set1_epi32(1));
    w = _mm256_or_si256(w, _mm256_slli_epi32(w, 8)); /* twice: two groups of 16 */
    __m128i sc = _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)(void *)row->sc, sc);
}
/* The scale 2s+1 of two groups of 16 from each nibble pair of eight bytes. */
TH_INLINE void nibbles_to_scales(IqRow *row, const uint8_t *sc) {
    __m128i v = _mm_loadl_epi64((const __m128i *)(const void *)sc), low4 = _mm_set1_epi8(15);
    v = _mm_unpacklo_epi8(_mm_and_si128(v, low4), _mm_and_si128(_mm_srli_epi16(v, 4), low4));
    v = _mm_add_epi8(_mm_add_epi8(v, v), _mm_set1_epi8(1));
    _mm_storeu_si128((__m128i *)(void *)row->sc, v);
}
/* The scale 2s+1 of two groups of 16 from two small numbers. */
TH_INLINE void put_scales(IqRow *row, int g, unsigned low, unsigned high) {
    row->sc[2 * g] = (int8_t)(2 * low + 1);
    row->sc[2 * g + 1] = (int8_t)(2 * high + 1);
}

TH_INLINE void decode_iq2_xxs(IqRow *row, const void *block) {
    const BlockIQ2_XXS *b = block;
    uint32_t mask[8];
    row->d = 0.125f * _cvtsh_ss(th_u16(b->d));
    const float *halves = (const float *)(const void *)b->g; /* indices, signs, indices, signs .. */
    __m256 lo = _mm256_loadu_ps(halves), hi = _mm256_loadu_ps(halves + 8);
    __m256i w = _mm256_castps_si256(_mm256_shuffle_ps(lo, hi, 0xDD));
    words_to_signs(mask, row, _mm256_permute4x64_epi64(w, 0xD8));
    for (int g = 0; g < 8; g++) {
        const uint8_t *x = b->g[g].x;
        __m256i v =
            four_of_8(th_grid_iq2_xxs[x[0]], th_grid_iq2_xxs[x[1]], th_grid_iq2_xxs[x[2]], th_grid_iq2_xxs[x[3]]);
        store32(row, g, negate_where(v, mask[g]));
    }
}

TH_INLINE void decode_iq2_xs(IqRow *row, const void *block) {
    const BlockIQ2_XS *b = block;
    const __m256i *v16 = (const __m256i *)(const void *)b->v;
    uint32_t mask[8];
    row->d = 0.125f * _cvtsh_ss(th_u16(b->d));
    __m256i lo = _mm256_srli_epi16(_mm256_loadu_si256(v16), 9), hi = _mm256_srli_epi16(_mm256_loadu_si256(v16 + 1), 9);
    __m256i s = _mm256_permute4x64_epi64(_mm256_packus_epi16(lo, hi), 0xD8);
    _mm256_storeu_si256((__m256i *)(void *)mask, even_signs32(s));
    nibbles_to_scales(row, b->sc);
    for (int g = 0; g < 8; g++) {
        uint64_t x = load_u64(b->v + 4 * g);
        __m256i v = four_of_8(th_grid_iq2_xs[x & 511], th_grid_iq2_xs[x >> 16 & 511], th_grid_iq2_xs[x >> 32 & 511],
                              th_grid_iq2_xs[x >> 48 & 511]);
        store32(row, g, negate_where(v, mask[g]));
    }
}

TH_INLINE void decode_iq2_s(IqRow *row, const void *block) {
    const BlockIQ2_S *b = block;
    row->d = 0.125f * _cvtsh_ss(th_u16(b->d));
    nibbles_to_scales(row, b->sc);
    for (int g = 0; g < 8; g++) {
        const uint8_t *x = b->lo + 4 * g;
        unsigned h = b->qh[g];
        __m256i v = four_of_8(th_grid_iq2_s[x[0] | (h << 8 & 0x300)], th_grid_iq2_s[x[1] | (h << 6 & 0x300)],
                              th_grid_iq2_s[x[2] | (h << 4 & 0x300)], th_grid_iq2_s[x[3] | (h << 2 & 0x300)]);
        store32(row, g, negate_where(v, load_u32(b->m + 4 * g)));
    }
}

/* Eight indices to eight entries of four bytes. */
TH_INLINE __m256i eight_of_4(const uint8_t (*grid)[4], __m256i index) {
    return _mm256_i32gather_epi32((const int *)(const void *)grid, index, 4);
}
TH_INLINE __m256i widen8(const uint8_t *x) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)x));
}

TH_INLINE void decode_iq3_xxs(IqRow *row, const void *block) {
    const BlockIQ3_XXS *b = block;
    uint32_t mask[8];
    row->d = 0.25f * _cvtsh_ss(th_u16(b->d));
    words_to_signs(mask, row, _mm256_loadu_si256((const __m256i *)(const void *)b->w));
    for (int g = 0; g < 8; g++)
        store32(row, g, negate_where(eight_of_4(th_grid_iq3_xxs, widen8(b->x + 8 * g)), mask[g]));
}

TH_INLINE void decode_iq3_s(IqRow *row, const void *block) {
    const BlockIQ3_S *b = block;
    const __m256i up = _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1), bit8 = _mm256_set1_epi32(256);
    row->d = _cvtsh_ss(th_u16(b->d));
    for (int g = 0; g < 8; g++) {
        unsigned s = b->sc[g / 2] >> 4 * (g % 2) & 15;
        put_scales(row, g, s, s);
        __m256i high = _mm256_and_si256(_mm256_sllv_epi32(_mm256_set1_epi32(b->qh[g]), up), bit8);
        __m256i v = eight_of_4(th_grid_iq3_s, _mm256_or_si256(widen8(b->lo + 8 * g), high));
        store32(row, g, negate_where(v, load_u32(b->m + 4 * g)));
    }
}

/* 8 * grid +- 1: the sign of the 1 is a byte of `minus` for each group of 8. */
TH_INLINE __m256i iq1_codes(__m256i grid, uint32_t minus) {
    __m256i twice = _mm256_add_epi8(grid, grid), four = _mm256_add_epi8(twice, twice);
    return _mm256_add_epi8(_mm256_add_epi8(four, four), negate_where(_mm256_set1_epi8(1), minus));
}

TH_INLINE void decode_iq1_s(IqRow *row, const void *block) {
    const BlockIQ1_S *b = block;
    row->d = 0.125f * _cvtsh_ss(th_u16(b->d));
    for (int g = 0; g < 8; g++) {
        const uint8_t *x = b->lo + 4 * g;
        unsigned h = th_u16(b->h[g]);
        put_scales(row, g, h >> 12 & 7, h >> 12 & 7);
        __m256i v = four_of_8(th_grid_iq1[x[0] | (h << 8 & 0x700)], th_grid_iq1[x[1] | (h << 5 & 0x700)],
                              th_grid_iq1[x[2] | (h << 2 & 0x700)], th_grid_iq1[x[3] | (h >> 1 & 0x700)]);
        store32(row, g, iq1_codes(v, h & 0x8000 ? 0xFFFFFFFFu : 0));
    }
}

TH_INLINE void decode_iq1_m(IqRow *row, const void *block) {
    const BlockIQ1_M *b = block;
    row->d = 0.125f * th_iq1_m_scale(b->w);
    for (int g = 0; g < 8; g++) {
        const uint8_t *x = b->lo + 4 * g;
        unsigned h = b->qh[2 * g] | (unsigned)b->qh[2 * g + 1] << 8, w = th_u16(b->w[g / 2]) >> 6 * (g % 2);
        put_scales(row, g, w & 7, w >> 3 & 7);
        __m256i v = four_of_8(th_grid_iq1[x[0] | (h << 8 & 0x700)], th_grid_iq1[x[1] | (h << 4 & 0x700)],
                              th_grid_iq1[x[2] | (h & 0x700)], th_grid_iq1[x[3] | (h >> 4 & 0x700)]);
        uint32_t minus = (h >> 3 & 1) | (h >> 7 & 1) << 8 | (h >> 11 & 1) << 16 | (h >> 15 & 1) << 24;
        store32(row, g, iq1_codes(v, minus * 255));
    }
}

#endif
