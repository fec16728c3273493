/* kq_panel_avx512vnni.h: super-blocks of 256 weights that meet Q8_K, with AVX-512 VNNI: panels of 16 rows
 * (tile_avx512.h).
 *
 * vpdpbusd multiplies unsigned weight codes with signed activations and never saturates, so every sum is exact:
 *
 *   n = sum_g scale_g * sum(code * x)   - m for types whose code is signed: stored unsigned, an offset added
 *   m = sum_g min_g * sum(x)            by vpdpwssd on the activation's sums of 16; for an offset, min_g is scale_g
 * times it
 *
 * Bounds: |n| <= 63*15*127*256 (Q4_K), 128*63*127*256 (Q6_K), 32*255*127*256 (IQ4_XS): below 2^31. */
#ifndef THIMBLE_KQ_PANEL_AVX512VNNI_H
#define THIMBLE_KQ_PANEL_AVX512VNNI_H

#include "kernel/act.h"
#include "kernel/x86/tile_avx512.h"

enum { SUPER = 256, STEPS = SUPER / 4, RUN = 4 };

typedef struct KqPanel {
    __m512i q[STEPS];
    __m512i scale[16]; /* 32-bit, one per group of weights */
    __m512i min[8];    /* 16-bit pairs: two neighbouring groups of 16 */
    __m512 d, dmin;
} KqPanel;

/* What differs between the types apart from how they unpack. */
typedef struct KqShape {
    size_t block_bytes;
    int groups;   /* scales per super-block; 1: already multiplied into the codes */
    bool has_min; /* dmin * m is taken off; otherwise m is an offset that every code of n carries */
    void (*unpack)(KqPanel *p, const Rows16 *r, size_t at);
} KqShape;

/* nt tokens of one super-block: y[t] = fma(.., y[t]) for the panel's rows. Few tokens take turns between several sums
 * each: one sum alone would wait for vpdpbusd's latency at every step. */
TH_INLINE void kq_tile(const KqPanel *p, KqShape s, ActView a, float *y, size_t y_stride, __mmask16 rows, bool first,
                       int nt) {
    const int ways = s.groups == 1 ? 8 / nt : nt == 1 ? 2 : 1;
    __m512i n[8], m[8];
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = m[t] = _mm512_setzero_si512();
    for (int g = 0; g < s.groups; g++) {
        __m512i sum[8];
        TH_UNROLL for (int i = 0; i < nt * ways; i++) sum[i] = _mm512_setzero_si512();
        for (int k0 = g * (STEPS / s.groups); k0 < (g + 1) * (STEPS / s.groups); k0 += RUN) {
            TH_UNROLL for (int k = 0; k < RUN; k++) {
                TH_UNROLL for (int t = 0; t < nt; t++) {
                    const char *x = a.x + (size_t)t * a.stride + a.q_at + 4 * (size_t)(k0 + k);
                    sum[t * ways + k % ways] =
                        _mm512_dpbusd_epi32(sum[t * ways + k % ways], p->q[k0 + k], broadcast32(x));
                }
            }
        }
        TH_UNROLL for (int t = 0; t < nt; t++) {
            TH_UNROLL for (int i = 1; i < ways; i++) sum[t * ways] = _mm512_add_epi32(sum[t * ways], sum[t * ways + i]);
            n[t] =
                s.groups == 1 ? sum[t * ways] : _mm512_add_epi32(n[t], _mm512_mullo_epi32(sum[t * ways], p->scale[g]));
        }
    }
    TH_UNROLL for (int h = 0; h < 8; h++) {
        TH_UNROLL for (int t = 0; t < nt; t++) m[t] =
            _mm512_dpwssd_epi32(m[t], p->min[h], broadcast32(a.x + (size_t)t * a.stride + a.s_at + 4 * (size_t)h));
    }
    TH_UNROLL for (int t = 0; t < nt; t++) {
        __m512 dx = _mm512_castsi512_ps(broadcast32(a.x + (size_t)t * a.stride + a.d_at));
        float *out = y + (size_t)t * y_stride;
        __m512 acc = first ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(rows, out);
        if (!s.has_min) {
            n[t] = _mm512_sub_epi32(n[t], m[t]);
            acc = _mm512_fmadd_ps(_mm512_mul_ps(p->d, dx), _mm512_cvtepi32_ps(n[t]), acc);
        } else {
            __m512 high = _mm512_mul_ps(p->d, _mm512_cvtepi32_ps(n[t]));
            acc = _mm512_fmadd_ps(dx, _mm512_sub_ps(high, _mm512_mul_ps(p->dmin, _mm512_cvtepi32_ps(m[t]))), acc);
        }
        _mm512_mask_storeu_ps(out, rows, acc);
    }
}

TH_INLINE void kq_tokens(const KqPanel *p, KqShape s, ActView a, float *y, size_t y_stride, __mmask16 rows, bool first,
                         int T) {
    int t = 0;
    for (; t + 8 <= T; t += 8, a.x += 8 * a.stride, y += 8 * y_stride) kq_tile(p, s, a, y, y_stride, rows, first, 8);
    if (T - t >= 4) {
        kq_tile(p, s, a, y, y_stride, rows, first, 4);
        t += 4, a.x += 4 * a.stride, y += 4 * y_stride;
    }
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
        for (int r0 = 0; r0 < rows; r0 += 16) {
            Rows16 r = rows16_at(w, stride, r0, rows);
            __mmask16 mask = rows16_mask(r0, rows);
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

/* Scales of 8 bits with their sign, four in each word, to the panel; min_g = scale_g << log, the offset of a code being
 * 1 << log: at most 4096. */
TH_INLINE void signed_scales(KqPanel *p, const __m512i sc[4], int log) {
    TH_UNROLL for (unsigned g = 0; g < 16; g++) p->scale[g] =
        _mm512_srai_epi32(_mm512_slli_epi32(sc[g / 4], 24 - 8 * (g % 4)), 24);
    TH_UNROLL for (int h = 0; h < 8; h++) {
        __m512i even = _mm512_and_si512(p->scale[2 * h], _mm512_set1_epi32(0xFFFF));
        __m512i pair = _mm512_or_si512(_mm512_slli_epi32(p->scale[2 * h + 1], 16), even);
        p->min[h] = _mm512_sll_epi16(pair, _mm_cvtsi32_si128(log));
    }
}

#endif
