/* act.c: activations in the forms of act.h, plain C: the definition for every instruction set. */
#include "kernel/act.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

void th_act_f32_c(void *dst, const float *x, int cols) {
    size_t n = (size_t)cols * sizeof *x, all = th_act_bytes(ACT_F32, cols);
    memcpy(dst, x, n);
    memset((char *)dst + n, 0, all - n);
}

/* q[0..n) and the scale of one block. Infinity and NaN have the largest bit patterns, so that an integer maximum finds
 * them; blocks below 2^-100 become zero before 127/largest can overflow. */
static float quantize_block(int8_t *q, const float *x, int n) {
    uint32_t largest = 0;
    for (int i = 0; i < n; i++) {
        uint32_t a = th_f32_bits(x[i]) & 0x7FFFFFFF;
        largest = a > largest ? a : largest;
    }
    if (largest >= 0x7F800000 || largest < (127 - 100) << 23) {
        memset(q, 0, (size_t)n);
        return largest >= 0x7F800000 ? th_f32_from_bits(0x7FC00000) : 0.0f;
    }
    float max = th_f32_from_bits(largest), inverse = 127.0f / max;
    for (int i = 0; i < n; i++) q[i] = (int8_t)lrintf(x[i] * inverse);
    return max / 127.0f;
}

/* The padding of each part is written too: a prepared row has defined bytes throughout. */
static void clear_padding(void *part, size_t used, size_t all) { memset((char *)part + used, 0, all - used); }

void th_act_q8_0_c(void *dst, const float *x, int cols) {
    int8_t *q = dst;
    char *d_part = (char *)dst + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_0, cols);
    size_t blocks = (size_t)cols / 32;
    for (size_t b = 0; b < blocks; b++) {
        float d = quantize_block(q + 32 * b, x + 32 * b, 32);
        int32_t s = 0;
        for (int i = 0; i < 32; i++) s += q[32 * b + (size_t)i];
        memcpy(d_part + 4 * b, &d, 4);
        memcpy(s_part + 4 * b, &s, 4);
    }
    clear_padding(q, (size_t)cols, th_act_q_bytes(cols));
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_0, cols));
    clear_padding(s_part, blocks * 4, (blocks * 4 + 63) & ~(size_t)63);
}

void th_act_q8_k_c(void *dst, const float *x, int cols) {
    int8_t *q = dst;
    char *d_part = (char *)dst + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(ACT_Q8_K, cols);
    size_t blocks = (size_t)cols / 256, groups = (size_t)cols / 16;
    for (size_t b = 0; b < blocks; b++) {
        float d = quantize_block(q + 256 * b, x + 256 * b, 256);
        memcpy(d_part + 4 * b, &d, 4);
    }
    for (size_t g = 0; g < groups; g++) {
        int16_t s = 0;
        for (int i = 0; i < 16; i++) s = (int16_t)(s + q[16 * g + (size_t)i]);
        memcpy(s_part + 2 * g, &s, 2);
    }
    clear_padding(q, (size_t)cols, th_act_q_bytes(cols));
    clear_padding(d_part, blocks * 4, th_act_d_bytes(ACT_Q8_K, cols));
    clear_padding(s_part, groups * 2, (groups * 2 + 63) & ~(size_t)63);
}
