/* op.h: threaded mathematics on shapes. Knows weights, not models. Row-major; shapes in comments; T = tokens of the pass.
 *
 * Every op is exact about order: results for one token do not depend on T, on threads or on where weights lie. Ops that
 * touch weights return false with p->err set; the others cannot fail. */
#ifndef THIMBLE_OP_H
#define THIMBLE_OP_H

#include "kernel/kernel.h"
#include "os/pool.h"
#include "weights/weights.h"

/* Scratch of a pass: one block planned ahead; ops and blocks take from it and put back to a mark. Never fails: the plan
 * asked every block for its need (an overrun is a bug and aborts in debug builds, E_STATE in p->err otherwise). */
typedef struct Scratch {
    char *base;
    size_t bytes, used, peak;
} Scratch;

typedef struct SeqState SeqState; /* a sequence's memory, model/state.h */
typedef struct PassRow {
    int32_t token;
    int position;
    SeqState *seq;
} PassRow;

typedef struct RouteStats { uint64_t picks_changed; } RouteStats;

typedef struct Pass {
    Pool *pool;
    const Kernels *k;
    Weights *ws;
    Scratch *scratch;
    PassRow *rows; /* [T]; rows of one sequence are consecutive with ascending positions */
    int T;
    Err *err;
    int experts_override; /* lossy, 0: off */
    float route_bias;     /* lossy, 0: off */
    RouteStats *route_stats;
    uint64_t moved;       /* weight bytes used by this pass */
} Pass;

void *th_scratch_take(Pass *p, size_t bytes); /* aligned to 64 */
static inline float *th_scratch_f32(Pass *p, size_t n) { return (float *)th_scratch_take(p, n * sizeof(float)); }
static inline size_t th_scratch_mark(const Pass *p) { return p->scratch->used; }
static inline void th_scratch_reset(Pass *p, size_t mark) { p->scratch->used = mark; }

/* linear.c. x [T][cols] f32 -> y [T][rows]; bias (or NULL) is added after the product, scale (1.0: none) before it. */
bool th_linear(Pass *p, float *y, const Weight *w, const float *x, int T);
bool th_linear_bias(Pass *p, float *y, const Weight *w, const Weight *bias, const Weight *scale, const float *x, int T);
/* Several matrices of the same cols on the same x: the activation is prepared once per form. */
bool th_linear_many(Pass *p, float *const *y, const Weight *const *w, int n, const float *x, int T);
size_t th_linear_scratch(int cols, int T); /* bytes any of the above takes for x of this size */
/* y[i] [T][rows] from one pinned member: activation already prepared by th_linear_prepare. */
typedef struct Prepared { const float *x; void *form[N_ACT_FORMS]; int cols, T; } Prepared;
void th_linear_prepare(Pass *p, Prepared *out, const float *x, int cols, int T, ActForm form); /* adds a form; from scratch */
void th_linear_view(Pass *p, float *y, size_t y_stride, const Weight *member, const void *w, const Prepared *x, const int *pick,
                    int n_pick); /* rows x[pick[i]] -> y + i * y_stride; pick NULL: 0..n_pick-1 */

/* embed.c */
bool th_embed(Pass *p, float *x, const Weight *embd); /* x [T][E] */
/* norm.c: rows of n; w [n]. y may be x. */
void th_rms_norm(Pass *p, float *y, const float *x, const float *w, int n, int rows, float eps);

/* rope.c (architectures specification, section 3). A table of the pair frequencies, made once at bind. */
enum { ROPE_NONE, ROPE_NORM, ROPE_NEOX };
typedef struct Rope {
    int kind, dims;       /* R */
    double *freq;         /* [R/2] angle per position, scaling applied; in f64 */
    float magnitude;      /* m */
} Rope;
/* x [T][heads][D], rotates the first R dims of each head at each row's position. */
void th_rope(Pass *p, const Rope *r, float *x, int heads, int D);

/* act_fn.c: gate [T][n] = act(gate) * up */
enum { ACT_FN_SILU, ACT_FN_GELU };
void th_act_mul(Pass *p, int act_fn, float *gate, const float *up, int n, int T);
void th_add(Pass *p, float *y, const float *x, size_t n);
void th_scale(Pass *p, float *y, float a, size_t n);

/* attend.c (section 4.1-4.3): q [T][H][D] against each row's cache, which already holds this pass's K and V. */
typedef struct AttendSpec {
    int layer_slot;         /* which KV cache of the SeqState */
    int H, Hk, D, Dv;
    float scale, softcap;   /* softcap 0: off */
    int window;             /* 0: full */
    const float *sinks;     /* [H] or NULL */
} AttendSpec;
void th_attend(Pass *p, const AttendSpec *a, float *out, const float *q); /* out [T][H][Dv] */
size_t th_attend_scratch(const AttendSpec *a, int context, int T, int threads);

/* route.c (section 5.3) */
typedef struct RouteSpec {
    int X, K, gating;       /* 1 softmax, 2 sigmoid, 3 softmax over selected, 4 sqrt softplus */
    int groups, groups_used;/* 0 or 1: none */
    bool norm;
    float weight_scale;     /* 0 or 1: none */
    const float *bias;      /* selection bias [X] or NULL */
} RouteSpec;
/* logits [X] of one token -> ids [K] (any order), weights [K] aligned with ids. resident: [X] flags for route_bias or NULL. */
void th_route(const RouteSpec *r, const float *logits, const bool *resident, float route_bias, int *ids, float *weights,
              float *tmp /* [4 * X] */, uint64_t *picks_changed);

#endif
