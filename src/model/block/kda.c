/* kda.c: Kimi Delta Attention (specification, section 7): the memory of Gated DeltaNet with a rate of forgetting for
 * each key index instead of one per head.
 *
 *     q, k, v, f, g, beta = projections of x
 *     q, k, v -> causal convolutions, SiLU -> q, k to length 1      decay = exp(bound * sigmoid(a (f + dt)))
 *     scan -> norm per head -> times sigmoid(g) -> output
 *
 * A sequence's memory in this layer is the last inputs of the three convolutions, then the heads' matrices. */
#include <math.h>

#include "kernel/vec_math.h"
#include "model/block.h"
#include "model/state.h"

enum { Q, K, V };

typedef struct Kda {
    Linear qkv; /* fused; w NULL: q, k, v are separate */
    Linear in[3], f, g, beta, out;
    const Weight *conv[3], *a, *dt, *norm;
    int d, N, di, taps;
    float bound;
} Kda;

/* ---- bind -----------------------------------------------------------------------------------------------------------
 */

static bool bind_inputs(Kda *n, int64_t E, Binder *b) {
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"};
    bool ok = true;
    if (th_bind_has(b, "attn_qkv")) ok = th_bind_linear(b, "attn_qkv", E, 3 * (int64_t)n->di, 0, &n->qkv);
    for (int i = 0; i < 3 && ok && !n->qkv.w; i++) ok = th_bind_linear(b, names[i], E, n->di, 0, &n->in[i]);
    return ok && th_bind_linear(b, th_bind_has(b, "ssm_f_a") ? "ssm_f_a" : "ssm_f", E, n->di, 0, &n->f) &&
           th_bind_linear(b, th_bind_has(b, "ssm_g_a") ? "ssm_g_a" : "ssm_g", E, n->di, 0, &n->g) &&
           th_bind_linear(b, "ssm_beta", E, n->N, 0, &n->beta);
}

static bool bind_vectors(Kda *n, Binder *b) {
    static const char *const names[] = {"ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"};
    for (int i = 0; i < 3; i++)
        if (!th_bind_vector(b, names[i], ".weight", n->taps, n->di, 0, &n->conv[i])) return false;
    if (!th_bind_vector(b, "ssm_dt", "", n->di, 1, WEIGHT_OPTIONAL, &n->dt))
        return false; /* some leave the suffix out */
    return (n->dt || th_bind_vector(b, "ssm_dt", ".bias", n->di, 1, 0, &n->dt)) &&
           th_bind_vector(b, "ssm_a", "", n->N, 1, 0, &n->a) &&
           th_bind_vector(b, "ssm_norm", ".weight", n->d, 1, 0, &n->norm);
}

static bool kda_bind(void **priv, const Layer *l, Binder *b) {
    const Hparams *hp = l->hp;
    Kda *n = *priv = th_bind_record(b, sizeof *n);
    if (!n) return false;
    n->N = hp->layer[l->index].H, n->d = hp->kda_head, n->taps = hp->ssm_conv, n->bound = hp->kda_bound;
    int64_t di = (int64_t)n->N * n->d;
    if (n->N < 1 || di > 1 << 23)
        return th_fail(b->err, THIMBLE_E_FORMAT, "%d heads of %d values are not possible", n->N, n->d);
    n->di = (int)di;
    return bind_inputs(n, hp->n_embd, b) && bind_vectors(n, b) &&
           th_bind_linear(b, "attn_output", n->di, hp->n_embd, 0, &n->out);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

static ScanSpec scan_spec(const Kda *n) {
    return (ScanSpec){.rule = SCAN_RULE_DELTA_KEYS,
                      .heads = n->N,
                      .keys = n->d,
                      .values = n->d,
                      .key_heads = n->N,
                      .at = 3 * (size_t)th_conv_bytes(n->di, n->taps)};
}

static uint64_t kda_recurrent(const void *priv, const Layer *l, int state_type) {
    (void)l;
    ScanSpec s = scan_spec(priv);
    return s.at + th_scan_bytes(&s, state_type);
}

static size_t kda_notes(const void *priv, const Layer *l, int T, size_t *work) {
    (void)l;
    ScanSpec s = scan_spec(priv);
    *work = th_scan_work_floats(&s);
    return 3 * th_conv_note_bytes(((const Kda *)priv)->di, T) + th_scan_note_bytes(&s, T);
}

/* ---- a pass ---------------------------------------------------------------------------------------------------------
 */

/* What the projections give, [T] rows each. */
typedef struct Inputs {
    float *x[3]; /* queries, keys, values, x_stride floats from row to row */
    size_t x_stride;
    float *decay; /* [di] f, then the decays */
    float *gate;  /* [di] g */
    float *beta;  /* [N] logits, then the rates of learning */
} Inputs;

static uint64_t kda_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const Kda *n = priv;
    size_t T = (size_t)size->T, di = (size_t)n->di;
    uint64_t inputs = n->qkv.w ? th_scratch_f32_size(3 * T * di) : 3 * th_scratch_f32_size(T * di);
    return th_state_runs_scratch(size->T) + inputs + 3 * th_scratch_f32_size(T * di) +
           th_scratch_f32_size(T * (size_t)n->N) +
           th_max_size(th_prepare_scratch(l->hp->n_embd, size->T), th_prepare_scratch(n->di, size->T));
}

static Inputs take_inputs(Pass *p, const Kda *n) {
    size_t values = (size_t)p->T * (size_t)n->di;
    Inputs in = {.x_stride = (size_t)n->di * (n->qkv.w ? 3 : 1)};
    if (n->qkv.w) in.x[Q] = th_scratch_f32(p, 3 * values);
    for (int i = 0; i < 3; i++) in.x[i] = n->qkv.w ? in.x[Q] + (size_t)i * (size_t)n->di : th_scratch_f32(p, values);
    in.decay = th_scratch_f32(p, values), in.gate = th_scratch_f32(p, values);
    in.beta = th_scratch_f32(p, (size_t)p->T * (size_t)n->N);
    return in;
}

static bool project(Pass *p, const Kda *n, const Inputs *in, const float *x) {
    float *y[] = {in->x[Q], in->x[K], in->x[V], in->decay, in->gate, in->beta};
    const Linear *l[] = {&n->in[Q], &n->in[K], &n->in[V], &n->f, &n->g, &n->beta};
    if (!n->qkv.w) return th_linear_many(p, y, l, 6, x, p->T);
    y[2] = in->x[Q], l[2] = &n->qkv;
    return th_linear_many(p, y + 2, l + 2, 4, x, p->T);
}

static void recur(Pass *p, const Kda *n, const Layer *l, const Inputs *in, float *o) {
    size_t di = (size_t)n->di;
    int n_runs;
    const ScanRun *runs = th_state_runs(p, l->index, &n_runs);
    for (int i = 0; i < 3; i++) {
        ConvSpec conv = {.w = th_vector(n->conv[i]),
                         .channels = n->di,
                         .taps = n->taps,
                         .silu = true,
                         .at = (size_t)i * (size_t)th_conv_bytes(n->di, n->taps)};
        th_conv(p, &conv, runs, n_runs, in->x[i], in->x_stride);
    }
    th_l2_norm(p, in->x[Q], in->x_stride, n->d, n->N, p->T, l->hp->eps, 1.0f / sqrtf((float)n->d));
    th_l2_norm(p, in->x[K], in->x_stride, n->d, n->N, p->T, l->hp->eps, 1);
    th_key_decay(p, in->decay, th_vector(n->dt), th_vector(n->a), n->bound, n->d, n->N, p->T);
    for (size_t i = 0; i < (size_t)p->T * (size_t)n->N; i++) in->beta[i] = th_sigmoid(in->beta[i]);
    ScanSpec scan = scan_spec(n);
    ScanRows rows = {.q = in->x[Q],
                     .k = in->x[K],
                     .v = in->x[V],
                     .a = in->decay,
                     .beta = in->beta,
                     .o = o,
                     .q_stride = in->x_stride,
                     .k_stride = in->x_stride,
                     .v_stride = in->x_stride,
                     .a_stride = di,
                     .beta_stride = (size_t)n->N,
                     .o_stride = di};
    th_scan(p, &scan, runs, n_runs, &rows);
}

static bool kda_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Kda *n = priv;
    size_t mark = th_scratch_mark(p), di = (size_t)n->di;
    Inputs in = take_inputs(p, n);
    float *o = th_scratch_f32(p, (size_t)p->T * di);
    bool ok = project(p, n, &in, x);
    if (ok) {
        recur(p, n, l, &in, o);
        th_rms_norm(p, o, o, th_vector(n->norm), n->d, p->T * n->N, l->hp->eps);
        th_sigmoid_mul(p, o, di, in.gate, di, n->di, p->T);
        ok = th_linear(p, y, &n->out, o, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_kda = {.name = "Kimi delta attention",
                            .bind = kda_bind,
                            .recurrent = kda_recurrent,
                            .notes = kda_notes,
                            .scratch = kda_scratch,
                            .forward = kda_forward};
