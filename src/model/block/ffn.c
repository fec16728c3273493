/* ffn.c: the dense gated feed-forward (specification 5.1): down (act(gate x) * (up x)). */
#include "model/block.h"

typedef struct Ffn {
    Linear gate, up, down;
    int ff;
} Ffn;

static bool ffn_bind(void **priv, const Layer *l, Binder *b) {
    Ffn *f = *priv = th_bind_record(b, sizeof *f);
    if (!f) return false;
    int E = l->hp->n_embd;
    f->ff = l->hp->layer[l->index].ff;
    if (f->ff < 1) return th_fail(b->err, THIMBLE_E_FORMAT, "%s.feed_forward_length is missing or 0", l->hp->prefix);
    return th_bind_linear(b, "ffn_gate", E, f->ff, 0, &f->gate) && th_bind_linear(b, "ffn_up", E, f->ff, 0, &f->up) &&
           th_bind_linear(b, "ffn_down", f->ff, E, 0, &f->down);
}

static uint64_t ffn_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const Ffn *f = priv;
    return 2 * th_scratch_f32_size((size_t)size->T * (size_t)f->ff) +
           th_max_size(th_prepare_scratch(l->hp->n_embd, size->T), th_prepare_scratch(f->ff, size->T));
}

static bool ffn_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Ffn *f = priv;
    size_t mark = th_scratch_mark(p), n = (size_t)p->T * (size_t)f->ff;
    float *gate = th_scratch_f32(p, n), *up = th_scratch_f32(p, n);
    bool ok = th_linear_many(p, (float *[]){gate, up}, (const Linear *[]){&f->gate, &f->up}, 2, x, p->T);
    if (ok) {
        float limit = l->spec.clamped ? l->hp->layer[l->index].shared_clamp : 0;
        if (limit > 0) th_silu_mul_limited(p, gate, up, limit, f->ff, (size_t)f->ff, p->T);
        else th_act_mul(p, l->spec.act_fn, gate, up, f->ff, (size_t)f->ff, p->T);
        ok = th_linear(p, y, &f->down, gate, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_ffn = {.name = "feed-forward", .bind = ffn_bind, .scratch = ffn_scratch, .forward = ffn_forward};
