/* shortconv.c: LFM2's gated short convolution (specification, section 9):
 *
 *     [b, c, x] = in_proj h;  out = out_proj (c * conv(b * x))
 *
 * Its memory is the last few b * x. No activation function. */
#include "model/block/shortconv.h"

#include "model/block.h"
#include "model/state.h"

typedef struct Rows {
    float *y, *bcx;
    size_t E;
} Rows;

static void gate_inputs(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *r = arg;
    for (int t = begin; t < end; t++) {
        const float *b = r->bcx + (size_t)t * 3 * r->E;
        float *x = r->bcx + ((size_t)t * 3 + 2) * r->E;
        for (size_t i = 0; i < r->E; i++) x[i] *= b[i];
    }
}

static void gate_outputs(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *r = arg;
    for (int t = begin; t < end; t++) {
        const float *c = r->bcx + ((size_t)t * 3 + 1) * r->E, *v = c + r->E;
        float *y = r->y + (size_t)t * r->E;
        for (size_t i = 0; i < r->E; i++) y[i] = c[i] * v[i];
    }
}

static void run_rows(Pass *p, PoolFn fn, Rows *r) {
    if (p->T < 4)
        fn(r, 0, 0, p->T);
    else
        th_pool_run(p->pool, fn, r, p->T);
}

void th_shortconv_rows(Pass *p, const float *w, int E, int taps, const ScanRun *runs, int n_runs, float *y,
                       float *bcx) {
    Rows r = {.y = y, .bcx = bcx, .E = (size_t)E};
    ConvSpec conv = {.w = w, .channels = E, .taps = taps};
    run_rows(p, gate_inputs, &r);
    th_conv(p, &conv, runs, n_runs, bcx + 2 * (size_t)E, 3 * (size_t)E);
    run_rows(p, gate_outputs, &r);
}

/* ---- the block ---- */

typedef struct ShortConv {
    Linear in, out;
    const Weight *w;
} ShortConv;

static bool shortconv_bind(void **priv, const Layer *l, Binder *b) {
    ShortConv *c = *priv = th_bind_record(b, sizeof *c);
    if (!c) return false;
    int64_t E = l->hp->n_embd;
    if (l->hp->ssm_conv < 1) return th_fail(b->err, THIMBLE_E_FORMAT, "%s.shortconv.l_cache is missing", l->hp->prefix);
    return th_bind_linear(b, "shortconv.in_proj", E, 3 * E, 0, &c->in) &&
           th_bind_vector(b, "shortconv.conv", ".weight", l->hp->ssm_conv, E, 0, &c->w) &&
           th_bind_linear(b, "shortconv.out_proj", E, E, 0, &c->out);
}

static uint64_t shortconv_recurrent(const void *priv, const Layer *l, int state_type) {
    (void)priv, (void)state_type;
    return th_conv_bytes(l->hp->n_embd, l->hp->ssm_conv);
}

static size_t shortconv_notes(const void *priv, const Layer *l, int T, size_t *work) {
    (void)priv;
    *work = 0;
    return th_conv_note_bytes(l->hp->n_embd, T);
}

static uint64_t shortconv_scratch(const void *priv, const Layer *l, const PassSize *size) {
    (void)priv;
    size_t n = (size_t)size->T * (size_t)l->hp->n_embd;
    return th_scratch_f32_size(3 * n) + th_scratch_f32_size(n) +
           th_max_size(th_state_runs_scratch(size->T), th_prepare_scratch(l->hp->n_embd, size->T));
}

static bool shortconv_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const ShortConv *c = priv;
    size_t mark = th_scratch_mark(p), n = (size_t)p->T * (size_t)l->hp->n_embd;
    float *bcx = th_scratch_f32(p, 3 * n), *out = th_scratch_f32(p, n);
    bool ok = th_linear(p, bcx, &c->in, x, p->T);
    if (ok) {
        size_t inside = th_scratch_mark(p);
        int n_runs;
        const ScanRun *runs = th_state_runs(p, l->index, &n_runs);
        th_shortconv_rows(p, th_vector(c->w), l->hp->n_embd, l->hp->ssm_conv, runs, n_runs, out, bcx);
        th_scratch_reset(p, inside);
        ok = th_linear(p, y, &c->out, out, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_shortconv = {.name = "short convolution",
                                  .bind = shortconv_bind,
                                  .recurrent = shortconv_recurrent,
                                  .notes = shortconv_notes,
                                  .scratch = shortconv_scratch,
                                  .forward = shortconv_forward};
