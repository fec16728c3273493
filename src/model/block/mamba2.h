/* mamba2.h: the part of a Mamba-2 layer between its two projections: convolution, gates, scan, read-out, norm
 * (specification, section 8, steps 2 to 5), on rows as ssm_in leaves them. Apart from the block so that it can be
 * checked without a model. */
#ifndef THIMBLE_MAMBA2_H
#define THIMBLE_MAMBA2_H

#include "op/scan.h"

typedef struct Mamba2Spec {
    int inner, heads, keys, groups, taps; /* di, N, ds, G, Kc */
    const float *conv_w, *conv_bias;      /* [cd][Kc], [cd] or NULL; cd = di + 2 G ds */
    const float *dt_bias, *a, *d;         /* [N]; a is negative */
    const float *norm;                    /* [di] */
    float eps;
} Mamba2Spec;
static inline int64_t th_mamba2_channels(const Mamba2Spec *s) {
    return (int64_t)s->inner + 2 * (int64_t)s->groups * s->keys;
}
/* Floats of a row of x: z [di], xBC [cd], dt [N]. */
static inline int64_t th_mamba2_width(const Mamba2Spec *s) { return s->inner + th_mamba2_channels(s) + s->heads; }
/* How the recurrent memory is laid out: the convolution's rows, then the heads' matrices of keys x values. */
ConvSpec th_mamba2_conv(const Mamba2Spec *s);
ScanSpec th_mamba2_scan(const Mamba2Spec *s);
uint64_t th_mamba2_memory(const Mamba2Spec *s, int state_type);
size_t th_mamba2_notes(const Mamba2Spec *s, int T, size_t *work); /* see Block.notes */
size_t th_mamba2_scratch(const Mamba2Spec *s, int T);
/* y [T][di] from x [T][width], which is destroyed; memories move on. */
void th_mamba2_rows(Pass *p, const Mamba2Spec *s, const ScanRun *runs, int n_runs, float *y, float *x);

#endif
