/* scan.c: convolutions and scans cut into pieces of channels and columns. A piece walks the rows of its run in order,
 * so nothing of the recurrence is shared between threads, and memory is read and written by the one piece that owns it.
 */
#include "op/scan.h"

#include <math.h>

#include "kernel/vec_math.h"

/* ---- convolution ----------------------------------------------------------------------------------------------------
 */

enum { PIECE = 512 }; /* channels: enough of a row for the prefetcher, few enough for a stack */

typedef struct Conv {
    const Pass *p;
    const ConvSpec *c;
    const ScanRun *runs;
    float *x;
    size_t x_stride;
    int pieces;
} Conv;

static float *memory_row(const Conv *j, const ScanRun *run, int length, int position, int channel) {
    size_t row = (size_t)(position % (j->c->taps - 1));
    return (float *)(void *)(th_scan_slot(run, length) + j->c->at) + row * (size_t)j->c->channels + channel;
}

/* After row t: the last taps - 1 raw rows; those before the run come from `past`. */
static void keep_rows(const Conv *j, const ScanRun *run, int t, int channel, int n, const float *const *past) {
    int length = run->position + t + 1, taps = j->c->taps;
    for (int back = 1; back < taps && length - back >= 0; back++) {
        int position = length - back, row = position - run->position;
        const float *from = row >= 0 ? j->x + (size_t)(run->row + row) * j->x_stride + channel : past[taps - 1 + row];
        memcpy(memory_row(j, run, length, position, channel), from, (size_t)n * sizeof(float));
    }
}

/* Channels [channel, channel + n) of a run. The memory before it is copied first: in one slot the new one takes its
 * place. Rows are then replaced from the last to the first, so that each still finds its predecessors as they were. */
static void conv_piece(const Conv *j, const ScanRun *run, int channel, int n) {
    float copies[MAX_CONV_TAPS - 1][PIECE];
    const float *past[MAX_CONV_TAPS - 1] = {NULL}, *x[MAX_CONV_TAPS];
    int taps = j->c->taps;
    for (int i = 0; i < taps - 1; i++) {
        int position = run->position - (taps - 1) + i;
        if (position < 0) continue;
        memcpy(copies[i], memory_row(j, run, run->position, position, channel), (size_t)n * sizeof(float));
        past[i] = copies[i];
    }
    for (int t = th_scan_first_kept(run); t < run->n; t++) keep_rows(j, run, t, channel, n, past);
    for (int t = run->n - 1; t >= 0; t--) {
        for (int i = 0; i < taps; i++) {
            int row = t - (taps - 1) + i;
            x[i] = row >= 0 ? j->x + (size_t)(run->row + row) * j->x_stride + channel : past[taps - 1 + row];
        }
        j->p->k->scan.conv(j->x + (size_t)(run->row + t) * j->x_stride + channel, x,
                           j->c->w + (size_t)channel * (size_t)taps, j->c->bias ? j->c->bias + channel : NULL, n, taps,
                           j->c->silu);
    }
}

static void conv_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Conv *j = arg;
    for (int i = begin; i < end; i++) {
        int channel = i % j->pieces * PIECE;
        conv_piece(j, &j->runs[i / j->pieces], channel, th_min_int(PIECE, j->c->channels - channel));
    }
}

void th_conv(Pass *p, const ConvSpec *c, const ScanRun *runs, int n_runs, float *x, size_t x_stride) {
    Conv j = {.p = p, .c = c, .runs = runs, .x = x, .x_stride = x_stride, .pieces = (c->channels + PIECE - 1) / PIECE};
    th_pool_run_grain(p->pool, conv_pieces, &j, n_runs * j.pieces, p->T > 8 ? 1 : 4);
}

/* ---- scan -----------------------------------------------------------------------------------------------------------
 */

typedef struct Scan {
    const ScanSpec *s;
    const ScanRun *runs;
    const ScanRows *r;
    void (*kernel)(const ScanJob *job);
    int blocks;
} Scan;

static size_t block_at(const ScanSpec *s, int head, int block) {
    return (size_t)head * (size_t)s->keys * (size_t)s->values + (size_t)block * SCAN_COLS * (size_t)s->keys;
}

size_t th_scan_index(const ScanSpec *s, int head, int key, int value) {
    int block = value / SCAN_COLS, cols = th_min_int(SCAN_COLS, s->values - block * SCAN_COLS);
    return block_at(s, head, block) + (size_t)key * (size_t)cols + (size_t)(value % SCAN_COLS);
}

static float *block_in(const Scan *j, const ScanRun *run, int position, size_t at) {
    return (float *)(void *)(th_scan_slot(run, position) + j->s->at) + at;
}

/* Rows up to the first kept one run in the slot where that one is kept; each further one in a copy of its own. */
static void scan_block(const Scan *j, const ScanRun *run, int head, int block) {
    const ScanSpec *s = j->s;
    const ScanRows *r = j->r;
    int cols = th_min_int(SCAN_COLS, s->values - block * SCAN_COLS), row = 0;
    int key_head = s->grouped ? head / (s->heads / s->key_heads) : head % s->key_heads;
    size_t at = block_at(s, head, block), bytes = (size_t)s->keys * (size_t)cols * sizeof(float);
    size_t key = (size_t)key_head * (size_t)s->keys,
           value = (size_t)head * (size_t)s->values + (size_t)block * SCAN_COLS;
    size_t decay = (size_t)head * (s->rule == SCAN_RULE_DELTA_KEYS ? (size_t)s->keys : 1);
    for (int last = th_scan_first_kept(run); last < run->n; last++) {
        float *to = block_in(j, run, run->position + last + 1, at);
        const float *from = block_in(j, run, run->position + row, at);
        if (run->position + row == 0)
            memset(to, 0, bytes);
        else if (from != to)
            memcpy(to, from, bytes);
        size_t t = (size_t)run->row + (size_t)row;
        ScanJob job = {.s = to,
                       .keys = s->keys,
                       .cols = cols,
                       .T = last + 1 - row,
                       .q = r->q + t * r->q_stride + key,
                       .k = r->k + t * r->k_stride + key,
                       .v = r->v + t * r->v_stride + value,
                       .a = r->a + t * r->a_stride + decay,
                       .beta = r->beta + t * r->beta_stride + head,
                       .o = r->o + t * r->o_stride + value,
                       .q_stride = r->q_stride,
                       .k_stride = r->k_stride,
                       .v_stride = r->v_stride,
                       .a_stride = r->a_stride,
                       .beta_stride = r->beta_stride,
                       .o_stride = r->o_stride};
        j->kernel(&job);
        row = last + 1;
    }
}

static void scan_blocks(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Scan *j = arg;
    int per_run = j->s->heads * j->blocks;
    for (int i = begin; i < end; i++) scan_block(j, &j->runs[i / per_run], i % per_run / j->blocks, i % j->blocks);
}

void th_scan(Pass *p, const ScanSpec *s, const ScanRun *runs, int n_runs, const ScanRows *rows) {
    const ScanKernel *k = &p->k->scan;
    Scan j = {.s = s,
              .runs = runs,
              .r = rows,
              .blocks = (s->values + SCAN_COLS - 1) / SCAN_COLS,
              .kernel = s->rule == SCAN_RULE_DELTA ? k->delta
                        : s->rule == SCAN_RULE_ADD ? k->add
                                                   : k->delta_keys};
    th_pool_run_grain(p->pool, scan_blocks, &j, n_runs * s->heads * j.blocks, 1);
}

/* ---- row-wise helpers -----------------------------------------------------------------------------------------------
 */

typedef struct Rows {
    const Kernels *k;
    float *x;
    const float *gate;
    size_t x_stride, gate_stride;
    int n, heads;
    float eps, scale;
} Rows;

static void l2_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *a = arg;
    for (int t = begin; t < end; t++)
        for (int h = 0; h < a->heads; h++) {
            float *x = a->x + (size_t)t * a->x_stride + (size_t)h * (size_t)a->n;
            float length = sqrtf(a->k->vec.dot_f32(x, x, a->n));
            a->k->vec.scale(x, a->scale / (length > a->eps ? length : a->eps), a->n);
        }
}

void th_l2_norm(Pass *p, float *x, size_t x_stride, int n, int heads, int T, float eps, float scale) {
    Rows a = {.k = p->k, .x = x, .x_stride = x_stride, .n = n, .heads = heads, .eps = eps, .scale = scale};
    if (T < 4)
        l2_rows(&a, 0, 0, T);
    else
        th_pool_run(p->pool, l2_rows, &a, T);
}

static void sigmoid_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rows *a = arg;
    for (int t = begin; t < end; t++)
        a->k->scan.sigmoid_mul(a->x + (size_t)t * a->x_stride, a->gate + (size_t)t * a->gate_stride, a->n);
}

void th_sigmoid_mul(Pass *p, float *y, size_t y_stride, const float *gate, size_t gate_stride, int n, int T) {
    Rows a = {.k = p->k, .x = y, .gate = gate, .x_stride = y_stride, .gate_stride = gate_stride, .n = n};
    if (T < 4)
        sigmoid_rows(&a, 0, 0, T);
    else
        th_pool_run(p->pool, sigmoid_rows, &a, T);
}

float th_softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

typedef struct Decay {
    const Kernels *k;
    float *f;
    const float *dt, *a;
    float bound;
    int n, heads;
} Decay;

static void decay_head(const Decay *d, float *f, const float *dt, float a) {
    enum { N = 128 };
    float gate[N];
    for (int at = 0; at < d->n; at += N) {
        int n = th_min_int(N, d->n - at);
        for (int i = 0; i < n; i++) gate[i] = a * (f[at + i] + dt[at + i]);
        for (int i = 0; i < n; i++) f[at + i] = d->bound;
        d->k->scan.sigmoid_mul(f + at, gate, n);
        d->k->vec.exp_sub(f + at, 0, n);
    }
}

static void decay_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Decay *d = arg;
    size_t n = (size_t)d->n;
    for (int t = begin; t < end; t++)
        for (size_t h = 0; h < (size_t)d->heads; h++)
            decay_head(d, d->f + ((size_t)t * (size_t)d->heads + h) * n, d->dt + h * n, d->a[h]);
}

void th_key_decay(Pass *p, float *f, const float *dt, const float *a, float bound, int n, int heads, int T) {
    Decay d = {p->k, f, dt, a, bound, n, heads};
    if (T < 4) decay_rows(&d, 0, 0, T);
    else th_pool_run(p->pool, decay_rows, &d, T);
}
