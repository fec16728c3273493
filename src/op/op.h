/* op.h: threaded mathematics on shapes. Knows weights, not models. Row-major; shapes in comments; T = tokens of the
 * pass.
 *
 * Every op is exact about order: results for one token do not depend on T, on threads or on where weights lie. Ops that
 * touch weights return false with p->err set; the others cannot fail. */
#ifndef THIMBLE_OP_H
#define THIMBLE_OP_H

#include "kernel/kernel.h"
#include "os/pool.h"
#include "weights/weights.h"

/* Scratch of a pass: one block planned ahead; ops and blocks take from it and put back to a mark. Never fails: the plan
 * asked every block for its need, and the pass checked that need against the block; an overrun is a bug and asserts. */
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

typedef struct RouteStats {
    uint64_t picks_changed;
} RouteStats;

/* MROPE and IMROPE rotate NEOX pairs by several positions (section 3.3): for text NEOX, but pairs of section e stay. */
enum { ROPE_NONE, ROPE_NORM, ROPE_NEOX, ROPE_MROPE, ROPE_IMROPE };
enum { MAX_ROPES = 2 };
/* Frequencies of a rotary embedding (architectures specification, section 3), made once when the model is loaded. */
typedef struct Rope {
    int kind, dims; /* R rotated dims: NORM pairs (2i, 2i+1), otherwise pairs (i, i + R/2) */
    double *freq;   /* [R/2] angle per position, factors and scaling applied           */
    float magnitude;
    int sections[4]; /* of MROPE and IMROPE: pairs that follow the positions t, h, w, e; all 0: every pair follows t */
} Rope;

typedef struct Pass {
    Pool *pool;
    const Kernels *k;
    Weights *ws;
    Scratch *scratch;
    const PassRow *rows; /* [T]; rows of one sequence are consecutive with ascending positions */
    int T;
    Err *err;
    const Rope *rope[MAX_ROPES];
    const float *rope_cs[MAX_ROPES]; /* [T][R/2]{cos, sin} of the pass's positions, shared by all layers */
    int experts_override;            /* lossy, 0: off */
    float route_bias;                /* lossy, 0: off */
    RouteStats *route_stats;
    uint64_t moved; /* weight bytes used by this pass */
} Pass;

void *th_scratch_take(Pass *p, size_t bytes); /* aligned to 64 */
static inline size_t th_scratch_size(size_t bytes) { return (bytes + 63) & ~(size_t)63; } /* what a take costs */
static inline float *th_scratch_f32(Pass *p, size_t n) { return (float *)th_scratch_take(p, n * sizeof(float)); }
static inline size_t th_scratch_f32_size(size_t n) { return th_scratch_size(n * sizeof(float)); }
static inline size_t th_scratch_mark(const Pass *p) { return p->scratch->used; }
static inline void th_scratch_reset(Pass *p, size_t mark) { p->scratch->used = mark; }

/* ---- linear.c --------------------------------------------------------------------------------------------------- */

/* A matrix with its optional companions (section 1.4): y = scale * (W x) + bias. */
typedef struct Linear {
    const Weight *w;           /* NULL: absent */
    const Weight *bias, *scale; /* WEIGHT_VECTOR or NULL */
} Linear;

/* An activation [T][cols] in the forms that kernels ask for; each form is made once and shared. */
typedef struct Prepared {
    const float *x;
    size_t x_stride; /* floats between rows of x */
    const void *form[N_ACT_FORMS];
    size_t stride[N_ACT_FORMS]; /* bytes between rows of a form */
    int cols, T;
} Prepared;
static inline Prepared th_prepared(const float *x, size_t x_stride, int cols, int T) {
    return (Prepared){.x = x, .x_stride = x_stride, .cols = cols, .T = T};
}
const void *th_prepare_form(Pass *p, Prepared *x, ActForm form); /* makes the form (from scratch) if it is not there */
size_t th_prepare_scratch(int cols, int T); /* bytes of all forms together */

/* y [T][rows] = l(x [T][cols]). x is prepared in scratch that is given back before the call returns. */
bool th_linear(Pass *p, float *y, const Linear *l, const float *x, int T);
/* y [rows] = the first rows of l on one x: they end with a part of the matrix. */
bool th_linear_first(Pass *p, float *y, const Linear *l, const float *x, int rows);
/* *y = row `row` of l on one x; finding it passes over the parts before it, so it had better lie in memory. */
bool th_linear_row(Pass *p, float *y, const Linear *l, const float *x, int row);
/* n matrices of the same cols on the same x. */
bool th_linear_many(Pass *p, float *const *y, const Linear *const *l, int n, const float *x, int T);

/* A matrix per head, head after head in one tensor of H * per_head rows; of each head, rows [first, first + n) are
 * used. A scale may have one value or one per head. */
typedef struct HeadRows {
    int H, per_head, first, n;
} HeadRows;
/* y [T][H][n], x [T][H][cols]; heads begin y_stride and x_stride floats apart. Scratch: that of the form of x [T * H].
 */
bool th_linear_heads(Pass *p, float *y, size_t y_stride, const Linear *l, const HeadRows *h, const float *x,
                     size_t x_stride, int T);
/* The transposed matrices: y [T][H][cols], x [T][H][n]; a bias is not for these and is left out. */
bool th_linear_heads_turned(Pass *p, float *y, size_t y_stride, const Linear *l, const HeadRows *h, const float *x,
                            size_t x_stride, int T);
size_t th_linear_heads_turned_scratch(int cols, int threads);

/* One product of pinned rows for th_jobs_run; y[t * y_stride + r] for r < rows, t < T. */
typedef struct MatJob {
    const MatKernel *kernel;
    const char *w;
    size_t stride; /* bytes of a row of w */
    const char *x; /* in kernel->act */
    size_t x_stride;
    float *y;
    size_t y_stride;
    int cols, rows, T;
} MatJob;
/* Runs all jobs as one piece of work, cut by output rows. */
void th_jobs_run(Pass *p, const MatJob *jobs, int n);

/* ---- embed.c, norm.c, act_fn.c ---------------------------------------------------------------------------------- */
bool th_embed(Pass *p, float *x, const Weight *embd); /* x [T][E], one row per row of the pass */
size_t th_embed_scratch(int T);
/* Rows of n; w [n] or NULL. y may be x. */
void th_rms_norm(Pass *p, float *y, const float *x, const float *w, int n, int rows, float eps);
/* Rows begin stride floats apart in both. */
void th_rms_norm_apart(Pass *p, float *y, const float *x, const float *w, int n, size_t stride, int rows, float eps);

/* CLAMPED (gpt-oss, section 5.3): g = min(gate, 7), u = clamp(up, -7, 7), g * sigmoid(1.702 g) * (u + 1). */
enum { ACT_FN_SILU, ACT_FN_GELU, ACT_FN_CLAMPED };
/* gate = act(gate) * up over T rows of n that begin stride floats apart in both. */
void th_act_mul(Pass *p, int act_fn, float *gate, const float *up, int n, size_t stride, int T);
/* gate = min(silu(gate), limit) * clamp(up, -limit, limit), limit > 0. */
void th_silu_mul_limited(Pass *p, float *gate, const float *up, float limit, int n, size_t stride, int T);
void th_add(Pass *p, float *y, const float *x, size_t n); /* y += x */
void th_scale(Pass *p, float *y, float a, size_t n);      /* y *= a */
/* to [rows][n] from rows that begin from_stride floats apart. */
void th_copy_rows(Pass *p, float *to, const float *from, int n, size_t from_stride, int rows);
void th_softcap(Pass *p, float *y, float cap, size_t n);  /* y = cap * tanh(y / cap) */

/* ---- rope.c ----------------------------------------------------------------------------------------------------- */
typedef struct RopeNumbers {
    int kind, dims;
    double base;
    double freq_scale;    /* 1/s of linear and YaRN scaling, 1: none */
    double ext;           /* 0: linear; YaRN's extrapolation mix otherwise */
    double attn_factor;   /* multiplies the magnitude */
    double beta_fast, beta_slow;
    bool yarn_magnitude;  /* M = 0.1 ln(s) + 1 applies */
    int n_ctx_orig;
    const float *factors; /* [R/2] or NULL */
    int sections[4];      /* as in Rope; other kinds ignore them */
} RopeNumbers;
/* freq [R/2] is the caller's. E_FORMAT if the numbers give an angle that is not finite. */
bool th_rope_init(Rope *r, const RopeNumbers *n, double *freq, Err *err);
/* cs [R/2]{cos, sin} at the positions t, h, w, e. A token of text has t = h = w and e = 0. */
void th_rope_angles(float *cs, const Rope *r, const int position[4]);
/* The pass's table for r: [T][R/2]{cos, sin}, from scratch. */
const float *th_rope_table(Pass *p, const Rope *r);
/* Rotates the first R dims of each of T * heads vectors that begin head_stride floats apart. */
void th_rope(Pass *p, int which, float *x, int heads, int head_stride);

/* ---- attend.c (sections 4.1-4.3) -------------------------------------------------------------------------------- */

/* K and V of one sequence in one layer, [Hk][n_cells][D] and [Hk][n_cells][Dv] in the cache type; position p lies in
 * cell p % n_cells. */
typedef struct KvCache {
    char *k, *v;
    int n_cells;
} KvCache;
typedef struct AttendSpec {
    int H, Hk, D, Dv;
    float scale, softcap; /* softcap 0: off */
    int window;           /* 0: full */
    int cache_type;       /* THIMBLE_CACHE_* */
    const float *sinks;   /* [H] or NULL */
    bool latent;          /* a value is the first Dv of its key: the cache has no v */
    size_t out_stride;    /* floats between heads of the output; 0: Dv */
} AttendSpec;
size_t th_cache_value_bytes(int cache_type, int n); /* bytes of a cached row of n values */
/* Writes k [T][Hk][D] and v [T][Hk][Dv] at the rows' positions; cache [T], one per row. */
void th_attend_store(Pass *p, const AttendSpec *a, const KvCache *cache, const float *k, const float *v);
/* out [T][H][Dv]; q [T][H][D]; the caches already hold the pass's own K and V. out may be q if out_stride is D. */
void th_attend(Pass *p, const AttendSpec *a, const KvCache *cache, float *out, const float *q);
size_t th_attend_scratch(const AttendSpec *a, int T, int threads);

/* ---- route.c (section 5.3) -------------------------------------------------------------------------------------- */
typedef struct RouteSpec {
    int X, K, gating;        /* 1 softmax, 2 sigmoid, 3 softmax over selected, 4 sqrt softplus */
    int groups, groups_used; /* 0 or 1: none */
    bool norm;
    float weight_scale;      /* 0 or 1: none */
    const float *bias;       /* selection bias [X] or NULL */
} RouteSpec;
/* logits [T][X] = router [X][E] . x [T][E] (+ bias [X]): binary32, in an order that is the same on every machine. */
void th_route_logits(Pass *p, float *logits, const float *router, const float *bias, const float *x, int X, int E,
                     int T);
/* logits [X] of one token -> ids [K] ascending, weights [K] aligned with them. With resident [X] and route_bias,
 * experts in memory get route_bias on their selection score (lossy); *picks_changed counts the experts that changed for
 * it. */
void th_route(const RouteSpec *r, const float *logits, const bool *resident, float route_bias, int *ids, float *weights,
              float *tmp, uint64_t *picks_changed);
size_t th_route_tmp(int X); /* floats of tmp */

#endif
