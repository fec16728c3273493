/* mla.c: multi-head latent attention (specification 4.5), in the absorbed form.
 *
 * Of a token only its latent (C values) and one rotated key (R values) are kept, for all heads together: [n_cells][C +
 * R] in the cache type. A head's query is carried into the latent space (attn_k_b), so that it meets what is cached as
 * it is; what it finds there is carried out again (attn_v_b):
 *
 *     q = [qn | qr] per head      c, kr = kv_a x       cached: [norm(c) | rotated kr]
 *     [k_b qn | rotated qr] . [c | kr]  ->  weights  ->  u = sum of weighted c  ->  o = v_b u
 *
 * Old files hold k_b transposed and v_b in one matrix attn_kv_b, [Dn key rows, Dv value rows] per head: its rows are
 * used both ways, the cache is the same. (A bias of its key rows would add the same to all scores of a query: it is
 * left out.) Every T takes this one form: a decompressed prefill would be faster and give other bits. */
#include <math.h>

#include "kernel/vec_math.h"
#include "model/block.h"
#include "model/state.h"

typedef struct Mla {
    Linear q_a, q_b, q; /* q_a.w NULL: queries are not compressed */
    Linear kv_a, gate, out;
    Linear k_b, v_b, kv_b; /* kv_b.w NULL: apart */
    const Weight *q_a_norm, *kv_a_norm;
    AttendSpec spec; /* D = C + R, Dv = C; cache_type is the sequence's */
    HeadRows keys, values;
    int H, C, R, Dn, Dk, Dv, Rq;
    ActForm k_form, v_form; /* what k_b and v_b ask for */
    bool rotates;
} Mla;

/* ---- bind ------------------------------------------------------------------------------------------------------- */

static bool bind_inputs(Mla *m, const Layer *l, Binder *b) {
    int E = l->hp->n_embd;
    bool compressed = th_bind_has(b, "attn_q_a"); /* the tensors decide: the key is missing in some files */
    if (!th_bind_linear(b, compressed ? "attn_q_a" : "attn_q", E, compressed ? 0 : (int64_t)m->H * m->Dk, 0,
                        compressed ? &m->q_a : &m->q) ||
        !th_bind_linear(b, "attn_kv_a_mqa", E, m->C + m->R, 0, &m->kv_a) ||
        (l->spec.head_gate && !th_bind_linear(b, "attn_gate", E, m->H, 0, &m->gate)))
        return false;
    if (!compressed) return true;
    m->Rq = th_weight_rows(m->q_a.w);
    return th_bind_vector(b, "attn_q_a_norm", ".weight", m->Rq, 1, 0, &m->q_a_norm) &&
           th_bind_linear(b, "attn_q_b", m->Rq, (int64_t)m->H * m->Dk, 0, &m->q_b);
}

static bool bind_heads(Mla *m, Binder *b) {
    if (!th_bind_vector(b, "attn_kv_a_norm", ".weight", m->C, 1, 0, &m->kv_a_norm)) return false;
    m->keys = (HeadRows){m->H, m->C, 0, m->C};
    m->values = (HeadRows){m->H, m->Dv, 0, m->Dv};
    if (!th_bind_has(b, "attn_k_b")) {
        int both = m->Dn + m->Dv;
        m->keys = (HeadRows){m->H, both, 0, m->Dn}, m->values = (HeadRows){m->H, both, m->Dn, m->Dv};
        if (!th_bind_heads(b, "attn_kv_b", m->C, m->H, both, &m->kv_b)) return false;
        m->v_form = b->kernels->mat[th_weight_type(m->kv_b.w)->id]->act;
        return true;
    }
    if (!th_bind_heads(b, "attn_k_b", m->Dn, m->H, m->C, &m->k_b) ||
        !th_bind_heads(b, "attn_v_b", m->C, m->H, m->Dv, &m->v_b))
        return false;
    m->k_form = b->kernels->mat[th_weight_type(m->k_b.w)->id]->act;
    m->v_form = b->kernels->mat[th_weight_type(m->v_b.w)->id]->act;
    return true;
}

static bool mla_bind(void **priv, const Layer *l, Binder *b) {
    const Hparams *hp = l->hp;
    Mla *m = *priv = th_bind_record(b, sizeof *m);
    if (!m) return false;
    m->H = hp->layer[l->index].H;
    m->C = hp->mla_latent, m->R = hp->n_rot, m->Dk = hp->mla_key, m->Dv = hp->mla_value, m->Dn = m->Dk - m->R;
    m->rotates = m->R > 0 && !l->spec.rope_off;
    m->spec = (AttendSpec){.H = m->H,
                           .Hk = 1,
                           .D = m->C + m->R,
                           .Dv = m->C,
                           .latent = true,
                           .out_stride = (size_t)(m->C + m->R),
                           .scale = l->spec.attn_scale != 0 ? l->spec.attn_scale : 1.0f / sqrtf((float)m->Dk)};
    return bind_inputs(m, l, b) && bind_heads(m, b) &&
           th_bind_linear(b, "attn_output", (int64_t)m->H * m->Dv, hp->n_embd, 0, &m->out);
}

static uint64_t mla_state(const void *priv, const Layer *l, int context, int batch, int cache_type) {
    (void)l, (void)batch;
    const Mla *m = priv;
    return (uint64_t)context * th_cache_value_bytes(cache_type, m->spec.D);
}

static bool mla_rows(const void *priv, const Layer *l, const SeqState *s, int length, int i, CacheRows *out) {
    (void)length;
    const Mla *m = priv;
    *out = (CacheRows){.base = s->layer[l->index],
                       .row_bytes = th_cache_value_bytes(s->cache_type, m->spec.D),
                       .n_cells = s->context};
    return i == 0;
}

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

static uint64_t form_bytes(ActForm form, int cols, uint64_t rows) {
    return th_align_up(th_act_bytes(form, cols) * rows, 64);
}

static uint64_t mla_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const Mla *m = priv;
    size_t T = (size_t)size->T, heads = T * (size_t)m->H, D = (size_t)m->spec.D;
    uint64_t bytes = th_scratch_f32_size(heads * (size_t)th_max_int(m->Dk, m->Dv)) + th_scratch_f32_size(T * D) +
                     th_scratch_f32_size(m->gate.w ? heads : 0) + th_scratch_f32_size(heads * D) +
                     th_scratch_size(T * sizeof(KvCache));
    uint64_t project = th_scratch_f32_size(T * (size_t)m->Rq) +
                       th_max_size(th_prepare_scratch(l->hp->n_embd, size->T), th_prepare_scratch(m->Rq, size->T));
    uint64_t enter =
        m->kv_b.w ? th_linear_heads_turned_scratch(m->C, size->threads) : form_bytes(m->k_form, m->Dn, heads);
    uint64_t attend = th_attend_scratch(&m->spec, size->T, size->threads), leave = form_bytes(m->v_form, m->C, heads);
    uint64_t most = th_max_size(th_max_size(project, enter), th_max_size(attend, leave));
    return bytes + th_max_size(most, th_prepare_scratch(m->H * m->Dv, size->T));
}

/* q [T][H][Dk], kv [T][C + R], gate [T][H]. */
static bool project(Pass *p, const Mla *m, const Layer *l, float *q, float *kv, float *gate, const float *x) {
    size_t mark = th_scratch_mark(p);
    int T = p->T, n = m->gate.w ? 3 : 2;
    float *compressed = th_scratch_f32(p, (size_t)T * (size_t)m->Rq);
    const Linear *inputs[] = {m->q_a.w ? &m->q_a : &m->q, &m->kv_a, &m->gate};
    bool ok = th_linear_many(p, (float *[]){m->q_a.w ? compressed : q, kv, gate}, inputs, n, x, T);
    if (ok && m->q_a.w) {
        th_rms_norm(p, compressed, compressed, th_vector(m->q_a_norm), m->Rq, T, l->hp->eps);
        ok = th_linear(p, q, &m->q_b, compressed, T);
    }
    if (ok) {
        th_rms_norm_apart(p, kv, kv, th_vector(m->kv_a_norm), m->C, (size_t)m->spec.D, T, l->hp->eps);
        if (m->rotates) {
            th_rope(p, 0, kv + m->C, 1, m->spec.D);
            th_rope(p, 0, q + m->Dn, m->H, m->Dk);
        }
    }
    th_scratch_reset(p, mark);
    return ok;
}

/* Queries in the latent space, [T][H][C + R]. */
static bool enter_latent(Pass *p, const Mla *m, float *latent, const float *q) {
    size_t D = (size_t)m->spec.D, Dk = (size_t)m->Dk;
    bool ok = m->kv_b.w ? th_linear_heads_turned(p, latent, D, &m->kv_b, &m->keys, q, Dk, p->T)
                        : th_linear_heads(p, latent, D, &m->k_b, &m->keys, q, Dk, p->T);
    for (size_t i = 0; ok && i < (size_t)p->T * (size_t)m->H; i++)
        memcpy(latent + i * D + m->C, q + i * Dk + m->Dn, (size_t)m->R * sizeof *q);
    return ok;
}

static void open_gates(Pass *p, const Mla *m, float *o, const float *gate) {
    for (size_t i = 0; i < (size_t)p->T * (size_t)m->H; i++)
        p->k->vec.scale(o + i * (size_t)m->Dv, th_sigmoid(gate[i]), m->Dv);
}

static bool mla_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Mla *m = priv;
    size_t T = (size_t)p->T, heads = T * (size_t)m->H, mark = th_scratch_mark(p);
    AttendSpec spec = m->spec;
    spec.cache_type = p->rows[0].seq->cache_type;
    float *q = th_scratch_f32(p, heads * (size_t)th_max_int(m->Dk, m->Dv)), *kv = th_scratch_f32(p, T * (size_t)spec.D);
    float *gate = th_scratch_f32(p, m->gate.w ? heads : 0), *latent = th_scratch_f32(p, heads * (size_t)spec.D);
    float *u = latent, *o = q; /* what was found takes the place of the queries, what leaves that of the first ones */
    KvCache *cache = th_scratch_take(p, T * sizeof *cache);
    for (int t = 0; t < p->T; t++)
        cache[t] = (KvCache){.k = p->rows[t].seq->layer[l->index], .n_cells = p->rows[t].seq->context};
    bool ok = project(p, m, l, q, kv, gate, x) && enter_latent(p, m, latent, q);
    if (ok) {
        th_attend_store(p, &spec, cache, kv, NULL);
        th_attend(p, &spec, cache, u, latent);
        ok = th_linear_heads(p, o, (size_t)m->Dv, m->kv_b.w ? &m->kv_b : &m->v_b, &m->values, u, (size_t)spec.D, p->T);
    }
    if (ok) {
        if (m->gate.w) open_gates(p, m, o, gate);
        ok = th_linear(p, y, &m->out, o, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_mla = {
    .name = "latent attention", .bind = mla_bind, .state = mla_state, .scratch = mla_scratch,
    .rows = mla_rows, .forward = mla_forward};
