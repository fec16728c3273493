/* moe.c: mixture of experts (specification 5.2, 5.3).
 *
 *     route -> want the experts -> shared expert (while they arrive) -> experts -> sum by ascending expert id
 *
 * An expert's output enters a token's sum as y = fma(weight, output, y), ascending by expert id, whatever arrived
 * first. Few rows (decode): experts that are in memory go first, several at once, each output into a row of its own;
 * the rows are summed afterwards. Many rows (prefill): expert by expert, ascending, each pinned once per pass for all
 * its tokens, with a bounded window of wanted ones ahead; outputs enter the sums at once, which is the same order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernel/vec_math.h"
#include "model/block.h"

enum { FEW_ROWS = 4 };

typedef struct Moe {
    const Weight *router, *router_scale, *router_bias, *select_bias;
    const Weight *bundle;             /* {gate, up, down} or {gate_up, down} */
    const Weight *member[MAX_BUNDLE], *scale[MAX_BUNDLE], *bias[MAX_BUNDLE];
    int n_members;                    /* the last one is down */
    Linear *separate;                 /* [X][3] instead of a bundle: very old files have a tensor for each expert */
    Linear shared_gate, shared_up, shared_down;
    const Weight *shared_inp, *shared_inp_scale, *shared_inp_bias;
    RouteSpec spec;                   /* bias and K are filled per pass */
    int E, Fe, Fs;
} Moe;

/* ---- bind ------------------------------------------------------------------------------------------------------- */

static bool bind_member(Moe *m, Binder *b, const char *name, int64_t cols, int64_t rows) {
    int i = m->n_members++;
    int64_t X = b->hp->n_expert;
    return th_bind_experts(b, name, cols, rows, 0, &m->member[i]) &&
           th_bind_scales(b, name, X, &m->scale[i]) &&
           th_bind_vector(b, name, ".bias", rows, X, WEIGHT_OPTIONAL, &m->bias[i]);
}

static bool bind_separate(Moe *m, Binder *b) {
    static const char *const names[] = {"ffn_gate", "ffn_up", "ffn_down"};
    m->separate = th_bind_record(b, (size_t)m->spec.X * 3 * sizeof *m->separate);
    for (int i = 0; m->separate && i < 3 * m->spec.X; i++) {
        char name[32];
        bool is_down = i % 3 == 2;
        snprintf(name, sizeof name, "%s.%d", names[i % 3], i / 3);
        if (!th_bind_linear(b, name, is_down ? m->Fe : m->E, is_down ? m->E : m->Fe, 0, &m->separate[i])) return false;
    }
    return m->separate != NULL;
}

static bool bind_experts(Moe *m, Binder *b) {
    if (th_bind_has(b, "ffn_gate.0")) return bind_separate(m, b);
    bool ok = th_bind_has(b, "ffn_gate_up_exps")
                  ? bind_member(m, b, "ffn_gate_up_exps", m->E, 2 * (int64_t)m->Fe)
                  : bind_member(m, b, "ffn_gate_exps", m->E, m->Fe) && bind_member(m, b, "ffn_up_exps", m->E, m->Fe);
    return ok && bind_member(m, b, "ffn_down_exps", m->Fe, m->E) &&
           th_weights_bundle(b->ws, m->member, m->n_members, &m->bundle, b->err);
}

static bool bind_shared(Moe *m, const Layer *l, Binder *b) {
    if (m->Fs == 0) return true;
    if (l->spec.shared_gated && (!th_bind_vector(b, "ffn_gate_inp_shexp", ".weight", m->E, 1, 0, &m->shared_inp) ||
                                 !th_bind_scales(b, "ffn_gate_inp_shexp", 1, &m->shared_inp_scale) ||
                                 !th_bind_vector(b, "ffn_gate_inp_shexp", ".bias", 1, 1, WEIGHT_OPTIONAL,
                                                 &m->shared_inp_bias)))
        return false;
    return th_bind_linear(b, "ffn_gate_shexp", m->E, m->Fs, 0, &m->shared_gate) &&
           th_bind_linear(b, "ffn_up_shexp", m->E, m->Fs, 0, &m->shared_up) &&
           th_bind_linear(b, "ffn_down_shexp", m->Fs, m->E, 0, &m->shared_down);
}

static bool moe_bind(void **priv, const Layer *l, Binder *b) {
    const Hparams *hp = l->hp;
    Moe *m = *priv = th_bind_record(b, sizeof *m);
    if (!m) return false;
    m->E = hp->n_embd, m->Fe = hp->ff_expert, m->Fs = hp->ff_shared;
    m->spec = (RouteSpec){.X = hp->n_expert, .K = hp->n_expert_used, .gating = hp->gating, .groups = hp->n_groups,
                          .groups_used = hp->n_groups_used, .norm = hp->expert_norm, .weight_scale = hp->expert_scale};
    int64_t X = hp->n_expert;
    return th_bind_vector(b, "ffn_gate_inp", ".weight", m->E, X, 0, &m->router) &&
           th_bind_scales(b, "ffn_gate_inp", 1, &m->router_scale) &&
           th_bind_vector(b, "ffn_gate_inp", ".bias", X, 1, WEIGHT_OPTIONAL, &m->router_bias) &&
           th_bind_vector(b, "exp_probs_b", ".bias", X, 1, WEIGHT_OPTIONAL, &m->select_bias) && bind_shared(m, l, b) &&
           bind_experts(m, b);
}

/* ---- routing ---------------------------------------------------------------------------------------------------- */

/* Experts a token uses: the model's number, or the lossy override within what groups leave. */
static int count_used(const Moe *m, int override) {
    if (override <= 0) return m->spec.K;
    int most = m->spec.groups > 1 ? m->spec.X / m->spec.groups * m->spec.groups_used : m->spec.X;
    return th_min_int(override, th_min_int(most, MAX_EXPERTS_USED));
}

/* Tokens of a pass by expert. A pair is (token, k), k ascending with the expert id. */
typedef struct Group {
    int expert, first, n; /* pairs [first, first + n) of the list, tokens ascending */
} Group;
typedef struct Routing {
    int K, n_groups, n_wanted;
    int *ids;       /* [T][K] ascending */
    float *weights; /* [T][K] */
    Group *groups;  /* ascending by expert */
    int *pairs;     /* [T * K] t * K + k */
} Routing;

typedef struct RouteJob {
    RouteSpec spec;
    const float *logits;
    float *tmp; /* [threads][4 X] */
    const bool *resident;
    float route_bias;
    Routing *out;
    uint64_t *changed; /* [threads] */
} RouteJob;

static void route_tokens(void *arg, int worker, int begin, int end) {
    const RouteJob *j = arg;
    size_t X = (size_t)j->spec.X, K = (size_t)j->out->K;
    for (int t = begin; t < end; t++)
        th_route(&j->spec, j->logits + (size_t)t * X, j->resident, j->route_bias, j->out->ids + (size_t)t * K,
                 j->out->weights + (size_t)t * K, j->tmp + (size_t)worker * th_route_tmp((int)X), &j->changed[worker]);
}

/* counts [X + 1] */
static void group_pairs(Routing *r, const Moe *m, int T, int *counts) {
    int X = m->spec.X, n = T * r->K;
    memset(counts, 0, ((size_t)X + 1) * sizeof *counts);
    for (int i = 0; i < n; i++) counts[r->ids[i] + 1]++;
    for (int e = 0; e < X; e++) {
        if (counts[e + 1] > 0) r->groups[r->n_groups++] = (Group){e, counts[e], counts[e + 1]};
        counts[e + 1] += counts[e];
    }
    for (int i = 0; i < n; i++) r->pairs[counts[r->ids[i]]++] = i;
}

static size_t routing_bytes(const Moe *m, int T, int K, int threads) {
    size_t X = (size_t)m->spec.X, pairs = (size_t)T * (size_t)K;
    return 3 * th_scratch_size(pairs * sizeof(int)) + th_scratch_size(th_min_size(X, pairs) * sizeof(Group)) +
           th_scratch_f32_size((size_t)T * X) + th_scratch_f32_size((size_t)threads * th_route_tmp((int)X)) +
           th_scratch_size((size_t)threads * sizeof(uint64_t)) + th_scratch_size(X) +
           th_scratch_size((X + 1) * sizeof(int));
}

/* [T][X] */
static void router_logits(Pass *p, const Moe *m, float *logits, const float *x) {
    int X = m->spec.X;
    const float *bias = th_vector(m->router_bias);
    th_route_logits(p, logits, th_vector(m->router), m->router_scale ? NULL : bias, x, X, m->E, p->T);
    if (!m->router_scale) return;
    float scale = th_scale_of(m->router_scale, 0);
    for (int i = 0; i < p->T * X; i++) logits[i] = bias ? logits[i] * scale + bias[i % X] : logits[i] * scale;
}

static void route(Pass *p, const Moe *m, Routing *r, const float *x) {
    int X = m->spec.X, T = p->T, threads = th_pool_threads(p->pool), K = count_used(m, p->experts_override);
    size_t pairs = (size_t)T * (size_t)K;
    *r = (Routing){.K = K, .ids = th_scratch_take(p, pairs * sizeof(int)), .weights = th_scratch_f32(p, pairs),
                   .pairs = th_scratch_take(p, pairs * sizeof(int))};
    r->groups = th_scratch_take(p, th_min_size((size_t)X, pairs) * sizeof(Group));
    size_t mark = th_scratch_mark(p);
    float *logits = th_scratch_f32(p, (size_t)T * (size_t)X);
    router_logits(p, m, logits, x);
    RouteJob j = {.spec = m->spec, .logits = logits, .route_bias = p->route_bias, .out = r};
    j.spec.K = K;
    j.spec.bias = th_vector(m->select_bias);
    j.tmp = th_scratch_f32(p, (size_t)threads * th_route_tmp(X));
    j.changed = th_scratch_take(p, (size_t)threads * sizeof *j.changed);
    memset(j.changed, 0, (size_t)threads * sizeof *j.changed);
    bool *resident = th_scratch_take(p, (size_t)X);
    if (p->route_bias != 0 && m->bundle) {
        for (int e = 0; e < X; e++) resident[e] = th_weights_ready(p->ws, m->bundle, e);
        j.resident = resident;
    }
    if (T < 4) route_tokens(&j, 0, 0, T);
    else th_pool_run(p->pool, route_tokens, &j, T);
    if (p->route_stats) {
        for (int i = 0; i < threads; i++) p->route_stats->picks_changed += j.changed[i];
        p->route_stats->picks_changed += (uint64_t)T * (uint64_t)(K > m->spec.K ? K - m->spec.K : m->spec.K - K);
    }
    group_pairs(r, m, T, th_scratch_take(p, ((size_t)X + 1) * sizeof(int)));
    th_scratch_reset(p, mark);
}

/* How many experts may be pinned or wanted at once. */
static int count_window(const Pass *p, const Moe *m) {
    return m->bundle ? th_max_int(1, th_weights_max_pins(p->ws, m->bundle)) : 0;
}

/* Keeps up to `window` groups wanted beyond the n_done that are finished. */
static void want_ahead(Pass *p, const Moe *m, Routing *r, int n_done, int window) {
    int ids[64], n = 0;
    while (r->n_wanted < r->n_groups && r->n_wanted < n_done + window) {
        ids[n++] = r->groups[r->n_wanted++].expert;
        if (n == (int)TH_COUNT(ids)) th_weights_want(p->ws, m->bundle, ids, n), n = 0;
    }
    if (n > 0) th_weights_want(p->ws, m->bundle, ids, n);
}

/* ---- experts ---------------------------------------------------------------------------------------------------- */

/* y [n][rows] *= scale[expert], += bias[expert]. */
static void apply_companions(const Moe *m, int member, int expert, float *y, size_t stride, int n) {
    if (!m->scale[member] && !m->bias[member]) return;
    int rows = th_weight_rows(m->member[member]);
    float scale = th_scale_of(m->scale[member], expert);
    const float *bias = m->bias[member] ? th_vector(m->bias[member]) + (size_t)expert * (size_t)rows : NULL;
    for (int i = 0; i < n; i++, y += stride) {
        if (m->scale[member])
            for (int r = 0; r < rows; r++) y[r] *= scale;
        if (bias)
            for (int r = 0; r < rows; r++) y[r] += bias[r];
    }
}

static void activate(Pass *p, const Layer *l, bool shared, float *gate, const float *up, int n, size_t stride, int T) {
    const LayerNumbers *numbers = &l->hp->layer[l->index];
    float limit = shared ? numbers->shared_clamp : numbers->clamp;
    if (limit > 0) th_silu_mul_limited(p, gate, up, limit, n, stride, T);
    else th_act_mul(p, l->spec.act_fn, gate, up, n, stride, T);
}

/* Product of a member of a pinned bundle with T prepared rows that begin at `row`. */
static MatJob member_job(Pass *p, const Moe *m, const View *view, int member, Prepared *x, int row, int T, float *y,
                         size_t y_stride) {
    const Weight *w = m->member[member];
    const MatKernel *kernel = p->k->mat[th_weight_type(w)->id];
    const char *form = th_prepare_form(p, x, kernel->act);
    return (MatJob){.kernel = kernel, .w = view->ptr[member], .stride = th_weight_row_bytes(w),
                    .x = form + (size_t)row * x->stride[kernel->act], .x_stride = x->stride[kernel->act], .y = y,
                    .y_stride = y_stride, .cols = x->cols, .rows = th_weight_rows(w), .T = T};
}

/* Gate and up of one expert: [T][2 Fe], gate first; fused files store them that way. Returns the number of jobs. */
static int input_jobs(Pass *p, const Moe *m, const View *view, Prepared *x, int row, int T, float *h, MatJob *jobs) {
    size_t stride = 2 * (size_t)m->Fe;
    int n = m->n_members - 1;
    for (int i = 0; i < n; i++) jobs[i] = member_job(p, m, view, i, x, row, T, h + (size_t)i * (size_t)m->Fe, stride);
    return n;
}
static void input_companions(const Moe *m, int expert, float *h, int T) {
    for (int i = 0; i < m->n_members - 1; i++)
        apply_companions(m, i, expert, h + (size_t)i * (size_t)m->Fe, 2 * (size_t)m->Fe, T);
}

/* ---- few rows: what is here goes first -------------------------------------------------------------------------- */

typedef struct Few {
    float *h;    /* [pairs][2 Fe] in order of computation */
    float *out;  /* [pairs][E] by pair */
    View *views; /* [groups] */
    MatJob *jobs;
    int *turn;   /* groups of this turn */
    bool *done;
    int n_pairs; /* computed so far */
} Few;

static size_t few_bytes(const Moe *m, int T, int K) {
    size_t pairs = (size_t)T * (size_t)K;
    return th_scratch_f32_size(pairs * 2 * (size_t)m->Fe) + th_scratch_f32_size(pairs * (size_t)m->E) +
           th_scratch_size(pairs * sizeof(View)) + th_scratch_size(2 * pairs * sizeof(MatJob)) +
           th_scratch_size(pairs * sizeof(int)) + th_scratch_size(pairs) + th_prepare_scratch(m->Fe, T * K);
}

/* Groups to compute now: all that are ready among the wanted ones, else the first that is missing. At most `most`. */
static int take_turn(Pass *p, const Moe *m, const Routing *r, bool *done, int *turn, int most) {
    int n = 0, first = -1;
    for (int g = 0; g < r->n_wanted && n < most; g++) {
        if (done[g]) continue;
        if (first < 0) first = g;
        if (th_weights_ready(p->ws, m->bundle, r->groups[g].expert)) turn[n++] = g;
    }
    if (n == 0) turn[n++] = first;
    for (int i = 0; i < n; i++) done[turn[i]] = true;
    return n;
}

/* Everything of one turn's experts, which are pinned. */
static void compute_turn(Pass *p, const Moe *m, const Layer *l, const Routing *r, Few *f, int n, Prepared *x) {
    size_t width = 2 * (size_t)m->Fe, mark = th_scratch_mark(p);
    float *h = f->h + (size_t)f->n_pairs * width;
    int n_jobs = 0, at = 0, down = m->n_members - 1;
    for (int i = 0; i < n; i++) {
        const Group *g = &r->groups[f->turn[i]];
        for (int k = 0; k < g->n; k++, at++)
            n_jobs += input_jobs(p, m, &f->views[i], x, r->pairs[g->first + k] / r->K, 1, h + (size_t)at * width,
                                 f->jobs + n_jobs);
    }
    th_jobs_run(p, f->jobs, n_jobs);
    at = 0;
    for (int i = 0; i < n; i++) {
        const Group *g = &r->groups[f->turn[i]];
        input_companions(m, g->expert, h + (size_t)at * width, g->n);
        at += g->n;
    }
    activate(p, l, false, h, h + m->Fe, m->Fe, width, at);
    Prepared hidden = th_prepared(h, width, m->Fe, at);
    n_jobs = 0;
    for (int i = 0; i < n; i++) {
        const Group *g = &r->groups[f->turn[i]];
        for (int k = 0; k < g->n; k++, n_jobs++)
            f->jobs[n_jobs] = member_job(p, m, &f->views[i], down, &hidden, n_jobs, 1,
                                         f->out + (size_t)r->pairs[g->first + k] * (size_t)m->E, (size_t)m->E);
    }
    th_jobs_run(p, f->jobs, n_jobs);
    for (int i = 0; i < n; i++) {
        const Group *g = &r->groups[f->turn[i]];
        for (int k = 0; k < g->n; k++)
            apply_companions(m, down, g->expert, f->out + (size_t)r->pairs[g->first + k] * (size_t)m->E, 0, 1);
    }
    f->n_pairs += at;
    th_scratch_reset(p, mark);
}

static bool run_few(Pass *p, const Moe *m, const Layer *l, Routing *r, float *y, Prepared *x) {
    size_t mark = th_scratch_mark(p), pairs = (size_t)p->T * (size_t)r->K;
    Few f = {.h = th_scratch_f32(p, pairs * 2 * (size_t)m->Fe), .out = th_scratch_f32(p, pairs * (size_t)m->E)};
    f.views = th_scratch_take(p, pairs * sizeof *f.views);
    f.jobs = th_scratch_take(p, 2 * pairs * sizeof *f.jobs);
    f.turn = th_scratch_take(p, pairs * sizeof *f.turn);
    f.done = th_scratch_take(p, pairs);
    memset(f.done, 0, pairs);
    int window = count_window(p, m);
    bool ok = true;
    for (int n_done = 0; n_done < r->n_groups && ok;) {
        want_ahead(p, m, r, n_done, window);
        int n = take_turn(p, m, r, f.done, f.turn, window), pinned = 0;
        while (pinned < n && ok) {
            ok = th_weights_pin(p->ws, m->bundle, r->groups[f.turn[pinned]].expert, &f.views[pinned], p->err);
            if (ok) pinned++;
        }
        if (ok) compute_turn(p, m, l, r, &f, n, x);
        for (int i = 0; i < pinned; i++) th_weights_unpin(p->ws, &f.views[i]);
        n_done += n;
    }
    if (ok)
        for (int t = 0; t < p->T; t++)
            for (int k = 0; k < r->K; k++)
                p->k->vec.axpy_f32(y + (size_t)t * (size_t)m->E, r->weights[t * r->K + k],
                                   f.out + (size_t)(t * r->K + k) * (size_t)m->E, m->E);
    th_scratch_reset(p, mark);
    return ok;
}

/* ---- many rows: expert by expert -------------------------------------------------------------------------------- */

typedef struct Rows {
    const Moe *m;
    const Kernels *k;
    const Routing *r;
    const Group *g;
    const char *from;
    char *to;
    size_t bytes;
    float *y;
    const float *out;
} Rows;

static void gather_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *a = arg;
    for (int i = begin; i < end; i++)
        memcpy(a->to + (size_t)i * a->bytes, a->from + (size_t)(a->r->pairs[a->g->first + i] / a->r->K) * a->bytes,
               a->bytes);
}

static void sum_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *a = arg;
    size_t E = (size_t)a->m->E;
    for (int i = begin; i < end; i++) {
        int pair = a->r->pairs[a->g->first + i];
        a->k->vec.axpy_f32(a->y + (size_t)(pair / a->r->K) * E, a->r->weights[pair], a->out + (size_t)i * E, a->m->E);
    }
}

/* The rows of x that belong to a group, in the forms its members ask for, side by side. */
static Prepared gather(Pass *p, const Moe *m, const Routing *r, const Group *g, Prepared *x) {
    Prepared picked = {.cols = x->cols, .T = g->n};
    for (int i = 0; i < m->n_members - 1; i++) {
        ActForm form = p->k->mat[th_weight_type(m->member[i])->id]->act;
        if (picked.form[form]) continue;
        Rows a = {.r = r, .g = g, .from = th_prepare_form(p, x, form), .bytes = x->stride[form]};
        a.to = th_scratch_take(p, a.bytes * (size_t)g->n);
        th_pool_run_grain(p->pool, gather_rows, &a, g->n, 8);
        picked.form[form] = a.to;
        picked.stride[form] = a.bytes;
    }
    return picked;
}

static size_t many_bytes(const Moe *m, int T) {
    return th_prepare_scratch(m->E, T) + th_scratch_f32_size((size_t)T * 2 * (size_t)m->Fe) +
           th_scratch_f32_size((size_t)T * (size_t)m->E) + th_prepare_scratch(m->Fe, T);
}

static bool run_group(Pass *p, const Moe *m, const Layer *l, const Routing *r, const Group *g, float *y, Prepared *x) {
    size_t mark = th_scratch_mark(p), width = 2 * (size_t)m->Fe;
    int down = m->n_members - 1;
    View view;
    if (!th_weights_pin(p->ws, m->bundle, g->expert, &view, p->err)) return false;
    Prepared picked = gather(p, m, r, g, x);
    float *h = th_scratch_f32(p, (size_t)g->n * width), *out = th_scratch_f32(p, (size_t)g->n * (size_t)m->E);
    MatJob jobs[MAX_BUNDLE];
    th_jobs_run(p, jobs, input_jobs(p, m, &view, &picked, 0, g->n, h, jobs));
    input_companions(m, g->expert, h, g->n);
    activate(p, l, false, h, h + m->Fe, m->Fe, width, g->n);
    Prepared hidden = th_prepared(h, width, m->Fe, g->n);
    MatJob last = member_job(p, m, &view, down, &hidden, 0, g->n, out, (size_t)m->E);
    th_jobs_run(p, &last, 1);
    th_weights_unpin(p->ws, &view);
    apply_companions(m, down, g->expert, out, (size_t)m->E, g->n);
    Rows a = {.m = m, .k = p->k, .r = r, .g = g, .y = y, .out = out};
    th_pool_run_grain(p->pool, sum_rows, &a, g->n, 8);
    th_scratch_reset(p, mark);
    return true;
}

static bool run_many(Pass *p, const Moe *m, const Layer *l, Routing *r, float *y, Prepared *x) {
    for (int i = 0; i < m->n_members - 1; i++) /* before the groups' marks: made once for all of them */
        th_prepare_form(p, x, p->k->mat[th_weight_type(m->member[i])->id]->act);
    int window = count_window(p, m);
    for (int g = 0; g < r->n_groups; g++) {
        want_ahead(p, m, r, g, window);
        if (!run_group(p, m, l, r, &r->groups[g], y, x)) return false;
    }
    return true;
}

/* ---- separate tensors: dense matrices, expert by expert --------------------------------------------------------- */

static size_t separate_bytes(const Moe *m, int T) {
    return 2 * th_scratch_f32_size((size_t)T * (size_t)m->E) + 2 * th_scratch_f32_size((size_t)T * (size_t)m->Fe) +
           th_max_size(th_prepare_scratch(m->E, T), th_prepare_scratch(m->Fe, T));
}

static bool run_separate(Pass *p, const Moe *m, const Layer *l, const Routing *r, float *y, const float *x) {
    size_t mark = th_scratch_mark(p), E = (size_t)m->E, Fe = (size_t)m->Fe, T = (size_t)p->T;
    float *in = th_scratch_f32(p, T * E), *out = th_scratch_f32(p, T * E);
    float *gate = th_scratch_f32(p, T * Fe), *up = th_scratch_f32(p, T * Fe);
    bool ok = true;
    for (int i = 0; i < r->n_groups && ok; i++) {
        const Group *g = &r->groups[i];
        const Linear *one = m->separate + 3 * (size_t)g->expert;
        Rows a = {.m = m, .k = p->k, .r = r, .g = g, .bytes = E * sizeof *x, .y = y, .out = out};
        a.from = (const char *)x, a.to = (char *)in;
        th_pool_run_grain(p->pool, gather_rows, &a, g->n, 8);
        ok = th_linear_many(p, (float *[]){gate, up}, (const Linear *[]){&one[0], &one[1]}, 2, in, g->n);
        if (ok) activate(p, l, false, gate, up, m->Fe, Fe, g->n);
        ok = ok && th_linear(p, out, &one[2], gate, g->n);
        if (ok) th_pool_run_grain(p->pool, sum_rows, &a, g->n, 8);
    }
    th_scratch_reset(p, mark);
    return ok;
}

/* ---- the block -------------------------------------------------------------------------------------------------- */

static uint64_t shared_bytes(const Moe *m, int T) {
    if (m->Fs == 0) return 0;
    return 2 * th_scratch_f32_size((size_t)T * (size_t)m->Fs) + th_scratch_f32_size((size_t)T) +
           th_max_size(th_prepare_scratch(m->E, T), th_prepare_scratch(m->Fs, T));
}

static uint64_t moe_scratch(const void *priv, const Layer *l, const PassSize *size) {
    (void)l;
    const Moe *m = priv;
    int T = size->T, K = count_used(m, size->experts);
    uint64_t experts = m->separate ? separate_bytes(m, T) : T <= FEW_ROWS ? few_bytes(m, T, K) : many_bytes(m, T);
    if (T > FEW_ROWS && !m->separate) experts = th_max_size(experts, few_bytes(m, FEW_ROWS, K));
    return routing_bytes(m, T, K, size->threads) + (m->Fs ? th_scratch_f32_size((size_t)T * (size_t)m->E) : 0) +
           th_prepare_scratch(m->E, T) + th_max_size(shared_bytes(m, T), experts);
}

/* sum [T][E] = shared expert, weighed by its gate if it has one. */
static bool run_shared(Pass *p, const Moe *m, const Layer *l, float *sum, const float *x) {
    size_t mark = th_scratch_mark(p), n = (size_t)p->T * (size_t)m->Fs;
    float *gate = th_scratch_f32(p, n), *up = th_scratch_f32(p, n), *open = th_scratch_f32(p, (size_t)p->T);
    bool ok = th_linear_many(p, (float *[]){gate, up}, (const Linear *[]){&m->shared_gate, &m->shared_up}, 2, x, p->T);
    if (ok) {
        activate(p, l, true, gate, up, m->Fs, (size_t)m->Fs, p->T);
        ok = th_linear(p, sum, &m->shared_down, gate, p->T);
    }
    if (ok && m->shared_inp) {
        th_route_logits(p, open, th_vector(m->shared_inp), NULL, x, 1, m->E, p->T);
        float scale = th_scale_of(m->shared_inp_scale, 0);
        float bias = m->shared_inp_bias ? *th_vector(m->shared_inp_bias) : 0;
        for (int t = 0; t < p->T; t++)
            p->k->vec.scale(sum + (size_t)t * (size_t)m->E, th_sigmoid(open[t] * scale + bias), m->E);
    }
    th_scratch_reset(p, mark);
    return ok;
}

/* The next layer that has experts is asked what this layer's hidden state would make it choose. */
static void guess_next(Pass *p, const Layer *l, const float *x) {
    const Layer *next = l->next;
    while (next && !next->spec.ffn->guess) next = next->next;
    if (next) next->spec.ffn->guess(p, next->ffn, next, x);
}

static void moe_guess(Pass *p, const void *priv, const Layer *l, const float *x) {
    (void)l;
    const Moe *m = priv;
    if (!m->bundle) return;
    size_t mark = th_scratch_mark(p);
    RouteStats *stats = p->route_stats;
    p->route_stats = NULL;
    Routing r;
    route(p, m, &r, x);
    p->route_stats = stats;
    th_weights_guess(p->ws, m->bundle, r.ids, r.K);
    th_scratch_reset(p, mark);
}

static bool moe_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Moe *m = priv;
    size_t mark = th_scratch_mark(p), n = (size_t)p->T * (size_t)m->E;
    float *shared = m->Fs ? th_scratch_f32(p, n) : NULL;
    Routing r;
    route(p, m, &r, x);
    want_ahead(p, m, &r, 0, count_window(p, m));
    bool ok = !shared || run_shared(p, m, l, shared, x);
    if (ok) {
        Prepared prepared = th_prepared(x, (size_t)m->E, m->E, p->T);
        memset(y, 0, n * sizeof *y);
        if (m->separate) {
            ok = run_separate(p, m, l, &r, y, x);
        } else if (p->T <= FEW_ROWS) {
            for (int i = 0; i < m->n_members - 1; i++)
                th_prepare_form(p, &prepared, p->k->mat[th_weight_type(m->member[i])->id]->act);
            ok = run_few(p, m, l, &r, y, &prepared);
        } else {
            ok = run_many(p, m, l, &r, y, &prepared);
        }
    }
    if (ok && shared) th_add(p, y, shared, n);
    th_scratch_reset(p, mark);
    if (ok && p->T == 1 && th_weights_lookahead(p->ws)) guess_next(p, l, x);
    return ok;
}

const Block th_block_moe = {.name = "experts", .bind = moe_bind, .scratch = moe_scratch, .forward = moe_forward,
                            .guess = moe_guess};
