/* sum_avx2.h: how the 256-bit panels' products are added up with AVX2. */
#ifndef THIMBLE_SUM_AVX2_H
#define THIMBLE_SUM_AVX2_H

#include "kernel/x86/kq_panel_avx2.h"
#include "kernel/x86/legacy_panel_avx2.h"

/* Pairs of products are added in 16 bits as long as they fit, then widened and scaled at once. */
TH_INLINE void sum_pairs(__m256i n[4], const KqPanel *p, int groups, int run, const char *x, size_t x_stride, int nt) {
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_setzero_si256();
    for (int k0 = 0; k0 < STEPS; k0 += run) {
        __m256i sum[4];
        TH_UNROLL for (int t = 0; t < nt; t++) sum[t] = _mm256_setzero_si256();
        TH_UNROLL for (int k = 0; k < run; k++) {
            TH_UNROLL for (int t = 0; t < nt; t++) {
                __m256i v = broadcast32(x + (size_t)t * x_stride + 4 * (size_t)(k0 + k));
                sum[t] = in_order(_mm256_add_epi16(sum[t], _mm256_maddubs_epi16(p->q[k0 + k], v)));
            }
        }
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] =
            _mm256_add_epi32(n[t], _mm256_madd_epi16(sum[t], p->scale[k0 * groups / STEPS]));
    }
}

/* Signed codes: |code| meets x signed by code. Pairs of products are added in 16 bits as long as they fit. */
TH_INLINE void sum_signed(__m256i n[4], const KqPanel *p, int groups, int run, const char *x, size_t x_stride, int nt) {
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_setzero_si256();
    for (int k0 = 0; k0 < STEPS; k0 += run) {
        __m256i sum[4];
        TH_UNROLL for (int t = 0; t < nt; t++) sum[t] = _mm256_setzero_si256();
        TH_UNROLL for (int k = 0; k < run; k++) {
            __m256i q = p->q[k0 + k], size = _mm256_abs_epi8(q);
            TH_UNROLL for (int t = 0; t < nt; t++) {
                __m256i v = broadcast32(x + (size_t)t * x_stride + 4 * (size_t)(k0 + k));
                sum[t] = in_order(_mm256_add_epi16(sum[t], _mm256_maddubs_epi16(size, _mm256_sign_epi8(v, q))));
            }
        }
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] =
            _mm256_add_epi32(n[t], _mm256_madd_epi16(sum[t], p->scale[k0 * groups / STEPS]));
    }
}

/* Pairs of products are added in 16 bits as long as they fit. */
TH_INLINE void block_pairs(__m256i n[4], const __m256i *q, int steps, int run, const char *x, size_t x_stride, int nt) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int k0 = 0; k0 < steps; k0 += run) {
        __m256i sum[4], size = _mm256_abs_epi8(q[k0]);
        TH_UNROLL for (int t = 0; t < nt; t++) sum[t] = _mm256_setzero_si256();
        TH_UNROLL for (int k = k0; k < k0 + run; k++) {
            TH_UNROLL for (int t = 0; t < nt; t++) {
                __m256i v = broadcast32(x + (size_t)t * x_stride + 4 * (size_t)k);
                __m256i pairs =
                    run == 1 ? _mm256_maddubs_epi16(size, _mm256_sign_epi8(v, q[k])) : _mm256_maddubs_epi16(q[k], v);
                sum[t] = run == 1 ? pairs : in_order(_mm256_add_epi16(sum[t], pairs));
            }
        }
        TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_add_epi32(n[t], _mm256_madd_epi16(sum[t], ones));
    }
}

#endif
