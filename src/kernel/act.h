/* act.h: the forms in which kernels take activations. A row of `cols` values occupies th_act_bytes(form, cols):
 *
 *   ACT_F32    cols floats
 *   ACT_Q8_0   q[cols] int8 | d[cols/32] float | s[cols/32] int32         s = sum of the 32 integers of a block
 *   ACT_Q8_K   q[cols] int8 | d[cols/256] float | s[cols/16] int16        s = sum of 16 integers, bsum of the format
 *
 * each part padded to 64 bytes; rows begin at multiples of 64 bytes. Unlike the file formats of the same names the
 * scales stay binary32, are never negative, and the integers are rounded to nearest even: d = max/127 and
 * q = x * (127/max) in both forms (docs/KERNELS.md): every instruction set gives the same bits. Integers lie in
 * -127..127. */
#ifndef THIMBLE_ACT_H
#define THIMBLE_ACT_H

#include "base/base.h"

typedef enum ActForm { ACT_F32, ACT_Q8_0, ACT_Q8_K, N_ACT_FORMS } ActForm;

static inline size_t th_act_q_bytes(int cols) { return ((size_t)cols + 63) & ~(size_t)63; }
static inline size_t th_act_d_bytes(ActForm f, int cols) {
    return ((size_t)cols / (f == ACT_Q8_K ? 256 : 32) * 4 + 63) & ~(size_t)63;
}
static inline size_t th_act_bytes(ActForm f, int cols) {
    if (f == ACT_F32) return ((size_t)cols * 4 + 63) & ~(size_t)63;
    size_t s = f == ACT_Q8_K ? (size_t)cols / 16 * 2 : (size_t)cols / 32 * 4;
    return th_act_q_bytes(cols) + th_act_d_bytes(f, cols) + ((s + 63) & ~(size_t)63);
}
static inline const int8_t *th_act_q(const void *x) { return (const int8_t *)x; }
static inline const float *th_act_d(const void *x, int cols) {
    return (const float *)(const void *)((const char *)x + th_act_q_bytes(cols));
}
static inline const int32_t *th_act_s32(const void *x, int cols) {
    return (const int32_t *)(const void *)((const char *)x + th_act_q_bytes(cols) + th_act_d_bytes(ACT_Q8_0, cols));
}
static inline const int16_t *th_act_s16(const void *x, int cols) {
    return (const int16_t *)(const void *)((const char *)x + th_act_q_bytes(cols) + th_act_d_bytes(ACT_Q8_K, cols));
}

/* C makers; cols is a multiple of 32 (Q8_0) or 256 (Q8_K). dst aligned to 64. Non-finite input gives d = NaN for its
 * block, so that it reaches the logits and is reported. */
void th_act_f32_c(void *dst, const float *x, int cols);
void th_act_q8_0_c(void *dst, const float *x, int cols);
void th_act_q8_k_c(void *dst, const float *x, int cols);

#endif
