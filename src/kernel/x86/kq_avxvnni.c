/* kq_avxvnni.c: K-quants with AVX-VNNI (kq_panel_avx2.h): vpdpbusd adds four products to 32 bits and never saturates.
 */
#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/kq_panel_avx2.h"

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

static const KqShape q2_k = {84, 16, 4, 0, unpack_q2_k, sum_dot};
static void q2_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q2_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q2_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q2_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q2_k_avxvnni = {ACT_Q8_K, q2_k_row1, q2_k_rows, "kq_avxvnni"};

static const KqShape q3_k = {110, 16, 4, 2, unpack_q3_k, sum_dot};
static void q3_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q3_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q3_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q3_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q3_k_avxvnni = {ACT_Q8_K, q3_k_row1, q3_k_rows, "kq_avxvnni"};

static const KqShape q4_k = {144, 8, 8, 0, unpack_q4_k, sum_dot};
static void q4_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q4_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q4_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q4_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q4_k_avxvnni = {ACT_Q8_K, q4_k_row1, q4_k_rows, "kq_avxvnni"};

static const KqShape q5_k = {176, 8, 4, 0, unpack_q5_k, sum_dot};
static void q5_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q5_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q5_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q5_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q5_k_avxvnni = {ACT_Q8_K, q5_k_row1, q5_k_rows, "kq_avxvnni"};

static const KqShape q6_k = {210, 16, 2, 5, unpack_q6_k, sum_dot};
static void q6_k_row1(float *y, const void *w, size_t stride, const void *x, int cols, int rows) {
    kq_rows(q6_k, y, 0, w, stride, x, 0, cols, rows, 1);
}
static void q6_k_rows(float *y, size_t y_stride, const void *w, size_t stride, const void *x, size_t x_stride, int cols,
                      int rows, int T) {
    kq_rows(q6_k, y, y_stride, w, stride, x, x_stride, cols, rows, T);
}
const MatKernel th_q6_k_avxvnni = {ACT_Q8_K, q6_k_row1, q6_k_rows, "kq_avxvnni"};
