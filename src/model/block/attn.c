/* attn.c: grouped-query attention (specification, section 4): projections, optional norms of queries and keys,
 * rotation, cache, attention, output.
 *
 * A sequence keeps K, then V, of this layer: [Hk][n_cells][D] each in the cache type. A full layer has a cell per
 * position of the context; a sliding one a ring of window + batch - 1 cells, the fewest in which a pass cannot
 * overwrite what its first row still has to see. */
#include <math.h>

#include "model/state.h"
#include "model/block.h"

typedef struct Attn {
    Linear qkv; /* fused; w NULL: q, k, v are separate */
    Linear q, k, v, out;
    const Weight *q_norm, *k_norm, *sinks;
    AttendSpec spec; /* cache_type is the sequence's */
    int q_rows, k_rows, v_rows;
    int rope;        /* -1: none */
    bool gated;      /* q gives [H][query D, gate D] */
} Attn;

/* Rows of the projection of queries. */
static int asked_rows(const Attn *a) { return a->gated ? 2 * a->q_rows : a->q_rows; }

static bool bind_projections(Attn *a, int64_t E, Binder *b) {
    if (th_bind_has(b, "attn_qkv"))
        return th_bind_linear(b, "attn_qkv", E, asked_rows(a) + a->k_rows + a->v_rows, 0, &a->qkv);
    return th_bind_linear(b, "attn_q", E, asked_rows(a), 0, &a->q) &&
           th_bind_linear(b, "attn_k", E, a->k_rows, 0, &a->k) && th_bind_linear(b, "attn_v", E, a->v_rows, 0, &a->v);
}

static bool bind_norms(Attn *a, const Layer *l, Binder *b) {
    const LayerSpec *s = &l->spec;
    if (!s->qk_norm && !s->qk_norm_whole) return true;
    if (s->qk_norm_optional && !th_bind_has(b, "attn_q_norm")) return true;
    int q = s->qk_norm_whole ? a->q_rows : a->spec.D, k = s->qk_norm_whole ? a->k_rows : a->spec.D;
    return th_bind_vector(b, "attn_q_norm", ".weight", q, 1, 0, &a->q_norm) &&
           th_bind_vector(b, "attn_k_norm", ".weight", k, 1, 0, &a->k_norm);
}

static bool attn_bind(void **priv, const Layer *l, Binder *b) {
    const Hparams *hp = l->hp;
    const LayerNumbers *n = &hp->layer[l->index];
    if (n->H < 1 || n->Hk < 1)
        return th_fail(b->err, THIMBLE_E_FORMAT, "%d query and %d key heads are not an attention", n->H, n->Hk);
    Attn *a = *priv = th_bind_record(b, sizeof *a);
    if (!a) return false;
    a->gated = l->spec.out_gate;
    int D = n->sliding ? hp->D_swa : hp->D, Dv = n->sliding ? hp->Dv_swa : hp->Dv;
    if (a->gated && (D != Dv || n->H * D > 1 << 23))
        return th_fail(b->err, THIMBLE_E_FORMAT, "gates of %d do not fit heads of %d values", D, Dv);
    a->q_rows = n->H * D, a->k_rows = n->Hk * D, a->v_rows = n->Hk * Dv;
    int n_rot = l->spec.swa_rope ? hp->n_rot_swa : hp->n_rot;
    a->rope = l->spec.rope_off || hp->no_rope || n_rot == 0 ? -1 : l->spec.swa_rope ? 1 : 0;
    a->spec = (AttendSpec){.H = n->H, .Hk = n->Hk, .D = D, .Dv = Dv,
                           .window = l->spec.window,
                           .scale = l->spec.attn_scale != 0 ? l->spec.attn_scale : 1.0f / sqrtf((float)D)};
    return bind_projections(a, hp->n_embd, b) &&
           bind_norms(a, l, b) &&
           (!l->spec.sinks || th_bind_vector(b, "attn_sinks", ".weight", n->H, 1, 0, &a->sinks)) &&
           th_bind_linear(b, "attn_output", (int64_t)n->H * Dv, hp->n_embd, 0, &a->out);
}

/* ---- the cache -------------------------------------------------------------------------------------------------- */

static int count_cells(const AttendSpec *a, int context, int batch) {
    int64_t ring = (int64_t)a->window + batch - 1;
    return a->window == 0 || ring >= context ? context : (int)ring;
}

static uint64_t side_bytes(const AttendSpec *a, int cells, int cache_type, int n) {
    return th_align_up((uint64_t)a->Hk * (uint64_t)cells * th_cache_value_bytes(cache_type, n), 64);
}

static uint64_t attn_state(const void *priv, const Layer *l, int context, int batch, int cache_type) {
    (void)l;
    const AttendSpec *a = &((const Attn *)priv)->spec;
    int cells = count_cells(a, context, batch);
    return side_bytes(a, cells, cache_type, a->D) + side_bytes(a, cells, cache_type, a->Dv);
}

static KvCache cache_of(const AttendSpec *a, const SeqState *s, int layer) {
    KvCache c = {.k = s->layer[layer], .n_cells = count_cells(a, s->context, s->batch)};
    c.v = c.k + side_bytes(a, c.n_cells, s->cache_type, a->D);
    return c;
}

/* Row `length` will want to see everything from length - window + 1 on; a ring holds the last n_cells written ones. */
static bool attn_can_rewind(const void *priv, const Layer *l, const SeqState *s, int length) {
    (void)l;
    const AttendSpec *a = &((const Attn *)priv)->spec;
    int cells = count_cells(a, s->context, s->batch);
    if (a->window == 0) return true;
    if (length < s->restored && s->restored >= a->window) return false; /* only the window came back */
    return s->high <= cells || th_max_int(0, length - a->window + 1) >= s->high - cells;
}

static bool attn_rows(const void *priv, const Layer *l, const SeqState *s, int length, int i, CacheRows *out) {
    const AttendSpec *a = &((const Attn *)priv)->spec;
    bool is_value = i >= a->Hk;
    if (i >= 2 * a->Hk) return false;
    KvCache c = cache_of(a, s, l->index);
    *out = (CacheRows){.row_bytes = th_cache_value_bytes(s->cache_type, is_value ? a->Dv : a->D), .n_cells = c.n_cells};
    out->base = (is_value ? c.v : c.k) + (size_t)(i % a->Hk) * (size_t)c.n_cells * out->row_bytes;
    out->first = a->window > 0 ? th_max_int(0, length - a->window + 1) : 0;
    return true;
}

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

static uint64_t attn_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const Attn *a = priv;
    size_t T = (size_t)size->T, q = (size_t)a->q_rows, k = (size_t)a->k_rows, v = (size_t)a->v_rows;
    size_t o = (size_t)a->spec.H * (size_t)a->spec.Dv;
    uint64_t bytes = th_scratch_f32_size(T * q) + th_scratch_f32_size(T * k) + th_scratch_f32_size(T * v) +
                     th_scratch_f32_size(T * o) + th_scratch_size(T * sizeof(KvCache));
    if (a->gated) bytes += th_scratch_f32_size(T * 2 * q);
    uint64_t project =
        (a->qkv.w ? th_scratch_f32_size(T * ((size_t)asked_rows(a) + k + v)) : 0) +
        th_prepare_scratch(l->hp->n_embd, size->T);
    uint64_t attend = th_attend_scratch(&a->spec, size->T, size->threads);
    uint64_t output = th_prepare_scratch((int)o, size->T);
    return bytes + th_max_size(project, th_max_size(attend, output));
}

static bool project(Pass *p, const Attn *a, float *q, float *k, float *v, const float *x) {
    int T = p->T, n_q = asked_rows(a), all = n_q + a->k_rows + a->v_rows;
    if (!a->qkv.w)
        return th_linear_many(p, (float *[]){q, k, v}, (const Linear *[]){&a->q, &a->k, &a->v}, 3, x, T);
    size_t mark = th_scratch_mark(p);
    float *fused = th_scratch_f32(p, (size_t)T * (size_t)all);
    bool ok = th_linear(p, fused, &a->qkv, x, T);
    if (ok) {
        th_copy_rows(p, q, fused, n_q, (size_t)all, T);
        th_copy_rows(p, k, fused + n_q, a->k_rows, (size_t)all, T);
        th_copy_rows(p, v, fused + n_q + a->k_rows, a->v_rows, (size_t)all, T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

/* both [T][H][query D, gate D] -> q [T][H][D]. */
static void take_queries(Pass *p, const Attn *a, float *q, const float *both) {
    th_copy_rows(p, q, both, a->spec.D, 2 * (size_t)a->spec.D, p->T * a->spec.H);
}

static void norm_and_rotate(Pass *p, const Attn *a, const Layer *l, float *q, float *k) {
    const AttendSpec *s = &a->spec;
    float eps = l->hp->eps;
    if (l->spec.qk_norm_whole) {
        th_rms_norm(p, q, q, th_vector(a->q_norm), a->q_rows, p->T, eps);
        th_rms_norm(p, k, k, th_vector(a->k_norm), a->k_rows, p->T, eps);
    } else if (a->q_norm) {
        th_rms_norm(p, q, q, th_vector(a->q_norm), s->D, p->T * s->H, eps);
        th_rms_norm(p, k, k, th_vector(a->k_norm), s->D, p->T * s->Hk, eps);
    }
    if (a->rope < 0) return;
    th_rope(p, a->rope, q, s->H, s->D);
    th_rope(p, a->rope, k, s->Hk, s->D);
}

static bool attn_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Attn *a = priv;
    size_t T = (size_t)p->T, mark = th_scratch_mark(p);
    AttendSpec spec = a->spec;
    spec.cache_type = p->rows[0].seq->cache_type;
    spec.sinks = th_vector(a->sinks);
    float *q = th_scratch_f32(p, T * (size_t)a->q_rows), *k = th_scratch_f32(p, T * (size_t)a->k_rows);
    float *v = th_scratch_f32(p, T * (size_t)a->v_rows), *o = th_scratch_f32(p, T * (size_t)spec.H * (size_t)spec.Dv);
    float *both = a->gated ? th_scratch_f32(p, T * 2 * (size_t)a->q_rows) : NULL;
    KvCache *cache = th_scratch_take(p, T * sizeof *cache);
    for (int t = 0; t < p->T; t++) cache[t] = cache_of(&spec, p->rows[t].seq, l->index);
    bool ok = project(p, a, both ? both : q, k, v, x);
    if (ok) {
        if (both) take_queries(p, a, q, both);
        norm_and_rotate(p, a, l, q, k);
        th_attend_store(p, &spec, cache, k, v);
        th_attend(p, &spec, cache, o, q);
        size_t D = (size_t)spec.D;
        if (both) th_sigmoid_mul(p, o, D, both + D, 2 * D, spec.D, p->T * spec.H);
        ok = th_linear(p, y, &a->out, o, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_attn = {.name = "attention", .bind = attn_bind, .state = attn_state, .scratch = attn_scratch,
                             .can_rewind = attn_can_rewind, .rows = attn_rows, .forward = attn_forward};
