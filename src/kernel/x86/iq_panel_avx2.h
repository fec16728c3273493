/* iq_panel_avx2.h: codebook types in registers of 256 bits (kq_panel_avx2.h, legacy_panel_avx2.h). */
#ifndef THIMBLE_IQ_PANEL_AVX2_H
#define THIMBLE_IQ_PANEL_AVX2_H

#include "kernel/x86/kq_panel_avx2.h"
#include "kernel/x86/legacy_panel_avx2.h"

/* Bit i of the mask belongs to byte i. */
TH_INLINE __m256i negate_where(__m256i v, uint32_t mask) {
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i spread =
        _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask),
                            _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    __m256i minus = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bits), bits);
    return _mm256_sub_epi8(_mm256_xor_si256(v, minus), minus);
}
#include "kernel/x86/iq_rows_x86.h"

/* What is added to every code: 0 where the sign stays (AVX2), 128 for unsigned codes (AVX-VNNI). */
TH_INLINE __m256i value_table(__m256i offset) {
    __m128i values = _mm_loadu_si128((const __m128i *)(const void *)th_values_iq4);
    return _mm256_xor_si256(_mm256_broadcastsi128_si256(values), offset);
}

TH_INLINE void unpack_decoded(KqPanel *p, const Rows8 *r, size_t at, DecodeRow *decode, __m256i offset) {
    IqRow row[8];
    Rows8 c;
    float d[8];
    __m256i sc[4];
    for (int i = 0; i < 8; i++) {
        decode(row + i, r->p[i] + at);
        c.p[i] = (const uint8_t *)row[i].q;
        d[i] = row[i].d;
    }
    p->d = _mm256_loadu_ps(d);
    p->dmin = _mm256_setzero_ps();
    for (size_t i = 0; i < 16; i++) {
        turn4(p->q + 4 * i, &c, 16 * i);
        TH_UNROLL for (int j = 0; j < 4; j++) p->q[4 * i + (size_t)j] =
            _mm256_xor_si256(p->q[4 * i + (size_t)j], offset);
    }
    turn4(sc, &c, 256);
    signed_scales(p, sc, 7);
}

TH_INLINE void turn_iq4_xs(KqPanel *p, const Rows8 *r, size_t at, __m256i offset) {
    const __m256i low4 = bytes_of(0x0F), table = value_table(offset), nibble = _mm256_set1_epi32(15),
                  two = _mm256_set1_epi32(3);
    __m256i v[4];
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = _mm256_setzero_ps();
    TH_UNROLL for (int g = 0; g < 8; g++) {
        __m256i low = _mm256_and_si256(_mm256_srli_epi32(v[1], 4 * g), nibble);
        __m256i high = _mm256_and_si256(_mm256_srli_epi32(v[0], 16 + 2 * g), two);
        __m256i sc = _mm256_sub_epi32(_mm256_or_si256(low, _mm256_slli_epi32(high, 4)), _mm256_set1_epi32(32));
        p->scale[g] = _mm256_or_si256(_mm256_slli_epi32(sc, 16), _mm256_and_si256(sc, _mm256_set1_epi32(0xFFFF)));
        p->min[g] = _mm256_slli_epi16(p->scale[g], 7);
    }
    for (size_t g = 0; g < 8; g++) {
        turn4(v, r, at + 8 + 16 * g);
        TH_UNROLL for (size_t j = 0; j < 4; j++) {
            p->q[8 * g + j] = _mm256_shuffle_epi8(table, _mm256_and_si256(v[j], low4));
            p->q[8 * g + 4 + j] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi32(v[j], 4), low4));
        }
    }
}

TH_INLINE void turn_iq4_nl(LegacyPanel *p, const __m256i *word, __m256i offset) {
    const __m256i table = value_table(offset);
    unpack_q4_0(p, word);
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        TH_UNROLL for (int k = 0; k < 8; k++) p->q[b][k] = _mm256_shuffle_epi8(table, p->q[b][k]);
    }
}

#endif
