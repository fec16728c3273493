/* lowbit_panel_avx2.h: one- and two-bit and ternary types in registers of 256 bits (kq_panel_avx2.h,
 * legacy_panel_avx2.h). The panel holds codes plus 1. */
#ifndef THIMBLE_LOWBIT_PANEL_AVX2_H
#define THIMBLE_LOWBIT_PANEL_AVX2_H

#include "kernel/x86/kq_panel_avx2.h"
#include "kernel/x86/legacy_panel_avx2.h"

/* x * 3 >> 8: comparisons give -1. */
TH_INLINE __m256i first_digit(__m256i x) {
    __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(x, bytes_of(86)), x);
    __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(x, bytes_of(171)), x);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(one, two));
}
TH_INLINE __m256i two_where(__m256i v, __m256i bit) {
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit), bytes_of(2));
}

/* Four codes of two bits in byte j of each lane, one byte each. */
TH_INLINE __m256i spread_pairs(__m256i w, int j) {
    __m256i t = byte_to_i32(w, j);
    t = _mm256_or_si256(t, _mm256_slli_epi32(t, 6));
    return _mm256_and_si256(_mm256_or_si256(t, _mm256_slli_epi32(t, 12)), bytes_of(3));
}

/* ---- TQ2_0: 64 bytes as Q2_K's, d; 66 bytes. One scale: the panel's are 1, and so is the offset. */
TH_INLINE void unit_scales(KqPanel *p) {
    TH_UNROLL for (int g = 0; g < 8; g++) {
        p->scale[g] = _mm256_set1_epi16(1);
        p->min[g] = _mm256_set1_epi16(1);
    }
}

TH_INLINE void unpack_tq2_0(KqPanel *p, const Rows8 *r, size_t at) {
    __m256i v[4];
    unit_scales(p);
    turn4(v, r, at + 50); /* its last word ends in d */
    p->d = high_f16(v[3]);
    p->dmin = _mm256_setzero_ps();
    TH_UNROLL for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups of 32 in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 16 * (size_t)i);
        TH_UNROLL for (int j = 0; j < 4; j++) {
            TH_UNROLL for (int e = 0; e < 4; e++) p->q[32 * n + 8 * j + l / 4 + e] =
                _mm256_and_si256(_mm256_srli_epi32(v[e], 2 * j), bytes_of(3));
        }
    }
}

/* ---- ternary digits: bytes are fractions, three times one is its first digit and the rest */
TH_INLINE __m256i tripled(__m256i x) { return _mm256_add_epi8(_mm256_add_epi8(x, x), x); }

/* TQ1_0: 48 bytes of five digits, 4 of four, d; 54 bytes. */
TH_INLINE void unpack_tq1_0(KqPanel *p, const Rows8 *r, size_t at) {
    __m256i w[16], tail[4];
    unit_scales(p);
    TH_UNROLL for (int i = 0; i < 3; i++) turn4(w + 4 * i, r, at + 16 * (size_t)i);
    turn4(tail, r, at + 38); /* ends in the 4 bytes and d */
    p->d = high_f16(tail[3]);
    p->dmin = _mm256_setzero_ps();
    w[12] = join(tail + 2);
    TH_UNROLL for (int n = 0; n < 5; n++) {
        TH_UNROLL for (int i = 0; i < 8; i++) p->q[8 * n + i] = first_digit(w[i]);
        TH_UNROLL for (int i = 0; i < 4; i++) p->q[40 + 4 * n + i] = first_digit(w[8 + i]);
        if (n < 4) p->q[60 + n] = first_digit(w[12]);
        TH_UNROLL for (int i = 0; i < 13; i++) w[i] = tripled(w[i]);
    }
}

/* PTQ1_0: 16 + 8 bytes of five digits, 2 of four, d; 28 bytes of 128 weights. */
TH_INLINE void unpack_ptq1_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < 2; b++) {
        __m256i w[7], *q = p->q[4 * b], last[4];
        TH_UNROLL for (int i = 0; i < 7; i++) w[i] = word[7 * b + i];
        p->d[4 * b + 3] = high_f16(w[6]);
        TH_UNROLL for (int n = 0; n < 5; n++) {
            TH_UNROLL for (int i = 0; i < 4; i++) q[4 * n + i] = first_digit(w[i]);
            TH_UNROLL for (int i = 0; i < 2; i++) q[20 + 2 * n + i] = first_digit(w[4 + i]);
            if (n < 4) last[n] = _mm256_and_si256(first_digit(w[6]), _mm256_set1_epi32(0xFFFF));
            TH_UNROLL for (int i = 0; i < 7; i++) w[i] = tripled(w[i]);
        }
        q[30] = _mm256_or_si256(last[0], _mm256_slli_epi32(last[1], 16));
        q[31] = _mm256_or_si256(last[2], _mm256_slli_epi32(last[3], 16));
    }
}

/* ---- Q1_0: d, 128 bits; 18 bytes. A bit is the code 2, less the offset +1 or -1. */
TH_INLINE void unpack_q1_0(LegacyPanel *p, const __m256i *word) {
    const __m256i bits0 = _mm256_set1_epi32(0x08040201), bits4 = _mm256_set1_epi32((int)0x80402010u);
    TH_UNROLL for (int b = 0; b < 2; b++) {
        p->d[4 * b + 3] = b ? high_f16(word[4]) : low_f16(word[0]);
        TH_UNROLL for (int m = 0; m < 4; m++) {
            __m256i v = b ? word[5 + m] : join(word + m);
            TH_UNROLL for (int j = 0; j < 8; j++) p->q[4 * b + m][j] =
                two_where(byte_to_all(v, j / 2), j % 2 ? bits4 : bits0);
        }
    }
}

/* ---- Q2_0: d, 64 codes of two bits; 18 bytes */
TH_INLINE void unpack_q2_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < 4; b++) {
        const __m256i *w = word + b / 2 * 9;
        p->d[2 * b + 1] = b % 2 ? high_f16(w[4]) : low_f16(w[0]);
        TH_UNROLL for (int m = 0; m < 4; m++) {
            __m256i v = b % 2 ? w[5 + m] : join(w + m);
            TH_UNROLL for (int j = 0; j < 4; j++) p->q[2 * b + m / 2][m % 2 * 4 + j] = spread_pairs(v, j);
        }
    }
}

/* ---- PQ2_0: d, 128 codes of two bits; 34 bytes */
TH_INLINE void unpack_pq2_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < 2; b++) {
        p->d[4 * b + 3] = b ? high_f16(word[8]) : low_f16(word[0]);
        TH_UNROLL for (int m = 0; m < 8; m++) {
            __m256i v = b ? word[9 + m] : join(word + m);
            TH_UNROLL for (int j = 0; j < 4; j++) p->q[4 * b + m / 2][m % 2 * 4 + j] = spread_pairs(v, j);
        }
    }
}

#endif
