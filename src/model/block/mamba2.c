/* mamba2.c: Mamba-2 (specification, section 8):
 *
 *     [z, xBC, dt] = ssm_in x;  [X, B, C] = silu(conv(xBC) + bias);  dt = softplus(dt + dt_bias)
 *     per head: S = exp(dt a) S + dt B X^T;  y = C S + d X;    out = ssm_out (norm of groups (silu(z) * y))
 *
 * As a scan, B is the key, C the query, X the value and dt the weight of what is added. Every step works on the rows
 * that ssm_in wrote; only the read-out has memory of its own. The recurrent form serves every T. */
#include "model/block/mamba2.h"

#include "kernel/vec_math.h"
#include "model/block.h"
#include "model/state.h"

/* ---- between the projections ---- */

ConvSpec th_mamba2_conv(const Mamba2Spec *s) {
    return (ConvSpec){
        .w = s->conv_w, .bias = s->conv_bias, .channels = (int)th_mamba2_channels(s), .taps = s->taps, .silu = true};
}

ScanSpec th_mamba2_scan(const Mamba2Spec *s) {
    return (ScanSpec){.rule = SCAN_RULE_ADD,
                      .heads = s->heads,
                      .keys = s->keys,
                      .values = s->inner / s->heads,
                      .key_heads = s->groups,
                      .grouped = true,
                      .at = (size_t)th_conv_bytes((int)th_mamba2_channels(s), s->taps)};
}

uint64_t th_mamba2_memory(const Mamba2Spec *s, int state_type) {
    ScanSpec scan = th_mamba2_scan(s);
    return scan.at + th_scan_bytes(&scan, state_type);
}

size_t th_mamba2_notes(const Mamba2Spec *s, int T, size_t *work) {
    ScanSpec scan = th_mamba2_scan(s);
    *work = th_scan_work_floats(&scan);
    return th_conv_note_bytes((int)th_mamba2_channels(s), T) + th_scan_note_bytes(&scan, T);
}

typedef struct Rows {
    const Mamba2Spec *s;
    const VecKernel *vec;
    float *x, *y, *decay; /* x [T][width], y [T][di], decay [T][N] */
    size_t width;
} Rows;

/* dt of a row becomes softplus(dt + bias): what the scan adds with; decay = exp(dt a). */
static void open_gates(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *r = arg;
    const Mamba2Spec *s = r->s;
    for (int t = begin; t < end; t++) {
        float *dt = r->x + (size_t)(t + 1) * r->width - s->heads, *decay = r->decay + (size_t)t * (size_t)s->heads;
        for (int h = 0; h < s->heads; h++) {
            dt[h] = th_softplus(dt[h] + s->dt_bias[h]);
            decay[h] = th_exp(dt[h] * s->a[h]);
        }
    }
}

/* y = norm(silu(z) * (y + d X)): the gate first, then groups of di/G values each by their own length. */
static void finish_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *r = arg;
    const Mamba2Spec *s = r->s;
    int head = s->inner / s->heads, group = s->inner / s->groups;
    for (int t = begin; t < end; t++) {
        float *z = r->x + (size_t)t * r->width, *y = r->y + (size_t)t * (size_t)s->inner;
        for (int h = 0; h < s->heads; h++)
            r->vec->axpy_f32(y + (size_t)h * (size_t)head, s->d[h], z + s->inner + (size_t)h * (size_t)head, head);
        r->vec->silu_mul(z, y, s->inner);
        for (int g = 0; g < s->groups; g++)
            r->vec->rms_norm(y + (size_t)g * (size_t)group, z + (size_t)g * (size_t)group,
                             s->norm + (size_t)g * (size_t)group, group, s->eps);
    }
}

static void run_rows(Pass *p, PoolFn fn, Rows *r) {
    if (p->T < 4)
        fn(r, 0, 0, p->T);
    else
        th_pool_run(p->pool, fn, r, p->T);
}

size_t th_mamba2_scratch(const Mamba2Spec *s, int T) { return th_scratch_f32_size((size_t)T * (size_t)s->heads); }

void th_mamba2_rows(Pass *p, const Mamba2Spec *s, const ScanRun *runs, int n_runs, float *y, float *x) {
    size_t mark = th_scratch_mark(p), width = (size_t)th_mamba2_width(s), keys = (size_t)s->groups * (size_t)s->keys;
    Rows r = {.s = s, .vec = &p->k->vec, .x = x, .y = y, .width = width};
    r.decay = th_scratch_f32(p, (size_t)p->T * (size_t)s->heads);
    ConvSpec conv = th_mamba2_conv(s);
    ScanSpec scan = th_mamba2_scan(s);
    float *values = x + s->inner, *b = values + s->inner, *c = b + keys, *dt = c + keys;
    th_conv(p, &conv, runs, n_runs, values, width);
    run_rows(p, open_gates, &r);
    ScanRows rows = {.q = c,
                     .k = b,
                     .v = values,
                     .a = r.decay,
                     .beta = dt,
                     .o = y,
                     .q_stride = width,
                     .k_stride = width,
                     .v_stride = width,
                     .a_stride = (size_t)s->heads,
                     .beta_stride = width,
                     .o_stride = (size_t)s->inner};
    th_scan(p, &scan, runs, n_runs, &rows);
    run_rows(p, finish_rows, &r);
    th_scratch_reset(p, mark);
}

/* ---- the block ---- */

typedef struct Mamba2 {
    Mamba2Spec spec; /* sizes; weights are filled per pass */
    Linear in, out;
    const Weight *conv_w, *conv_bias, *dt_bias, *a, *d, *norm;
} Mamba2;

static bool check_sizes(const Mamba2Spec *s, Err *err) {
    if (s->inner % s->heads != 0 || s->heads % s->groups != 0 || s->inner % s->groups != 0)
        return th_fail(err, THIMBLE_E_FORMAT, "%d heads in %d groups do not share %d values", s->heads, s->groups,
                       s->inner);
    if (th_mamba2_width(s) > 1 << 24)
        return th_fail(err, THIMBLE_E_FORMAT, "%lld channels are too many", (long long)th_mamba2_width(s));
    return true;
}

static bool mamba2_bind(void **priv, const Layer *l, Binder *b) {
    const Hparams *hp = l->hp;
    Mamba2 *m = *priv = th_bind_record(b, sizeof *m);
    if (!m) return false;
    Mamba2Spec *s = &m->spec;
    *s = (Mamba2Spec){.inner = hp->ssm_inner,
                      .heads = hp->ssm_rank,
                      .keys = hp->ssm_state,
                      .groups = hp->ssm_groups,
                      .taps = hp->ssm_conv,
                      .eps = hp->eps};
    if (!check_sizes(s, b->err)) return false;
    int64_t channels = th_mamba2_channels(s), heads = s->heads;
    return th_bind_linear(b, "ssm_in", hp->n_embd, th_mamba2_width(s), 0, &m->in) &&
           th_bind_vector(b, "ssm_conv1d", ".weight", s->taps, channels, 0, &m->conv_w) &&
           th_bind_vector(b, "ssm_conv1d", ".bias", channels, 1, WEIGHT_OPTIONAL, &m->conv_bias) &&
           th_bind_vector(b, "ssm_dt", ".bias", heads, 1, 0, &m->dt_bias) &&
           th_bind_vector(b, "ssm_a", "", heads, 1, 0, &m->a) && th_bind_vector(b, "ssm_d", "", heads, 1, 0, &m->d) &&
           th_bind_vector(b, "ssm_norm", ".weight", s->inner / s->groups, s->groups, 0, &m->norm) &&
           th_bind_linear(b, "ssm_out", s->inner, hp->n_embd, 0, &m->out);
}

static uint64_t mamba2_recurrent(const void *priv, const Layer *l, int state_type) {
    (void)l;
    return th_mamba2_memory(&((const Mamba2 *)priv)->spec, state_type);
}

static size_t mamba2_notes(const void *priv, const Layer *l, int T, size_t *work) {
    (void)l;
    return th_mamba2_notes(&((const Mamba2 *)priv)->spec, T, work);
}

static uint64_t mamba2_scratch(const void *priv, const Layer *l, const PassSize *size) {
    const Mamba2Spec *s = &((const Mamba2 *)priv)->spec;
    size_t T = (size_t)size->T;
    uint64_t inside =
        th_max_size(th_mamba2_scratch(s, size->T) + th_state_runs_scratch(size->T),
                    th_max_size(th_prepare_scratch(l->hp->n_embd, size->T), th_prepare_scratch(s->inner, size->T)));
    return th_scratch_f32_size(T * (size_t)th_mamba2_width(s)) + th_scratch_f32_size(T * (size_t)s->inner) + inside;
}

static bool mamba2_forward(Pass *p, const void *priv, const Layer *l, float *y, const float *x) {
    const Mamba2 *m = priv;
    Mamba2Spec s = m->spec;
    s.conv_w = th_vector(m->conv_w), s.conv_bias = th_vector(m->conv_bias), s.dt_bias = th_vector(m->dt_bias);
    s.a = th_vector(m->a), s.d = th_vector(m->d), s.norm = th_vector(m->norm);
    size_t T = (size_t)p->T, mark = th_scratch_mark(p);
    float *rows = th_scratch_f32(p, T * (size_t)th_mamba2_width(&s)), *out = th_scratch_f32(p, T * (size_t)s.inner);
    bool ok = th_linear(p, rows, &m->in, x, p->T);
    if (ok) {
        size_t inside = th_scratch_mark(p);
        int n_runs;
        const ScanRun *runs = th_state_runs(p, l->index, &n_runs);
        th_mamba2_rows(p, &s, runs, n_runs, out, rows);
        th_scratch_reset(p, inside);
        ok = th_linear(p, y, &m->out, out, p->T);
    }
    th_scratch_reset(p, mark);
    return ok;
}

const Block th_block_mamba2 = {.name = "mamba-2",
                               .bind = mamba2_bind,
                               .recurrent = mamba2_recurrent,
                               .notes = mamba2_notes,
                               .scratch = mamba2_scratch,
                               .forward = mamba2_forward};
