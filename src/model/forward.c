/* forward.c: THE loop: every architecture, prefill and decode, one session or several.
 *
 * A layer is a mixing block and a feed-forward block, each between norms and added to the stream. Nothing here knows
 * what a block does; if an architecture seems to need a change here, the Block interface is wrong and is fixed for all.
 */
#include "model/model.h"

Pass th_model_pass(Model *m, const PassRow *rows, int T, Err *err) {
    Pass p = {.pool = m->pool, .k = &m->kernels, .ws = m->ws, .scratch = &m->scratch, .rows = rows, .T = T, .err = err,
              .experts_override = m->options.experts, .route_bias = m->options.route_bias,
              .route_stats = &m->route_stats};
    return p;
}

static bool check_rows(const Model *m, const PassRow *rows, int T, Err *err) {
    if (T < 1 || T > m->batch)
        return th_fail(err, THIMBLE_E_ARG, "%d rows do not fit a pass of at most %d", T, m->batch);
    for (int t = 0; t < T; t++) {
        const SeqState *s = rows[t].seq;
        bool follows = t > 0 && rows[t - 1].seq == s;
        int expected = follows ? rows[t - 1].position + 1 : s->length;
        if (!th_state_intact(s))
            return th_fail(err, THIMBLE_E_STATE,
                           "a failed pass spoilt the memory of this sequence; it has to start anew");
        if (rows[t].token < 0 || rows[t].token >= m->hp.n_vocab)
            return th_fail(err, THIMBLE_E_ARG, "token %d is not in 0..%d", rows[t].token, m->hp.n_vocab - 1);
        if (rows[t].position != expected || expected >= s->context)
            return th_fail(err, THIMBLE_E_ARG, "position %d where %d of at most %d follows", rows[t].position, expected,
                           s->context - 1);
    }
    return true;
}

/* x += scale * post_norm(block(pre_norm(x))), with the norms there are. h and y are [T][E]. */
bool th_model_block(Pass *p, const Layer *l, bool is_ffn, float *x, float *h, float *y) {
    const Hparams *hp = l->hp;
    const Block *block = is_ffn ? l->spec.ffn : l->spec.mix;
    const float *pre = is_ffn ? l->ffn_norm : l->mix_norm, *post = is_ffn ? l->ffn_post_norm : l->mix_post_norm;
    size_t n = (size_t)p->T * (size_t)hp->n_embd;
    if (pre) th_rms_norm(p, h, x, pre, hp->n_embd, p->T, hp->eps);
    if (!block->forward(p, is_ffn ? l->ffn : l->mix, l, y, pre ? h : x))
        return th_err_prefix(p->err, "layer %d: ", l->index);
    if (post) th_rms_norm(p, y, y, post, hp->n_embd, p->T, hp->eps);
    if (hp->residual_scale != 0 && hp->residual_scale != 1) th_scale(p, y, hp->residual_scale, n);
    th_add(p, x, y, n);
    return true;
}

static bool run_layers(Model *m, Pass *p, float *x, float *h, float *y) {
    const Hparams *hp = &m->hp;
    if (!th_embed(p, x, m->embd)) return false;
    if (hp->embd_scale != 0 && hp->embd_scale != 1) th_scale(p, x, hp->embd_scale, (size_t)p->T * (size_t)hp->n_embd);
    for (int il = 0; il < hp->n_layer; il++)
        if (!th_model_block(p, &m->layers[il], false, x, h, y) ||
            !th_model_block(p, &m->layers[il], true, x, h, y)) return false;
    th_rms_norm(p, x, x, th_weights_f32(m->final_norm), hp->n_embd, p->T, hp->eps);
    return true;
}

void th_model_ropes(const Model *m, Pass *p) {
    for (int i = 0; i < m->n_ropes; i++) {
        p->rope[i] = &m->rope[i];
        p->rope_cs[i] = th_rope_table(p, &m->rope[i]);
    }
}

static bool forward(Model *m, const PassRow *rows, int T, float **hidden, Err *err) {
    Pass p = th_model_pass(m, rows, T, err);
    size_t n = (size_t)T * (size_t)m->hp.n_embd;
    float *x = th_scratch_f32(&p, n);
    size_t mark = th_scratch_mark(&p);
    float *h = th_scratch_f32(&p, n), *y = th_scratch_f32(&p, n);
    th_model_ropes(m, &p);
    for (int t = 0; t < T; t++) /* memory is overwritten even if the pass fails later */
        if (t + 1 == T || rows[t + 1].seq != rows[t].seq)
            th_state_begin(rows[t].seq, rows[t].position + 1 - rows[t].seq->length);
    bool ok = run_layers(m, &p, x, h, y);
    for (int t = 0; t < T && ok; t++) rows[t].seq->length = rows[t].position + 1;
    m->moved += p.moved;
    th_scratch_reset(&p, mark);
    *hidden = x;
    return ok;
}

static void take_scan_work(Model *m, Pass *p) {
    m->scan_work_floats = th_model_scan_work_floats(m);
    m->scan_work = th_scratch_f32(p, m->scan_work_floats * (size_t)m->threads);
}

bool th_model_forward(Model *m, const PassRow *rows, int T, float **hidden, Err *err) {
    if (!check_rows(m, rows, T, err)) return false;
    Pass p = th_model_pass(m, rows, T, err);
    m->scan_work = NULL;
    if (m->options.state_type != THIMBLE_STATE_F32) take_scan_work(m, &p);
    return forward(m, rows, T, hidden, err);
}

bool th_model_try(Model *m, const PassRow *rows, int T, float **hidden, Err *err) {
    if (!check_rows(m, rows, T, err)) return false;
    for (int t = 1; t < T; t++)
        if (rows[t].seq != rows[0].seq) return th_fail(err, THIMBLE_E_ARG, "a trial is of one sequence");
    SeqState *s = rows[0].seq;
    if (s->slot_bytes > 0) {
        Pass p = th_model_pass(m, rows, T, err);
        ScanJournal *j = &m->journal;
        *j = (ScanJournal){0};
        j->bytes = th_model_journal_bytes(m, T);
        j->memory = th_scratch_take(&p, j->bytes);
        take_scan_work(m, &p);
        s->journal = j;
    }
    return forward(m, rows, T, hidden, err);
}

bool th_model_head(Model *m, const Linear *head, const float *hidden, const int *pick, int n, float *logits, Err *err) {
    const Hparams *hp = &m->hp;
    Pass p = th_model_pass(m, NULL, n, err);
    size_t mark = th_scratch_mark(&p), E = (size_t)hp->n_embd, values = (size_t)n * (size_t)hp->n_vocab;
    float *x = th_scratch_f32(&p, (size_t)n * E);
    for (int i = 0; i < n; i++) memcpy(x + (size_t)i * E, hidden + (size_t)pick[i] * E, E * sizeof *x);
    bool ok = th_linear(&p, logits, head, x, n);
    if (ok && hp->logit_scale != 0 && hp->logit_scale != 1) th_scale(&p, logits, 1.0f / hp->logit_scale, values);
    if (ok && hp->final_softcap > 0) th_softcap(&p, logits, hp->final_softcap, values);
    m->moved += p.moved;
    th_scratch_reset(&p, mark);
    return ok;
}

bool th_model_logits(Model *m, const float *hidden, const int *pick, int n, float *logits, Err *err) {
    return th_model_head(m, &m->head, hidden, pick, n, logits, err);
}

bool th_model_draft_logits(Model *m, const float *hidden, int n, float **logits, Err *err) {
    int pick[64];
    if (n < 1 || n > m->options.draft_rows || n > (int)TH_COUNT(pick))
        return th_fail(err, THIMBLE_E_ARG, "logits of %d rows at once were not planned for", n);
    Pass p = th_model_pass(m, NULL, n, err);
    *logits = th_scratch_f32(&p, (size_t)n * (size_t)m->hp.n_vocab);
    for (int i = 0; i < n; i++) pick[i] = i;
    return th_model_logits(m, hidden, pick, n, *logits, err);
}

void th_model_finish(Model *m) { m->scratch.used = 0; }
