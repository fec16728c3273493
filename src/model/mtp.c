/* mtp.c: see mtp.h. The block is the one the architecture describes for a layer behind the trunk; everything it does in
 * a pass it does like any other layer. */
#include "model/mtp.h"

#include <stdio.h>

/* ---- bind ------------------------------------------------------------------------------------------------------- */

bool th_mtp_there(const Hparams *hp, const Gguf *g) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.nextn.enorm.weight", hp->n_layer);
    return hp->arch->mtp && hp->n_nextn > 0 && th_gguf_tensor(g, name) != NULL;
}

static bool bind_inputs(Mtp *t, Binder *b) {
    int64_t E = b->hp->n_embd, V = b->hp->n_vocab;
    if (!th_bind_vector(b, "nextn.enorm", ".weight", E, 1, 0, &t->enorm) ||
        !th_bind_vector(b, "nextn.hnorm", ".weight", E, 1, 0, &t->hnorm) ||
        !th_bind_linear(b, "nextn.eh_proj", 2 * E, E, WEIGHT_OPTIONAL, &t->eh_proj))
        return false;
    if (!th_bind_has(b, "nextn.embed_tokens")) return true;
    char name[64];
    snprintf(name, sizeof name, "blk.%d.nextn.embed_tokens.weight", b->layer);
    return th_weights_find(b->ws, name, (Shape){E, V, 1}, WEIGHT_EMBED, &t->embd, b->err);
}

static bool bind_block(Layer *l, Binder *b) {
    LayerSpec *s = &l->spec;
    const char *mix = s->mix_norm ? s->mix_norm : "attn_norm", *ffn = s->ffn_norm ? s->ffn_norm : "ffn_norm";
    int64_t E = b->hp->n_embd;
    if (!th_bind_vector(b, mix, ".weight", E, 1, 0, &l->norm[0]) || !s->mix->bind(&l->mix, l, b)) return false;
    if (!th_bind_has(b, "ffn_gate") && !th_bind_has(b, "ffn_gate_inp")) s->ffn = NULL;
    return !s->ffn || (th_bind_vector(b, ffn, ".weight", E, 1, 0, &l->norm[1]) && s->ffn->bind(&l->ffn, l, b));
}

static bool bind_outputs(Mtp *t, Binder *b) {
    int64_t E = b->hp->n_embd, V = b->hp->n_vocab;
    return th_bind_vector(b, "nextn.shared_head_norm", ".weight", E, 1, WEIGHT_OPTIONAL, &t->norm) &&
           (t->norm || th_bind_vector(b, "layer_output_norm", ".weight", E, 1, WEIGHT_OPTIONAL, &t->norm)) &&
           th_bind_linear(b, "nextn.shared_head_head", E, V, WEIGHT_OPTIONAL, &t->head);
}

/* Its matrices run several times between two passes of the trunk: a ring would have to turn back for each. */
static void keep_block(Model *m, const Binder *b) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blk.%d.", m->hp.n_layer);
    th_weights_keep(b->ws, prefix);
}

/* The head sees so far back, whatever the context: what follows next hardly depends on more, and its cache would take
 * what a dozen megabytes of weights could stay in. */
enum { MTP_WINDOW = 512 };

bool th_mtp_bind(Model *m, Binder *b) {
    Mtp *t = th_arena_alloc(&m->arena, sizeof *t, b->err);
    if (!t) return false;
    Layer *l = &m->layers[m->hp.n_layer];
    *l = (Layer){.index = m->hp.n_layer, .hp = &m->hp};
    m->hp.arch->layer(&m->hp, l->index, &l->spec);
    if (l->spec.window == 0) l->spec.window = MTP_WINDOW;
    b->layer = l->index;
    bool ok = bind_inputs(t, b) && bind_block(l, b) && bind_outputs(t, b);
    b->layer = -1;
    if (!ok) return th_err_prefix(b->err, "MTP block %d: ", l->index);
    if (!t->embd) t->embd = m->embd;
    if (!t->norm) t->norm = m->final_norm;
    if (!t->head.w) t->head = m->head;
    keep_block(m, b);
    t->layer = l;
    m->mtp = t;
    return true;
}

/* ---- a pass ----------------------------------------------------------------------------------------------------- */

uint64_t th_mtp_scratch(const Model *m, const PassSize *size) {
    const Layer *l = m->mtp->layer;
    size_t T = (size_t)size->T, E = (size_t)m->hp.n_embd;
    uint64_t stream = th_scratch_f32_size(T * E), inputs = th_scratch_f32_size(T * 2 * E);
    inputs += th_max_size(th_embed_scratch(size->T), th_prepare_scratch(2 * m->hp.n_embd, size->T));
    uint64_t work = th_max_size(inputs, l->spec.mix->scratch(l->mix, l, size));
    if (l->spec.ffn) work = th_max_size(work, l->spec.ffn->scratch(l->ffn, l, size));
    uint64_t ropes =
        (uint64_t)m->n_ropes * th_scratch_f32_size(T * (size_t)th_max_int(m->hp.n_rot, m->hp.n_rot_swa));
    return 3 * stream + ropes + work;
}

static bool check_rows(const Model *m, const PassRow *rows, int T, Err *err) {
    if (!m->mtp) return th_fail(err, THIMBLE_E_STATE, "the model was opened without its MTP head");
    if (T < 1 || T > m->batch)
        return th_fail(err, THIMBLE_E_ARG, "%d rows do not fit a pass of at most %d", T, m->batch);
    for (int t = 0; t < T; t++) {
        bool follows = t > 0 && rows[t - 1].seq == rows[t].seq;
        if (rows[t].token < 0 || rows[t].token >= m->hp.n_vocab)
            return th_fail(err, THIMBLE_E_ARG, "token %d is not in 0..%d", rows[t].token, m->hp.n_vocab - 1);
        if (rows[t].position < 0 || rows[t].position >= rows[t].seq->context ||
            (follows && rows[t].position != rows[t - 1].position + 1))
            return th_fail(err, THIMBLE_E_ARG, "position %d cannot stand here in a context of %d", rows[t].position,
                           rows[t].seq->context);
    }
    return true;
}

typedef struct Norming {
    const Pass *p;
    const Mtp *t;
    const float *const *prev;
    float *both, *embedded;
    int E;
    float eps;
} Norming;

static void norm_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Norming *n = arg;
    size_t E = (size_t)n->E;
    for (int t = begin; t < end; t++) {
        float *e = n->both + (size_t)t * 2 * E, *h = e + E;
        n->p->k->vec.rms_norm(e, n->embedded + (size_t)t * E, th_vector(n->t->enorm), n->E, n->eps);
        if (n->prev[t])
            n->p->k->vec.rms_norm(h, n->prev[t], th_vector(n->t->hnorm), n->E, n->eps);
        else
            memset(h, 0, E * sizeof *h);
    }
}

/* x [T][E] from the tokens and the hidden states before them. */
static bool join(Pass *p, const Model *m, const float *const *prev, float *x) {
    const Mtp *t = m->mtp;
    size_t mark = th_scratch_mark(p), E = (size_t)m->hp.n_embd;
    if (!th_embed(p, x, t->embd)) return false;
    if (m->hp.embd_scale != 0 && m->hp.embd_scale != 1) th_scale(p, x, m->hp.embd_scale, (size_t)p->T * E);
    Norming n = {p, t, prev, th_scratch_f32(p, (size_t)p->T * 2 * E), x, m->hp.n_embd, m->hp.eps};
    if (p->T < 4)
        norm_rows(&n, 0, 0, p->T);
    else
        th_pool_run(p->pool, norm_rows, &n, p->T);
    bool ok = true;
    if (t->eh_proj.w) {
        ok = th_linear(p, x, &t->eh_proj, n.both, p->T);
    } else {
        for (size_t row = 0; row < (size_t)p->T; row++)
            for (size_t i = 0; i < E; i++) x[row * E + i] = n.both[row * 2 * E + i] + n.both[(row * 2 + 1) * E + i];
    }
    th_scratch_reset(p, mark);
    return ok;
}

bool th_mtp_forward(Model *m, const PassRow *rows, int T, const float *const *prev, float **hidden, Err *err) {
    if (!check_rows(m, rows, T, err)) return false;
    const Layer *l = m->mtp->layer;
    Pass p = th_model_pass(m, rows, T, err);
    size_t begin = th_scratch_mark(&p), n = (size_t)T * (size_t)m->hp.n_embd;
    float *x = th_scratch_f32(&p, n);
    size_t mark = th_scratch_mark(&p);
    float *h = th_scratch_f32(&p, n), *y = th_scratch_f32(&p, n);
    th_model_ropes(m, &p);
    bool ok = join(&p, m, prev, x) && th_model_block(&p, l, false, x, h, y);
    if (hidden && ok) {
        ok = !l->spec.ffn || th_model_block(&p, l, true, x, h, y);
        th_rms_norm(&p, x, x, th_vector(m->mtp->norm), m->hp.n_embd, T, m->hp.eps);
        *hidden = x;
    }
    m->moved += p.moved;
    th_scratch_reset(&p, hidden ? mark : begin);
    return ok;
}

bool th_mtp_logits(Model *m, const float *hidden, const int *pick, int n, float *logits, Err *err) {
    return th_model_head(m, &m->mtp->head, hidden, pick, n, logits, err);
}

enum { FEW_IDS = 4096 }; /* with fewer in memory than these, the whole matrix is worth its reading */

static int guess_rows(const Model *m) {
    int n = th_weights_resident_rows(m->mtp->head.w);
    return n < FEW_IDS ? m->hp.n_vocab : n;
}

uint64_t th_mtp_guess_bytes(const Model *m) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blk.%d.", m->hp.n_layer);
    uint64_t bytes = (uint64_t)guess_rows(m) * th_weight_row_bytes(m->mtp->head.w);
    for (size_t i = 0; i < m->gguf->n_tensors; i++)
        if (!strncmp(m->gguf->tensors[i].name.data, prefix, strlen(prefix))) bytes += m->gguf->tensors[i].bytes;
    return bytes;
}

bool th_mtp_foresaw(Model *m, const float *hidden, int32_t token, float *logits, int *foresaw, Err *err) {
    Pass p = th_model_pass(m, NULL, 1, err);
    const Linear *head = &m->mtp->head;
    int there = th_weights_resident_rows(head->w), n = th_min_int(there, FEW_IDS), best = 0;
    float own;
    *foresaw = -1;
    if (token < 0 || token >= there) return true;
    if (!th_linear_first(&p, logits, head, hidden, n) || !th_linear_row(&p, &own, head, hidden, token)) return false;
    m->moved += p.moved;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    *foresaw = own >= logits[best];
    return true;
}

bool th_mtp_guess(Model *m, const float *hidden, int n_ids, float *logits, int32_t *token, Err *err) {
    Pass p = th_model_pass(m, NULL, 1, err);
    int n = guess_rows(m), best = 0;
    if (!th_linear_first(&p, logits, &m->mtp->head, hidden, n)) return false;
    m->moved += p.moved;
    for (int i = 1; i < n && i < n_ids; i++)
        if (logits[i] > logits[best]) best = i;
    *token = best;
    return true;
}
