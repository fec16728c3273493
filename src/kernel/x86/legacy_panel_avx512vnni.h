/* legacy_panel_avx512vnni.h: blocks of 32 weights that meet Q8_0, with AVX-512 VNNI: panels of 16 rows (tile_avx512.h),
 * eight blocks at a time.
 *
 * These blocks are 17 to 34 bytes long, so weights do not begin at multiples of four. Eight blocks always
 * fill whole 32-bit words though: the words of a row are turned as they lie, and where a block begins in the middle of
 * a word its weights are joined from two neighbouring words. That is cheaper than loading each block by itself, and the
 * scales come along without a load of their own.
 *
 * Codes are unsigned in the panel (Q8_0 plus 128, so -128 is 0); the sum of a block's activations, from the prepared
 * row, takes the offset away again: n = sum(code * x) - offset * s. All of it is exact; |n| < 255*127*32 + 128*127*32.
 */
#ifndef THIMBLE_LEGACY_PANEL_AVX512VNNI_H
#define THIMBLE_LEGACY_PANEL_AVX512VNNI_H

#include "kernel/act.h"
#include "kernel/x86/tile_avx512.h"

enum { BLOCK = 32, GROUP = 8, MAX_GROUP_BYTES = 34 * GROUP, MAX_WORDS = MAX_GROUP_BYTES / 4 };

typedef struct LegacyPanel {
    __m512i q[GROUP][8];
    __m512 d[GROUP], m[GROUP];
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
    int offset;         /* of a signed code; 0: unsigned */
    BlockKind kind;
    void (*unpack)(LegacyPanel *p, const __m512i *word);
} LegacyShape;

/* n[t] += sum(code * x) over `steps` times four weights, for nt tokens from x on. */
TH_INLINE void block_dot(__m512i n[8], const __m512i *q, int steps, const char *x, size_t x_stride, int nt) {
    TH_UNROLL for (int k = 0; k < steps; k++) {
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] =
            _mm512_dpbusd_epi32(n[t], q[k], broadcast32(x + (size_t)t * x_stride + 4 * (size_t)k));
    }
}

/* part[t] = d1 * n1 + d0 * n0: the halves of a block. The prepared row has no sums of 16, so the offset meets the
 * activations themselves. */
TH_INLINE void block_halves(__m512 part[8], const LegacyPanel *p, int b, LegacyShape s, const char *x, size_t x_stride,
                            int nt) {
    TH_UNROLL for (int half = 0; half < 2; half++) {
        __m512i n[8], m[8], offset[4];
        TH_UNROLL for (int k = 0; k < 4; k++) offset[k] = bytes_of((unsigned char)s.offset);
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] = m[t] = _mm512_setzero_si512();
        block_dot(n, p->q[b] + 4 * half, 4, x + 16 * half, x_stride, nt);
        block_dot(m, offset, 4, x + 16 * half, x_stride, nt);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m512 v = _mm512_cvtepi32_ps(_mm512_sub_epi32(n[t], m[t]));
            part[t] = half ? _mm512_fmadd_ps(p->m[b], v, part[t]) : _mm512_mul_ps(p->d[b], v);
        }
    }
}

/* Brings the sum of block b into acc for one token; part carries what blocks under one scale have summed so far. */
TH_INLINE void block_add(__m512 *acc, __m512 *part, const LegacyPanel *p, int b, LegacyShape s, __m512 dx, __m512i n,
                         const char *sum) {
    const int share = s.kind == SCALE_OF_TWO ? 2 : 4;
    if (s.kind == SCALE_OF_HALVES) {
        *acc = _mm512_fmadd_ps(dx, *part, *acc);
    } else if (s.kind == SCALE_OF_TWO || s.kind == SCALE_OF_FOUR) {
        *part = _mm512_fmadd_ps(dx, _mm512_cvtepi32_ps(n), b % share == 0 ? _mm512_setzero_ps() : *part);
        if (b % share == share - 1) *acc = _mm512_fmadd_ps(p->d[b], *part, *acc);
    } else {
        *acc = _mm512_fmadd_ps(_mm512_mul_ps(p->d[b], dx), _mm512_cvtepi32_ps(n), *acc);
        if (s.kind == SCALE_AND_MINIMUM)
            *acc = _mm512_fmadd_ps(_mm512_mul_ps(p->m[b], dx), _mm512_cvtepi32_ps(broadcast32(sum)), *acc);
    }
}

/* nt tokens of nb blocks: y[t] = fma(.., y[t]) for the panel's rows. */
TH_INLINE void legacy_tile(const LegacyPanel *p, LegacyShape s, ActView a, float *y, size_t y_stride, __mmask16 rows,
                           bool first, int nb, int nt) {
    /* Seen as two 16-bit halves the sum s lies in the lower one (|s| <= 4064), so one vpmaddwd gives -offset * s. */
    const __m512i offset = _mm512_set1_epi32(-s.offset & 0xFFFF);
    __m512 acc[8], part[8];
    TH_UNROLL for (int t = 0; t < nt; t++) {
        acc[t] = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(rows, y + (size_t)t * y_stride);
        part[t] = _mm512_setzero_ps();
    }
    for (int b = 0; b < nb; b++) {
        const char *x = a.x + a.q_at + 32 * (size_t)b, *d = a.x + a.d_at + 4 * (size_t)b,
                   *sum = a.x + a.s_at + 4 * (size_t)b;
        __m512i n[8];
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] =
            s.offset ? _mm512_madd_epi16(broadcast32(sum + (size_t)t * a.stride), offset) : _mm512_setzero_si512();
        if (s.kind == SCALE_OF_HALVES)
            block_halves(part, p, b, s, x, a.stride, nt);
        else
            block_dot(n, p->q[b], 8, x, a.stride, nt);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m512 dx = _mm512_castsi512_ps(broadcast32(d + (size_t)t * a.stride));
            block_add(acc + t, part + t, p, b, s, dx, n[t], sum + (size_t)t * a.stride);
        }
    }
    TH_UNROLL for (int t = 0; t < nt; t++) _mm512_mask_storeu_ps(y + (size_t)t * y_stride, rows, acc[t]);
}

TH_INLINE void legacy_tokens(const LegacyPanel *p, LegacyShape s, ActView a, float *y, size_t y_stride, __mmask16 rows,
                             bool first, int nb, int T) {
    int t = 0;
    for (; t + 8 <= T; t += 8, a.x += 8 * a.stride, y += 8 * y_stride)
        legacy_tile(p, s, a, y, y_stride, rows, first, nb, 8);
    if (T - t >= 4) {
        legacy_tile(p, s, a, y, y_stride, rows, first, nb, 4);
        t += 4, a.x += 4 * a.stride, y += 4 * y_stride;
    }
    if (T - t >= 2) {
        legacy_tile(p, s, a, y, y_stride, rows, first, nb, 2);
        t += 2, a.x += 2 * a.stride, y += 2 * y_stride;
    }
    if (T - t >= 1) legacy_tile(p, s, a, y, y_stride, rows, first, nb, 1);
}

/* The words of eight blocks of sixteen rows. */
TH_INLINE void turn_words(__m512i *word, const Rows16 *r, size_t at, size_t n_words) {
    TH_UNROLL for (size_t i = 0; i < n_words; i += 4) {
        size_t k = i + 4 <= n_words ? i : n_words - 4; /* the last four again rather than beyond the end */
        turn4(word + k, r, at + 4 * k);
    }
}

/* Fewer than eight blocks are left: copy them, since a whole group would be read beyond the row. */
static void turn_tail(__m512i *word, const Rows16 *r, size_t at, size_t bytes, size_t n_words) {
    uint8_t copy[16][MAX_GROUP_BYTES];
    Rows16 c;
    memset(copy, 0, sizeof copy);
    for (int i = 0; i < 16; i++) {
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
        for (int r0 = 0; r0 < rows; r0 += 16) {
            Rows16 r = rows16_at(w, stride, r0, rows);
            __mmask16 mask = rows16_mask(r0, rows);
            for (int b = 0; b < blocks; b += GROUP) {
                LegacyPanel p;
                __m512i word[MAX_WORDS];
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
TH_INLINE void split_nibbles(__m512i q[8], int j, __m512i v) {
    const __m512i low4 = bytes_of(0x0F);
    q[j] = _mm512_and_si512(v, low4);
    q[4 + j] = _mm512_and_si512(_mm512_srli_epi32(v, 4), low4);
}
/* ---- Q4_0: d, 16 bytes of nibbles; 18 bytes */
TH_INLINE void unpack_q4_0(LegacyPanel *p, const __m512i *word) {
    TH_UNROLL for (int b = 0; b < GROUP; b++) {
        const __m512i *w = word + b / 2 * 9;
        p->d[b] = b % 2 ? high_f16(w[4]) : low_f16(w[0]);
        TH_UNROLL for (int j = 0; j < 4; j++) split_nibbles(p->q[b], j, b % 2 ? w[5 + j] : join(w + j));
    }
}

#endif
