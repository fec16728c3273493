/* legacy_panel_avx2.h: blocks of 32 weights in registers of 256 bits: panels of 8 rows (tile_avx2.h), eight blocks at a
 * time, words turned as they lie (legacy_panel_avx512vnni.h says why).
 *
 * Codes of 4 and 5 bits are unsigned in the panel; the sum of a block's activations, from the prepared row, takes the
 * offset away again: n = sum(code * x) - offset * s. How products are added up is left to the file that includes this
 * one (AVX2, AVX-VNNI). */
#ifndef THIMBLE_LEGACY_PANEL_AVX2_H
#define THIMBLE_LEGACY_PANEL_AVX2_H

#include "kernel/act.h"
#include "kernel/x86/tile_avx2.h"

enum { BLOCK = 32, GROUP = 8, MAX_GROUP_BYTES = 34 * GROUP, MAX_WORDS = MAX_GROUP_BYTES / 4 };

typedef struct LegacyPanel {
    __m256i q[GROUP][8];
    __m256 d[GROUP], m[GROUP];
} LegacyPanel;

typedef enum BlockKind {
    ONE_SCALE,
    SCALE_AND_MINIMUM, /* m */
    SCALE_OF_TWO,      /* blocks, in the last one's d */
    SCALE_OF_FOUR,
    SCALE_OF_HALVES /* d: of the first 16 weights, m: of the others */
} BlockKind;

typedef struct LegacyShape {
    size_t group_bytes; /* of 256 weights */
    int offset;         /* of a signed code; 0: unsigned, or sign kept */
    int run;            /* steps whose sums fit in 16 bits, for those who add there; 1: sign kept */
    BlockKind kind;
    void (*unpack)(LegacyPanel *p, const __m256i *word);
    /* n[t] += sum(code * x) over `steps` times four weights, for nt tokens from x on */
    void (*sum)(__m256i n[4], const __m256i *q, int steps, int run, const char *x, size_t x_stride, int nt);
} LegacyShape;

/* part[t] = d1 * n1 + d0 * n0: the halves of a block. */
TH_INLINE void block_halves(__m256 part[4], const LegacyPanel *p, int b, LegacyShape s, const char *x, size_t x_stride,
                            int nt) {
    TH_UNROLL for (int half = 0; half < 2; half++) {
        __m256i n[4];
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_setzero_si256();
        s.sum(n, p->q[b] + 4 * half, 4, s.run, x + 16 * half, x_stride, nt);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m256 v = _mm256_cvtepi32_ps(n[t]);
            part[t] = half ? _mm256_fmadd_ps(p->m[b], v, part[t]) : _mm256_mul_ps(p->d[b], v);
        }
    }
}

/* Brings the sum of block b into acc for one token; part carries what blocks under one scale have summed so far. */
TH_INLINE void block_add(__m256 *acc, __m256 *part, const LegacyPanel *p, int b, LegacyShape s, __m256 dx, __m256i n,
                         const char *sum) {
    const int share = s.kind == SCALE_OF_TWO ? 2 : 4;
    if (s.kind == SCALE_OF_HALVES) {
        *acc = _mm256_fmadd_ps(dx, *part, *acc);
    } else if (s.kind == SCALE_OF_TWO || s.kind == SCALE_OF_FOUR) {
        *part = _mm256_fmadd_ps(dx, _mm256_cvtepi32_ps(n), b % share == 0 ? _mm256_setzero_ps() : *part);
        if (b % share == share - 1) *acc = _mm256_fmadd_ps(p->d[b], *part, *acc);
    } else {
        *acc = _mm256_fmadd_ps(_mm256_mul_ps(p->d[b], dx), _mm256_cvtepi32_ps(n), *acc);
        if (s.kind == SCALE_AND_MINIMUM)
            *acc = _mm256_fmadd_ps(_mm256_mul_ps(p->m[b], dx), _mm256_cvtepi32_ps(broadcast32(sum)), *acc);
    }
}

/* nt tokens of nb blocks: y[t] = fma(.., y[t]) for the panel's rows. */
TH_INLINE void legacy_tile(const LegacyPanel *p, LegacyShape s, ActView a, float *y, size_t y_stride, __m256i rows,
                           bool first, int nb, int nt) {
    /* Seen as two 16-bit halves the sum s lies in the lower one (|s| <= 4064), so one vpmaddwd gives -offset * s. */
    const __m256i offset = _mm256_set1_epi32(-s.offset & 0xFFFF);
    __m256 acc[4], part[4];
    TH_UNROLL for (int t = 0; t < nt; t++) {
        acc[t] = first ? _mm256_setzero_ps() : _mm256_maskload_ps(y + (size_t)t * y_stride, rows);
        part[t] = _mm256_setzero_ps();
    }
    for (int b = 0; b < nb; b++) {
        const char *x = a.x + a.q_at + 32 * (size_t)b, *d = a.x + a.d_at + 4 * (size_t)b,
                   *sum = a.x + a.s_at + 4 * (size_t)b;
        __m256i n[4];
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] =
            s.offset ? _mm256_madd_epi16(broadcast32(sum + (size_t)t * a.stride), offset) : _mm256_setzero_si256();
        if (s.kind == SCALE_OF_HALVES)
            block_halves(part, p, b, s, x, a.stride, nt);
        else
            s.sum(n, p->q[b], 8, s.run, x, a.stride, nt);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m256 dx = _mm256_castsi256_ps(broadcast32(d + (size_t)t * a.stride));
            block_add(acc + t, part + t, p, b, s, dx, n[t], sum + (size_t)t * a.stride);
        }
    }
    TH_UNROLL for (int t = 0; t < nt; t++) _mm256_maskstore_ps(y + (size_t)t * y_stride, rows, acc[t]);
}

TH_INLINE void legacy_tokens(const LegacyPanel *p, LegacyShape s, ActView a, float *y, size_t y_stride, __m256i rows,
                             bool first, int nb, int T) {
    int t = 0;
    for (; t + 4 <= T; t += 4, a.x += 4 * a.stride, y += 4 * y_stride)
        legacy_tile(p, s, a, y, y_stride, rows, first, nb, 4);
    if (T - t >= 2) {
        legacy_tile(p, s, a, y, y_stride, rows, first, nb, 2);
        t += 2, a.x += 2 * a.stride, y += 2 * y_stride;
    }
    if (T - t >= 1) legacy_tile(p, s, a, y, y_stride, rows, first, nb, 1);
}

/* The words of eight blocks of eight rows. */
TH_INLINE void turn_words(__m256i *word, const Rows8 *r, size_t at, size_t n_words) {
    TH_UNROLL for (size_t i = 0; i < n_words; i += 4) {
        size_t k = i + 4 <= n_words ? i : n_words - 4; /* the last four again rather than beyond the end */
        turn4(word + k, r, at + 4 * k);
    }
}

/* Fewer than eight blocks are left: copy them, since a whole group would be read beyond the row. */
static void turn_tail(__m256i *word, const Rows8 *r, size_t at, size_t bytes, size_t n_words) {
    uint8_t copy[8][MAX_GROUP_BYTES];
    Rows8 c;
    memset(copy, 0, sizeof copy);
    for (int i = 0; i < 8; i++) {
        memcpy(copy[i], r->p[i] + at, bytes);
        c.p[i] = copy[i];
    }
    turn_words(word, &c, 0, n_words);
}

TH_INLINE void legacy_rows(LegacyShape s, float *y, size_t y_stride, const void *w, size_t stride, const void *x,
                           size_t x_stride, int cols, int rows, int T) {
    size_t d_at = th_act_q_bytes(cols), s_at = d_at + th_act_d_bytes(ACT_Q8_0, cols), words = s.group_bytes / 4;
    int pass = tokens_per_pass(x_stride, T), blocks = cols / BLOCK;
    for (int t0 = 0; t0 < T; t0 += pass) {
        for (int r0 = 0; r0 < rows; r0 += 8) {
            Rows8 r = rows8_at(w, stride, r0, rows);
            __m256i mask = rows8_mask(r0, rows);
            for (int b = 0; b < blocks; b += GROUP) {
                LegacyPanel p;
                __m256i word[MAX_WORDS];
                int nb = th_min_int(GROUP, blocks - b);
                size_t at = (size_t)(b / GROUP) * s.group_bytes, bytes = s.group_bytes * (size_t)nb / GROUP;
                prefetch_rows(w, stride, r0, at, bytes);
                if (nb == GROUP)
                    turn_words(word, &r, at, words);
                else
                    turn_tail(word, &r, at, bytes, words);
                s.unpack(&p, word);
                ActView a = {(const char *)x + (size_t)t0 * x_stride, x_stride, (size_t)b * BLOCK, d_at + (size_t)b * 4,
                             s_at + (size_t)b * 4};
                legacy_tokens(&p, s, a, y + (size_t)t0 * y_stride + r0, y_stride, mask, b == 0, nb,
                              th_min_int(pass, T - t0));
            }
        }
    }
}

/* A word of nibbles: weights 4j..4j+3 are the low ones, 16+4j.. the high ones. */
TH_INLINE void split_nibbles(__m256i q[8], int j, __m256i v) {
    const __m256i low4 = bytes_of(0x0F);
    q[j] = _mm256_and_si256(v, low4);
    q[4 + j] = _mm256_and_si256(_mm256_srli_epi32(v, 4), low4);
}
/* Bit i of high, the fifth bit of code i, to bit 4 of its byte. */
TH_INLINE void add_fifth_bits(__m256i q[8], __m256i high) {
    const __m256i bits0 = _mm256_set1_epi32(0x08040201), bits4 = _mm256_set1_epi32((int)0x80402010u);
    TH_UNROLL for (int j = 0; j < 8; j++) {
        __m256i bit = j % 2 ? bits4 : bits0,
                is = _mm256_cmpeq_epi8(_mm256_and_si256(byte_to_all(high, j / 2), bit), bit);
        q[j] = _mm256_or_si256(q[j], _mm256_and_si256(is, bytes_of(16)));
    }
}

/* ---- Q4_0: d, 16 bytes of nibbles; 18 bytes */
TH_INLINE void unpack_q4_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + b / 2 * 9;
        p->d[b] = b % 2 ? high_f16(w[4]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, b % 2 ? w[5 + j] : join(w + j));
    }
}
/* ---- Q4_1: d, m, 16 bytes; 20 bytes */
TH_INLINE void unpack_q4_1(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + b * 5;
        p->d[b] = low_f16(w[0]);
        p->m[b] = high_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, w[1 + j]);
    }
}
/* ---- Q5_0: d, 32 fifth bits, 16 bytes; 22 bytes */
TH_INLINE void unpack_q5_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + b / 2 * 11;
        p->d[b] = b % 2 ? high_f16(w[5]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, b % 2 ? w[7 + j] : join(w + 1 + j));
        add_fifth_bits(p->q[b], b % 2 ? w[6] : join(w));
    }
}
/* ---- Q5_1: d, m, 32 fifth bits, 16 bytes; 24 bytes */
TH_INLINE void unpack_q5_1(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + b * 6;
        p->d[b] = low_f16(w[0]);
        p->m[b] = high_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, w[2 + j]);
        add_fifth_bits(p->q[b], w[1]);
    }
}
/* ---- Q8_0: d, 32 signed bytes; 34 bytes; the sign stays */
TH_INLINE void unpack_q8_0(LegacyPanel *p, const __m256i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m256i *w = word + b / 2 * 17;
        p->d[b] = b % 2 ? high_f16(w[8]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 8; j++) p->q[b][j] = b % 2 ? w[9 + j] : join(w + j);
    }
}

#endif
