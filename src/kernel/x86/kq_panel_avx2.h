/* kq_panel_avx2.h: K-quants in registers of 256 bits: panels of 8 rows (tile_avx2.h), one super-block of 256 columns at
 * a time.
 *
 *   n = sum_g scale_g * sum(code * x)   - offset * m for types whose code is signed (Q3_K 4, Q6_K 32: stored unsigned)
 *   m = sum_g min_g * sum(x)            by vpmaddwd on the activation's sums of 16; for Q3_K and Q6_K min_g is the
 * scale
 *
 * How n's products are added up is left to the file that includes this one (AVX2, AVX-VNNI). */
#ifndef THIMBLE_KQ_PANEL_AVX2_H
#define THIMBLE_KQ_PANEL_AVX2_H

#include "kernel/act.h"
#include "kernel/x86/tile_avx2.h"

enum { SUPER = 256, STEPS = SUPER / 4 };

typedef struct KqPanel {
    __m256i q[STEPS];
    __m256i scale[16]; /* the same 16-bit number in both halves, one per group of weights */
    __m256i min[8];    /* 16-bit pairs: two neighbouring groups of 16 */
    __m256 d, dmin;
} KqPanel;

typedef enum KqKind {
    KQ_MINIMUM, /* codes are unsigned, dmin * m is taken off */
    KQ_OFFSET,  /* codes carry an offset, m is what it adds to n */
    KQ_SIGNED   /* codes keep their sign, no m */
} KqKind;

typedef struct KqShape {
    size_t block_bytes;
    int groups; /* scales per super-block */
    int run;    /* steps whose sums fit in 16 bits, for those who add there */
    KqKind kind;
    void (*unpack)(KqPanel *p, const Rows8 *r, size_t at);
    /* n[t] = sum_g scale_g * sum(code * x), for nt tokens from x on */
    void (*sum)(__m256i n[4], const KqPanel *p, int groups, int run, const char *x, size_t x_stride, int nt);
} KqShape;

TH_INLINE void add_minima(__m256i m[4], const KqPanel *p, ActView a, int nt) {
    TH_UNROLL for (int h = 0; h < 8; h++) {
        TH_UNROLL for (int t = 0; t < nt; t++) {
            const char *sum16 = a.x + (size_t)t * a.stride + a.s_at + 4 * (size_t)h;
            m[t] = _mm256_add_epi32(m[t], _mm256_madd_epi16(p->min[h], broadcast32(sum16)));
        }
    }
}

/* nt tokens of one super-block: y[t] = fma(.., y[t]) for the panel's rows. */
TH_INLINE void kq_tile(const KqPanel *p, KqShape s, ActView a, float *y, size_t y_stride, __m256i rows, bool first,
                       int nt) {
    __m256i n[4], m[4];
    TH_UNROLL for (int t = 0; t < nt; t++) m[t] = _mm256_setzero_si256();
    s.sum(n, p, s.groups, s.run, a.x + a.q_at, a.stride, nt);
    if (s.kind != KQ_SIGNED) add_minima(m, p, a, nt);
    TH_UNROLL for (int t = 0; t < nt; t++) {
        __m256 dx = _mm256_castsi256_ps(broadcast32(a.x + (size_t)t * a.stride + a.d_at));
        float *out = y + (size_t)t * y_stride;
        __m256 acc = first ? _mm256_setzero_ps() : _mm256_maskload_ps(out, rows);
        if (s.kind != KQ_MINIMUM) {
            if (s.kind == KQ_OFFSET) n[t] = _mm256_sub_epi32(n[t], m[t]);
            acc = _mm256_fmadd_ps(_mm256_mul_ps(p->d, dx), _mm256_cvtepi32_ps(n[t]), acc);
        } else {
            __m256 high = _mm256_mul_ps(p->d, _mm256_cvtepi32_ps(n[t]));
            acc = _mm256_fmadd_ps(dx, _mm256_sub_ps(high, _mm256_mul_ps(p->dmin, _mm256_cvtepi32_ps(m[t]))), acc);
        }
        _mm256_maskstore_ps(out, rows, acc);
    }
}

TH_INLINE void kq_tokens(const KqPanel *p, KqShape s, ActView a, float *y, size_t y_stride, __m256i rows, bool first,
                         int T) {
    int t = 0;
    for (; t + 4 <= T; t += 4, a.x += 4 * a.stride, y += 4 * y_stride) kq_tile(p, s, a, y, y_stride, rows, first, 4);
    if (T - t >= 2) {
        kq_tile(p, s, a, y, y_stride, rows, first, 2);
        t += 2, a.x += 2 * a.stride, y += 2 * y_stride;
    }
    if (T - t >= 1) kq_tile(p, s, a, y, y_stride, rows, first, 1);
}

TH_INLINE void kq_rows(KqShape s, float *y, size_t y_stride, const void *w, size_t stride, const void *x,
                       size_t x_stride, int cols, int rows, int T) {
    size_t d_at = th_act_q_bytes(cols), s_at = d_at + th_act_d_bytes(ACT_Q8_K, cols);
    int pass = tokens_per_pass(x_stride, T);
    for (int t0 = 0; t0 < T; t0 += pass) {
        for (int r0 = 0; r0 < rows; r0 += 8) {
            Rows8 r = rows8_at(w, stride, r0, rows);
            __m256i mask = rows8_mask(r0, rows);
            for (int b = 0; b < cols / SUPER; b++) {
                KqPanel p;
                s.unpack(&p, &r, (size_t)b * s.block_bytes);
                prefetch_rows(w, stride, r0, (size_t)b * s.block_bytes, s.block_bytes);
                ActView a = {(const char *)x + (size_t)t0 * x_stride, x_stride, (size_t)b * SUPER, d_at + (size_t)b * 4,
                             s_at + (size_t)b * 32};
                kq_tokens(&p, s, a, y + (size_t)t0 * y_stride + r0, y_stride, mask, b == 0, th_min_int(pass, T - t0));
            }
        }
    }
}

/* ---- Q4_K */
/* Scales and minima of 6 bits in three words of every row (specification section 4), to the panel. */
TH_INLINE void unpack_scales6(KqPanel *p, __m256i t0, __m256i t1, __m256i t2) {
    const __m256i low6 = bytes_of(0x3F), low4 = bytes_of(0x0F), high2 = bytes_of(0x30);
    __m256i sc[2], mn[2];
    sc[0] = _mm256_and_si256(t0, low6);
    mn[0] = _mm256_and_si256(t1, low6);
    sc[1] = _mm256_or_si256(_mm256_and_si256(t2, low4), _mm256_and_si256(_mm256_srli_epi32(t0, 2), high2));
    mn[1] = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(t2, 4), low4),
                            _mm256_and_si256(_mm256_srli_epi32(t1, 2), high2));
    TH_UNROLL for (int g = 0; g < 8; g++) {
        p->scale[g] = bytes_to_pair(sc[g / 4], g % 4, g % 4);
        p->min[g] = bytes_to_pair(mn[g / 4], g % 4, g % 4);
    }
}

TH_INLINE void unpack_q4_k(KqPanel *p, const Rows8 *r, size_t at) {
    __m256i v[4];
    const __m256i low4 = bytes_of(0x0F);
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = high_f16(v[0]);
    unpack_scales6(p, v[1], v[2], v[3]);
    for (int c = 0; c < 4; c++) { /* 32 bytes: 32 low nibbles, then 32 high ones */
        TH_UNROLL for (int half = 0; half < 2; half++) {
            turn4(v, r, at + 16 + (size_t)c * 32 + (size_t)half * 16);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                p->q[16 * c + 4 * half + j] = _mm256_and_si256(v[j], low4);
                p->q[16 * c + 8 + 4 * half + j] = _mm256_and_si256(_mm256_srli_epi32(v[j], 4), low4);
            }
        }
    }
}

/* ---- Q5_K */
TH_INLINE void unpack_q5_k(KqPanel *p, const Rows8 *r, size_t at) {
    __m256i v[4], high[8];
    const __m256i low4 = bytes_of(0x0F), bit4 = bytes_of(0x10);
    turn4(v, r, at);
    p->d = low_f16(v[0]);
    p->dmin = high_f16(v[0]);
    unpack_scales6(p, v[1], v[2], v[3]);
    turn4(high, r, at + 16);
    turn4(high + 4, r, at + 32);
    for (int c = 0; c < 4; c++) { /* as Q4_K; the fifth bits are now bits 0 and 1 of high's bytes */
        TH_UNROLL for (int half = 0; half < 2; half++) {
            turn4(v, r, at + 48 + (size_t)c * 32 + (size_t)half * 16);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                __m256i h = high[4 * half + j], h0 = _mm256_slli_epi32(h, 4), h1 = _mm256_slli_epi32(h, 3);
                __m256i v1 = _mm256_srli_epi32(v[j], 4), *q = p->q + 16 * c + 4 * half + j;
                q[0] = _mm256_or_si256(_mm256_and_si256(v[j], low4), _mm256_and_si256(h0, bit4));
                q[8] = _mm256_or_si256(_mm256_and_si256(v1, low4), _mm256_and_si256(h1, bit4));
                high[4 * half + j] = _mm256_srli_epi32(h, 2);
            }
        }
    }
}

/* Scales of 8 bits with their sign, four in each word, to the panel; min_g = scale_g << log, the offset of a code being
 * 1 << log: at most 4096. */
TH_INLINE void signed_scales(KqPanel *p, const __m256i sc[4], int log) {
    TH_UNROLL for (int h = 0; h < 8; h++) { /* the bytes into the high halves, then down with their sign */
        __m256i pair = bytes_to_pair(sc[h / 2], 2 * (h % 2), 2 * (h % 2) + 1);
        __m256i sc2 = _mm256_srai_epi16(_mm256_slli_epi16(pair, 8), 8);
        p->scale[2 * h] = _mm256_blend_epi16(sc2, _mm256_slli_epi32(sc2, 16), 0xAA);
        p->scale[2 * h + 1] = _mm256_blend_epi16(_mm256_srli_epi32(sc2, 16), sc2, 0xAA);
        p->min[h] = _mm256_slli_epi16(sc2, log);
    }
}

/* ---- Q3_K */
TH_INLINE void unpack_q3_k(KqPanel *p, const Rows8 *r, size_t at) {
    const __m256i low2 = bytes_of(3), low4 = bytes_of(0x0F), bits45 = bytes_of(0x30), bit2 = bytes_of(4);
    const __m256i offset = bytes_of(32);
    __m256i v[4], high[8], sc[4];
    turn4(v, r, at + 94); /* the 12 bytes of scales begin in the middle of a word; the last ends in d */
    p->d = high_f16(v[3]);
    p->dmin = _mm256_setzero_ps();
    __m256i s0 = join(v), s1 = join(v + 1), s2 = join(v + 2);
    sc[0] = _mm256_or_si256(_mm256_and_si256(s0, low4), _mm256_and_si256(_mm256_slli_epi32(s2, 4), bits45));
    sc[1] = _mm256_or_si256(_mm256_and_si256(s1, low4), _mm256_and_si256(_mm256_slli_epi32(s2, 2), bits45));
    s0 = _mm256_srli_epi32(s0, 4);
    s1 = _mm256_srli_epi32(s1, 4);
    sc[2] = _mm256_or_si256(_mm256_and_si256(s0, low4), _mm256_and_si256(s2, bits45));
    sc[3] = _mm256_or_si256(_mm256_and_si256(s1, low4), _mm256_and_si256(_mm256_srli_epi32(s2, 2), bits45));
    TH_UNROLL for (int i = 0; i < 4; i++) sc[i] = _mm256_sub_epi8(sc[i], offset);
    signed_scales(p, sc, 2);
    turn4(high, r, at);
    turn4(high + 4, r, at + 16);
    for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 32 + 16 * (size_t)i);
        TH_UNROLL for (int e = 0; e < 4; e++) { /* the third bits of this half are bits 0..3 of high's bytes */
            __m256i h = high[l / 4 + e], *q = p->q + 32 * n + l / 4 + e;
            high[l / 4 + e] = _mm256_srli_epi32(h, 4);
            h = _mm256_slli_epi32(h, 2);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                __m256i code = _mm256_and_si256(_mm256_srli_epi32(v[e], 2 * j), low2);
                q[8 * j] = _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi32(h, j), bit2));
            }
        }
    }
}

/* ---- Q6_K */
TH_INLINE void unpack_q6_k(KqPanel *p, const Rows8 *r, size_t at) {
    const __m256i low4 = bytes_of(0x0F), bits45 = bytes_of(0x30);
    __m256i sc[4], lo[4], hi[4];
    turn4(lo, r, at + 194); /* its last word ends in d */
    p->d = high_f16(lo[3]);
    p->dmin = _mm256_setzero_ps();
    turn4(sc, r, at + 192);
    signed_scales(p, sc, 5);
    for (int i = 0; i < 4; i++) { /* n = i / 2: a half of 128 weights; i % 2: which 16 of its 32 columns of bytes */
        size_t n = (size_t)i / 2, l = (size_t)i % 2 * 16;
        turn4(hi, r, at + 128 + 32 * n + l);
        TH_UNROLL for (int k = 0; k < 2; k++) {
            turn4(lo, r, at + 64 * n + 32 * (size_t)k + l);
            TH_UNROLL for (int j = 0; j < 4; j++) {
                __m256i h0 = k ? _mm256_slli_epi32(hi[j], 2) : _mm256_slli_epi32(hi[j], 4);
                __m256i h2 = k ? _mm256_srli_epi32(hi[j], 2) : hi[j];
                __m256i *q = p->q + 32 * n + 8 * (size_t)k + l / 4 + j;
                q[0] = _mm256_or_si256(_mm256_and_si256(lo[j], low4), _mm256_and_si256(h0, bits45));
                q[16] =
                    _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(lo[j], 4), low4), _mm256_and_si256(h2, bits45));
            }
        }
    }
}

/* ---- Q2_K */
TH_INLINE void unpack_q2_k(KqPanel *p, const Rows8 *r, size_t at) {
    const __m256i low2 = bytes_of(3), low4 = bytes_of(0x0F);
    __m256i s[4], v[4];
    turn4(v, r, at + 68); /* its last word is d and dmin */
    p->d = low_f16(v[3]);
    p->dmin = high_f16(v[3]);
    turn4(s, r, at);
    TH_UNROLL for (int i = 0; i < 4; i++) {
        __m256i mn = _mm256_and_si256(_mm256_srli_epi32(s[i], 4), low4), sc = _mm256_and_si256(s[i], low4);
        p->min[2 * i] = bytes_to_pair(mn, 0, 1);
        p->min[2 * i + 1] = bytes_to_pair(mn, 2, 3);
        TH_UNROLL for (int b = 0; b < 4; b++) p->scale[4 * i + b] = bytes_to_pair(sc, b, b);
    }
    for (int i = 0; i < 4; i++) { /* 16 bytes: columns l .. l+15 of four groups in each half n */
        int n = i / 2, l = i % 2 * 16;
        turn4(v, r, at + 16 + 16 * (size_t)i);
        TH_UNROLL for (int j = 0; j < 4; j++) {
            TH_UNROLL for (int e = 0; e < 4; e++) p->q[32 * n + 8 * j + l / 4 + e] =
                _mm256_and_si256(_mm256_srli_epi32(v[e], 2 * j), low2);
        }
    }
}

#endif
