/* deltanet.c: Gated DeltaNet (specification, section 6): a memory of keys x values per head that forgets by a gate and
 * learns by what it gets wrong.
 *
 *     projections -> causal convolution, SiLU -> L2 of queries and keys, gates -> scan -> norm, gate -> output
 *
 * Files pack the projections in three ways: attn_qkv + attn_gate with ssm_beta + ssm_alpha (qwen35), the same with a
 * joint ssm_ba (qwen3next), or one ssm_in in blocks of a key head (early qwen3next files). A sequence's memory in this
 * layer is the convolution's last inputs, then the heads' matrices. */
#include <math.h>

#include "kernel/vec_math.h"
#include "model/block.h"
#include "model/state.h"

typedef struct DeltaNet {
    Linear qkv, gate;   /* or: */
    Linear in;          /* per key head [q d, k d, v rep d, z rep d] */
    Linear beta, alpha; /* or: */
    Linear ba;          /* per key head [beta rep, alpha rep] */
    Linear out;
    const Weight *conv, *dt, *a, *norm;
    int d, Nk, Nv, rep, taps;
    int kd, vd, cd; /* queries or keys, values, channels of the convolution */
    bool grouped;
} DeltaNet;

/* ---- bind -----------------------------------------------------------------------------------------------------------
 */

static bool read_sizes(DeltaNet *n, const Layer *l, Err *err) {
    const Hparams *hp = l->hp;
    n->d = hp->ssm_state, n->Nk = hp->ssm_groups, n->Nv = hp->ssm_rank, n->taps = hp->ssm_conv;
    n->grouped = l->spec.grouped_keys;
    int64_t vd = (int64_t)n->Nv * n->d, cd = vd + 2 * (int64_t)n->Nk * n->d;
    if (n->Nv % n->Nk != 0 || vd != hp->ssm_inner || cd > 1 << 23)
        return th_fail(err, THIMBLE_E_FORMAT, "%d key heads and %d value heads of %d do not make an inner size of %d",
                       n->Nk, n->Nv, n->d, hp->ssm_inner);
    n->rep = n->Nv / n->Nk, n->vd = (int)vd, n->cd = (int)cd, n->kd = n->Nk * n->d;
    return true;
}

static bool bind_inputs(DeltaNet *n, int64_t E, Binder *b) {
    bool ok = th_bind_has(b, "ssm_in") ? th_bind_linear(b, "ssm_in", E, n->cd + n->vd, 0, &n->in)
                                       : th_bind_linear(b, "attn_qkv", E, n->cd, 0, &n->qkv) &&
                                             th_bind_linear(b, "attn_gate", E, n->vd, 0, &n->gate);
    if (!ok) return false;
    if (th_bind_has(b, "ssm_ba")) return th_bind_linear(b, "ssm_ba", E, 2 * n->Nv, 0, &n->ba);
    return th_bind_linear(b, "ssm_beta", E, n->Nv, 0, &n->beta) &&
           th_bind_linear(b, "ssm_alpha", E, n->Nv, 0, &n->alpha);
}

/* "ssm_dt.bias"; some exporters leave the suffix out. */
static bool bind_dt(DeltaNet *n, Binder *b) {
    if (!th_bind_vector(b, "ssm_dt", "", n->Nv, 1, WEIGHT_OPTIONAL, &n->dt)) return false;
    return n->dt || th_bind_vector(b, "ssm_dt", ".bias", n->Nv, 1, 0, &n->dt);
}

static bool deltanet_bind(void **priv, const Layer *l, Binder *b) {
    DeltaNet *n = *priv = th_bind_record(b, sizeof *n);
    return n && read_sizes(n, l, b->err) && bind_inputs(n, l->hp->n_embd, b) &&
           th_bind_vector(b, "ssm_conv1d", ".weight", n->taps, n->cd, 0, &n->conv) && bind_dt(n, b) &&
           th_bind_vector(b, "ssm_a", "", n->Nv, 1, 0, &n->a) &&
           th_bind_vector(b, "ssm_norm", ".weight", n->d, 1, 0, &n->norm) &&
           th_bind_linear(b, "ssm_out", n->vd, l->hp->n_embd, 0, &n->out);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------
 */

static ScanSpec scan_spec(const DeltaNet *n) {
    return (ScanSpec){.rule = SCAN_RULE_DELTA,
                      .heads = n->Nv,
                      .keys = n->d,
                      .values = n->d,
                      .key_heads = n->Nk,
                      .grouped = n->grouped,
                      .at = (size_t)th_conv_bytes(n->cd, n->taps)};
}

static uint64_t deltanet_recurrent(const void *priv, const Layer *l, int state_type) {
    (void)l;
    ScanSpec s = scan_spec(priv);
    return s.at + th_scan_bytes(&s, state_type);
}

static size_t deltanet_notes(const void *priv, const Layer *l, int T, size_t *work) {
    (void)l;
    ScanSpec s = scan_spec(priv);
    *work = th_scan_work_floats(&s);
    return th_conv_note_bytes(((const DeltaNet *)priv)->cd, T) + th_scan_note_bytes(&s, T);
}

/* ---- a pass ---------------------------------------------------------------------------------------------------------
 */

/* What the projections give, [T] rows each. */
typedef struct Inputs {
    float *m;     /* [cd] queries, keys, values of all heads */
    float *z;     /* [vd] */
    float *beta;  /* [Nv] logits, then the rates of learning */
    float *decay; /* [Nv] alpha, then the decays */
} Inputs;

static uint64_t deltanet_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const DeltaNet *n = priv;
    size_t T = (size_t)size->T, cd = (size_t)n->cd, vd = (size_t)n->vd, Nv = (size_t)n->Nv;
    uint64_t bytes = th_state_runs_scratch(size->T) + th_scratch_f32_size(T * cd) + 2 * th_scratch_f32_size(T * vd) +
                     2 * th_scratch_f32_size(T * Nv);
    uint64_t packed =
        th_max_size(n->in.w ? th_scratch_f32_size(T * (cd + vd)) : 0, n->ba.w ? th_scratch_f32_size(2 * T * Nv) : 0);
    uint64_t project = packed + th_prepare_scratch(l->hp->n_embd, size->T);
    return bytes + th_max_size(project, th_prepare_scratch(n->vd, size->T));
}

/* Blocks of a key head -> all queries, all keys, all values; gates apart. */
static void unpack_in(const DeltaNet *n, const Inputs *in, const float *packed, int T) {
    size_t d = (size_t)n->d, wide = (size_t)n->rep * d, block = 2 * d + 2 * wide;
    for (size_t t = 0; t < (size_t)T; t++)
        for (size_t h = 0; h < (size_t)n->Nk; h++) {
            const float *from = packed + (t * (size_t)n->Nk + h) * block;
            float *m = in->m + t * (size_t)n->cd, *z = in->z + t * (size_t)n->vd;
            memcpy(m + h * d, from, d * sizeof *m);
            memcpy(m + (size_t)n->kd + h * d, from + d, d * sizeof *m);
            memcpy(m + 2 * (size_t)n->kd + h * wide, from + 2 * d, wide * sizeof *m);
            memcpy(z + h * wide, from + 2 * d + wide, wide * sizeof *z);
        }
}

static void unpack_ba(const DeltaNet *n, const Inputs *in, const float *packed, int T) {
    size_t rep = (size_t)n->rep, blocks = (size_t)T * (size_t)n->Nk;
    for (size_t i = 0; i < blocks; i++) {
        memcpy(in->beta + i * rep, packed + 2 * i * rep, rep * sizeof *packed);
        memcpy(in->decay + i * rep, packed + (2 * i + 1) * rep, rep * sizeof *packed);
    }
}

/* All products on the same x share its prepared forms when the file has them apart. */
static bool project(Pass *p, const DeltaNet *n, const Inputs *in, const float *x) {
    size_t T = (size_t)p->T, mark = th_scratch_mark(p);
    if (!n->in.w && !n->ba.w)
        return th_linear_many(p, (float *[]){in->m, in->z, in->beta, in->decay},
                              (const Linear *[]){&n->qkv, &n->gate, &n->beta, &n->alpha}, 4, x, p->T);
    bool ok;
    if (n->in.w) {
        float *packed = th_scratch_f32(p, T * (size_t)(n->cd + n->vd));
        ok = th_linear(p, packed, &n->in, x, p->T);
        if (ok) unpack_in(n, in, packed, p->T);
    } else {
        ok = th_linear_many(p, (float *[]){in->m, in->z}, (const Linear *[]){&n->qkv, &n->gate}, 2, x, p->T);
    }
    th_scratch_reset(p, mark);
    if (!ok) return false;
    if (!n->ba.w)
        return th_linear_many(p, (float *[]){in->beta, in->decay}, (const Linear *[]){&n->beta, &n->alpha}, 2, x, p->T);
    float *packed = th_scratch_f32(p, 2 * T * (size_t)n->Nv);
    ok = th_linear(p, packed, &n->ba, x, p->T);
    if (ok) unpack_ba(n, in, packed, p->T);
    th_scratch_reset(p, mark);
    return ok;
}

typedef struct Gates {
    const Inputs *in;
    const float *dt, *a;
    int Nv;
} Gates;

static void gate_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Gates *g = arg;
    for (int i = begin * g->Nv; i < end * g->Nv; i++) {
        int head = i % g->Nv;
        g->in->beta[i] = th_sigmoid(g->in->beta[i]);
        g->in->decay[i] = th_exp(g->a[head] * th_softplus(g->in->decay[i] + g->dt[head]));
    }
}

static void recur(Pass *p, const DeltaNet *n, const Layer *l, const Inputs *in, float *o) {
    size_t cd = (size_t)n->cd, Nv = (size_t)n->Nv;
    int n_runs;
    const ScanRun *runs = th_state_runs(p, l->index, &n_runs);
    ConvSpec conv = {.w = th_vector(n->conv), .channels = n->cd, .taps = n->taps, .silu = true};
    Gates gates = {in, th_weights_f32(n->dt), th_weights_f32(n->a), n->Nv};
    ScanSpec scan = scan_spec(n);
    ScanRows rows = {.q = in->m,
                     .k = in->m + n->kd,
                     .v = in->m + 2 * n->kd,
                     .a = in->decay,
                     .beta = in->beta,
                     .o = o,
                     .q_stride = cd,
                     .k_stride = cd,
                     .v_stride = cd,
                     .a_stride = Nv,
                     .beta_stride = Nv,
                     .o_stride = (size_t)n->vd};
    if (p->T < 8)
        gate_rows(&gates, 0, 0, p->T);
    else
        th_pool_run(p->pool, gate_rows, &gates, p->T);
    th_conv(p, &conv, runs, n_runs, in->m, cd);
    th_l2_norm(p, in->m, cd, n->d, n->Nk, p->T, l->hp->eps, 1.0f / sqrtf((float)n->d));
    th_l2_norm(p, in->m + n->kd, cd, n->d, n->Nk, p->T, l->hp->eps, 1);
    th_scan(p, &scan, runs, n_runs, &rows);
}

static bool deltanet_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const DeltaNet *n = priv;
    size_t T = (size_t)p->T, mark = th_scratch_mark(p), vd = (size_t)n->vd;
    Inputs in = {.m = th_scratch_f32(p, T * (size_t)n->cd),
                 .z = th_scratch_f32(p, T * vd),
                 .beta = th_scratch_f32(p, T * (size_t)n->Nv),
                 .decay = th_scratch_f32(p, T * (size_t)n->Nv)};
    float *o = th_scratch_f32(p, T * vd);
    bool ok = project(p, n, &in, x);
    if (ok) {
        recur(p, n, l, &in, o);
        th_rms_norm(p, o, o, th_vector(n->norm), n->d, p->T * n->Nv, l->hp->eps);
        th_act_mul(p, ACT_FN_SILU, in.z, o, n->vd, vd, p->T);
        ok = th_linear(p, y, &n->out, in.z, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_deltanet = {.name = "gated delta net",
                                 .bind = deltanet_bind,
                                 .recurrent = deltanet_recurrent,
                                 .notes = deltanet_notes,
                                 .scratch = deltanet_scratch,
                                 .forward = deltanet_forward};
