/* tile_c.h: the loops that all C matrix kernels share; a type adds how its block unpacks.
 *
 * A block is unpacked once into plain integers and then meets up to TILE tokens, each with its own accumulator: for one
 * (row, token) blocks still enter in ascending order, so T cannot change a bit. Everything is inlined into the two
 * functions of a type; the function pointers are constants there. */
#ifndef THIMBLE_TILE_C_H
#define THIMBLE_TILE_C_H

#include "kernel/fma.h"
#include "kernel/kernel.h"
#include "quant/layout.h"

#define TH_INLINE static inline __attribute__((always_inline))
enum { TILE = 8 };

/* Arguments of MatKernel.rows in one piece; row1 is T = 1. */
typedef struct MatJob {
    float *y;
    size_t y_stride;
    const void *w;
    size_t stride;
    const void *x;
    size_t x_stride;
    int cols, rows, T;
} MatJob;

TH_INLINE const char *job_row(const MatJob *j, int r) { return (const char *)j->w + (size_t)r * j->stride; }
TH_INLINE const char *job_x(const MatJob *j, int t) { return (const char *)j->x + (size_t)t * j->x_stride; }

TH_INLINE int32_t dot_i8(const int8_t *a, const int8_t *b, int n) {
    int32_t sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* A block of a type that meets Q8_0: up to 128 weights, the scale or scales, m of types with a minimum. */
typedef struct Groups {
    int8_t q[128];
    float d[4], m;
} Groups;
typedef void UnpackGroups(Groups *u, const void *block);
/* Brings one block to a sum; b numbers the first activation block of 32. */
typedef float AddGroups(float acc, const Groups *u, const void *x, int cols, int b);

TH_INLINE float add_one(float acc, const Groups *u, const void *x, int cols, int b) {
    int32_t n = dot_i8(u->q, th_act_q(x) + 32 * b, 32);
    return th_fmaf(u->d[0] * th_act_d(x, cols)[b], (float)n, acc);
}

TH_INLINE float add_min(float acc, const Groups *u, const void *x, int cols, int b) {
    acc = add_one(acc, u, x, cols, b);
    return th_fmaf(u->m * th_act_d(x, cols)[b], (float)th_act_s32(x, cols)[b], acc);
}

/* `count` activation blocks under one scale: summed apart first, so that long rows take fewer roundings. */
TH_INLINE float add_shared(float acc, const Groups *u, const void *x, int cols, int b, int count) {
    float t = 0;
    for (int k = 0; k < count; k++) {
        int32_t n = dot_i8(u->q + 32 * k, th_act_q(x) + 32 * (b + k), 32);
        t = th_fmaf(th_act_d(x, cols)[b + k], (float)n, t);
    }
    return th_fmaf(u->d[0], t, acc);
}
TH_INLINE float add_shared_2(float acc, const Groups *u, const void *x, int cols, int b) {
    return add_shared(acc, u, x, cols, b, 2);
}
TH_INLINE float add_shared_4(float acc, const Groups *u, const void *x, int cols, int b) {
    return add_shared(acc, u, x, cols, b, 4);
}

/* Two scales per activation block; d * n is exact (4 bits times 15). */
TH_INLINE float add_halves(float acc, const Groups *u, const void *x, int cols, int b) {
    for (int k = 0; k < 2; k++) {
        const int8_t *q = u->q + 32 * k, *y = th_act_q(x) + 32 * (b + k);
        float first = u->d[2 * k] * (float)dot_i8(q, y, 16);
        float t = th_fmaf(u->d[2 * k + 1], (float)dot_i8(q + 16, y + 16, 16), first);
        acc = th_fmaf(th_act_d(x, cols)[b + k], t, acc);
    }
    return acc;
}

TH_INLINE void mat_groups(MatJob j, UnpackGroups *unpack, AddGroups *add, int block_cols, size_t bytes) {
    Groups u;
    for (int r = 0; r < j.rows; r++) {
        for (int t0 = 0; t0 < j.T; t0 += TILE) {
            int n = th_min_int(TILE, j.T - t0);
            float acc[TILE] = {0};
            const char *block = job_row(&j, r);
            for (int first = 0; first < j.cols; first += block_cols, block += bytes) {
                unpack(&u, block);
                for (int t = 0; t < n; t++) acc[t] = add(acc[t], &u, job_x(&j, t0 + t), j.cols, first / 32);
            }
            for (int t = 0; t < n; t++) j.y[(size_t)(t0 + t) * j.y_stride + (size_t)r] = acc[t];
        }
    }
}

/* A super-block that meets Q8_K: 16 groups of 16 weights with integer scales, and minimums where the type has them. */
typedef struct Super {
    int8_t q[256], sc[16];
    uint8_t mn[16];
    float d, dmin;
} Super;
typedef void UnpackSuper(Super *u, const void *block);

TH_INLINE float add_super(float acc, const Super *u, bool has_min, const void *x, int cols, int b) {
    const int8_t *y = th_act_q(x) + 256 * b;
    float dx = th_act_d(x, cols)[b];
    int32_t n = 0;
    for (int g = 0; g < 16; g++) n += u->sc[g] * dot_i8(u->q + 16 * g, y + 16 * g, 16);
    if (!has_min) return th_fmaf(u->d * dx, (float)n, acc);
    const int16_t *sums = th_act_s16(x, cols) + 16 * b;
    int32_t m = 0;
    for (int g = 0; g < 16; g++) m += u->mn[g] * sums[g];
    /* Each product rounded alone: where scale * code equals the minimum throughout, the difference is exactly 0. */
    return th_fmaf(dx, u->d * (float)n - u->dmin * (float)m, acc);
}

TH_INLINE void mat_super(MatJob j, UnpackSuper *unpack, size_t bytes, bool has_min) {
    Super u;
    for (int r = 0; r < j.rows; r++) {
        for (int t0 = 0; t0 < j.T; t0 += TILE) {
            int n = th_min_int(TILE, j.T - t0);
            float acc[TILE] = {0};
            const char *block = job_row(&j, r);
            for (int b = 0; b < j.cols / 256; b++, block += bytes) {
                unpack(&u, block);
                for (int t = 0; t < n; t++) acc[t] = add_super(acc[t], &u, has_min, job_x(&j, t0 + t), j.cols, b);
            }
            for (int t = 0; t < n; t++) j.y[(size_t)(t0 + t) * j.y_stride + (size_t)r] = acc[t];
        }
    }
}

#endif
