/* attn_c.c: attention's products; the definition of their bits. */
#include "base/num.h"
#include "kernel/c/c.h"
#include "kernel/fma.h"

static void turn_f16(float *kt, const uint16_t *k, int rows, int n) {
    for (int d = 0; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? th_f16_to_f32(k[(size_t)r * (size_t)n + (size_t)d]) : 0;
}

static void turn_f32(float *kt, const float *k, int rows, int n) {
    for (int d = 0; d < n; d++)
        for (int r = 0; r < ATTN_CHUNK; r++)
            kt[(size_t)d * ATTN_CHUNK + (size_t)r] = r < rows ? k[(size_t)r * (size_t)n + (size_t)d] : 0;
}

static void scores(float *s, size_t s_stride, const float *q, int n_q, const float *kt, int n) {
    for (int i = 0; i < n_q; i++, s += s_stride, q += n) {
        for (int j = 0; j < ATTN_CHUNK; j++) s[j] = 0;
        for (int d = 0; d < n; d++)
            for (int j = 0; j < ATTN_CHUNK; j++) s[j] = th_fmaf(q[d], kt[(size_t)d * ATTN_CHUNK + (size_t)j], s[j]);
    }
}

static void weigh(float *acc, const float *w, size_t w_stride, int n_q, const float *v, int rows, int n) {
    for (int i = 0; i < n_q; i++, acc += n, w += w_stride)
        for (int r = 0; r < rows; r++)
            for (int d = 0; d < n; d++) acc[d] = th_fmaf(w[r], v[(size_t)r * (size_t)n + (size_t)d], acc[d]);
}

const AttnKernel th_attn_c = {turn_f16, turn_f32, scores, weigh, "attn_c"};
