/* lanes_c.h: 32 binary32 lanes and the tree that merges them. A part shorter than 32 counts as padded with zeros. */
#ifndef THIMBLE_LANES_C_H
#define THIMBLE_LANES_C_H

#include "kernel/fma.h"

typedef struct Lanes32 {
    float lane[32];
} Lanes32;

static inline void lanes32_add(Lanes32 *a, const float *w, const float *x, int count) {
    for (int i = 0; i < count; i++) a->lane[i] = th_fmaf(w[i], x[i], a->lane[i]);
    for (int i = count; i < 32; i++) a->lane[i] += 0.0f; /* what a zero product does: -0 becomes +0 */
}

static inline float lanes32_sum(Lanes32 *a) {
    for (int half = 16; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) a->lane[i] += a->lane[i + half];
    }
    return a->lane[0];
}

#endif
