/* sum_avxvnni.h: how the 256-bit panels' products are added up with AVX-VNNI: vpdpbusd adds four products to 32 bits
 * and never saturates. */
#ifndef THIMBLE_SUM_AVXVNNI_H
#define THIMBLE_SUM_AVXVNNI_H

#include "kernel/x86/kq_panel_avx2.h"
#include "kernel/x86/legacy_panel_avx2.h"

/* Each token takes turns between two sums (one token alone, four): vpdpbusd takes four cycles and two can begin in
 * each. */
TH_INLINE void sum_dot(__m256i n[4], const KqPanel *p, int groups, int run, const char *x, size_t x_stride, int nt) {
    const int ways = nt == 1 ? 4 : 2, steps = STEPS / groups;
    (void)run;
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_setzero_si256();
    for (int g = 0; g < groups; g++) {
        __m256i sum[8];
        TH_UNROLL for (int i = 0; i < nt * ways; i++) sum[i] = _mm256_setzero_si256();
        TH_UNROLL for (int k = 0; k < steps; k++) {
            TH_UNROLL for (int t = 0; t < nt; t++) {
                __m256i v = broadcast32(x + (size_t)t * x_stride + 4 * (size_t)(g * steps + k)), *s = sum + t * ways;
                s[k % ways] = _mm256_dpbusd_avx_epi32(s[k % ways], p->q[g * steps + k], v);
            }
        }
        __m256i scale = _mm256_srai_epi32(p->scale[g], 16);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m256i all = _mm256_add_epi32(sum[ways * t], sum[ways * t + 1]);
            if (ways == 4) all = _mm256_add_epi32(all, _mm256_add_epi32(sum[2], sum[3]));
            n[t] = _mm256_add_epi32(n[t], _mm256_mullo_epi32(all, scale));
        }
    }
}

/* Two sums for each token: vpdpbusd takes four cycles and two can begin in each. */
TH_INLINE void block_dot(__m256i n[4], const __m256i *q, int steps, int run, const char *x, size_t x_stride, int nt) {
    __m256i odd[4];
    (void)run;
    TH_UNROLL for (int t = 0; t < nt; t++) odd[t] = _mm256_setzero_si256();
    TH_UNROLL for (int k = 0; k < steps; k += 2) {
        TH_UNROLL for (int t = 0; t < nt; t++) {
            const char *v = x + (size_t)t * x_stride + 4 * (size_t)k;
            n[t] = _mm256_dpbusd_avx_epi32(n[t], q[k], broadcast32(v));
            odd[t] = _mm256_dpbusd_avx_epi32(odd[t], q[k + 1], broadcast32(v + 4));
        }
    }
    TH_UNROLL for (int t = 0; t < nt; t++) n[t] = _mm256_add_epi32(n[t], odd[t]);
}

/* Signed codes: |code| meets x signed by code. */
TH_INLINE void block_signed(__m256i n[4], const __m256i *q, int steps, int run, const char *x, size_t x_stride,
                            int nt) {
    (void)run;
    TH_UNROLL for (int k = 0; k < steps; k++) {
        __m256i size = _mm256_abs_epi8(q[k]);
        TH_UNROLL for (int t = 0; t < nt; t++) {
            __m256i v = _mm256_sign_epi8(broadcast32(x + (size_t)t * x_stride + 4 * (size_t)k), q[k]);
            n[t] = _mm256_dpbusd_avx_epi32(n[t], size, v);
        }
    }
}

#endif
