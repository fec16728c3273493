/* scan.c: convolutions and scans cut into pieces of channels and columns. A piece walks the rows of its run in order,
 * so nothing of the recurrence is shared between threads, and memory is read and written by the one piece that owns it.
 */
#include "op/scan.h"

#include <assert.h>
#include <math.h>

#include "kernel/vec_math.h"

/* ---- notes ----------------------------------------------------------------------------------------------------------
 */

struct ScanNote {
    ScanNote *next;
    ScanRun run;
    bool is_scan;
    ConvSpec conv;
    float *x; /* [n][channels], raw */
    ScanSpec scan;
    ScanRows in; /* k, v, a and beta, each [n] rows in a piece */
};

static size_t note_floats_size(size_t floats) { return th_align_up(floats * sizeof(float), 64); }
static const size_t NOTE_BYTES = (sizeof(ScanNote) + 63) / 64 * 64;

static void *take(ScanJournal *j, size_t bytes) {
    assert(bytes <= j->bytes - j->used); /* the plan asked every block for its need; anything else is a bug */
    void *at = j->memory + j->used;
    j->used += bytes;
    return at;
}

static ScanNote *take_note(const ScanRun *run) {
    ScanJournal *j = run->journal;
    ScanNote *note = take(j, NOTE_BYTES);
    *note = (ScanNote){.run = *run};
    if (j->last) j->last->next = note;
    else j->first = note;
    j->last = note;
    return note;
}

/* ---- convolution ----------------------------------------------------------------------------------------------------
 */

enum { PIECE = 512 }; /* channels: enough of a row for the prefetcher, few enough for a stack */

typedef struct Conv {
    const Kernels *k;
    const ConvSpec *c;
    const ScanRun *runs;
    float *x, *note; /* note: [n][channels] of the one run if it is on trial, else NULL */
    size_t x_stride;
    int pieces;
} Conv;

typedef struct Past {
    float copies[MAX_CONV_TAPS - 1][PIECE];
    const float *row[MAX_CONV_TAPS - 1]; /* by age, oldest first; NULL before position 0 */
} Past;

size_t th_conv_note_bytes(int channels, int T) {
    return NOTE_BYTES + note_floats_size((size_t)channels * (size_t)T);
}

static float *memory_row(const Conv *j, const ScanRun *run, int position, int channel) {
    size_t row = (size_t)(position % (j->c->taps - 1));
    return (float *)(void *)(run->memory + j->c->at) + row * (size_t)j->c->channels + channel;
}

/* Copies, because what the memory becomes takes its place. */
static void read_past(const Conv *j, const ScanRun *run, int channel, int n, Past *past) {
    int taps = j->c->taps;
    for (int i = 0; i < taps - 1; i++) {
        int position = run->position - (taps - 1) + i;
        past->row[i] = NULL;
        if (position < 0) continue;
        memcpy(past->copies[i], memory_row(j, run, position, channel), (size_t)n * sizeof(float));
        past->row[i] = past->copies[i];
    }
}

/* The memory after `rows` rows of the run: the last taps - 1 raw rows; those before the run come from `past`. */
static void keep_rows(const Conv *j, const ScanRun *run, int rows, int channel, int n, const Past *past) {
    int length = run->position + rows, taps = j->c->taps;
    for (int back = 1; back < taps && length - back >= 0; back++) {
        int position = length - back, row = position - run->position;
        const float *from =
            row >= 0 ? j->x + (size_t)(run->row + row) * j->x_stride + channel : past->row[taps - 1 + row];
        memcpy(memory_row(j, run, position, channel), from, (size_t)n * sizeof(float));
    }
}

/* Channels [channel, channel + n) of a run. Rows are replaced from the last to the first, so that each still finds its
 * predecessors as they were. */
static void conv_piece(const Conv *j, const ScanRun *run, int channel, int n) {
    Past past;
    const float *x[MAX_CONV_TAPS];
    int taps = j->c->taps;
    read_past(j, run, channel, n, &past);
    if (!j->note) keep_rows(j, run, run->n, channel, n, &past);
    for (int t = 0; j->note && t < run->n; t++)
        memcpy(j->note + (size_t)t * (size_t)j->c->channels + channel,
               j->x + (size_t)(run->row + t) * j->x_stride + channel, (size_t)n * sizeof(float));
    for (int t = run->n - 1; t >= 0; t--) {
        for (int i = 0; i < taps; i++) {
            int row = t - (taps - 1) + i;
            x[i] = row >= 0 ? j->x + (size_t)(run->row + row) * j->x_stride + channel : past.row[taps - 1 + row];
        }
        j->k->scan.conv(j->x + (size_t)(run->row + t) * j->x_stride + channel, x,
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
    Conv j = {.k = p->k, .c = c, .runs = runs, .x = x, .x_stride = x_stride};
    j.pieces = (c->channels + PIECE - 1) / PIECE;
    if (runs[0].journal) {
        ScanNote *note = take_note(&runs[0]);
        note->conv = *c;
        note->x = j.note = take(runs[0].journal, note_floats_size((size_t)c->channels * (size_t)runs[0].n));
    }
    th_pool_run_grain(p->pool, conv_pieces, &j, n_runs * j.pieces, p->T > 8 ? 1 : 4);
}

static void settle_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Conv *j = arg;
    for (int i = begin; i < end; i++) {
        Past past;
        int channel = i * PIECE, n = th_min_int(PIECE, j->c->channels - channel);
        read_past(j, j->runs, channel, n, &past);
        keep_rows(j, j->runs, j->runs->n, channel, n, &past);
    }
}

static void settle_conv(Pool *pool, const ScanNote *note, const ScanRun *run) {
    Conv j = {.c = &note->conv, .runs = run, .x = note->x, .x_stride = (size_t)note->conv.channels};
    th_pool_run_grain(pool, settle_pieces, &j, (note->conv.channels + PIECE - 1) / PIECE, 4);
}

/* ---- scan -----------------------------------------------------------------------------------------------------------
 */

typedef struct Scan {
    const ScanSpec *s;
    const ScanRun *runs;
    const ScanRows *r;
    const VecKernel *vec;
    void (*kernel)(const ScanJob *job);
    int blocks;
    bool settling; /* from notes: nobody reads what comes out */
} Scan;

static size_t block_at(const ScanSpec *s, int head, int block) {
    return (size_t)head * (size_t)s->keys * (size_t)s->values + (size_t)block * SCAN_COLS * (size_t)s->keys;
}

size_t th_scan_index(const ScanSpec *s, int head, int key, int value) {
    int block = value / SCAN_COLS, cols = th_min_int(SCAN_COLS, s->values - block * SCAN_COLS);
    return block_at(s, head, block) + (size_t)key * (size_t)cols + (size_t)(value % SCAN_COLS);
}

/* In place, or in the thread's copy: on trial, and where the memory is not of floats. */
static void scan_block(const Scan *j, const ScanRun *run, int worker, int head, int block) {
    const ScanSpec *s = j->s;
    const ScanRows *r = j->r;
    int cols = th_min_int(SCAN_COLS, s->values - block * SCAN_COLS);
    int key_head = s->grouped ? head / (s->heads / s->key_heads) : head % s->key_heads;
    size_t values = (size_t)s->keys * (size_t)cols, t = (size_t)run->row;
    size_t key = (size_t)key_head * (size_t)s->keys,
           value = (size_t)head * (size_t)s->values + (size_t)block * SCAN_COLS;
    size_t decay = (size_t)head * (s->rule == SCAN_RULE_DELTA_KEYS ? (size_t)s->keys : 1);
    bool is_f16 = run->state_type == THIMBLE_STATE_F16;
    void *memory = run->memory + s->at + block_at(s, head, block) * th_scan_value_bytes(run->state_type);
    float *to = memory, unread[SCAN_COLS];
    if (run->journal || is_f16) to = run->work + (size_t)worker * run->work_floats;
    if (run->position == 0)
        memset(to, 0, values * sizeof *to);
    else if (is_f16)
        j->vec->from_f16(to, memory, (int)values);
    else if (to != memory)
        memcpy(to, memory, values * sizeof *to);
    ScanJob job = {.s = to,
                   .keys = s->keys,
                   .cols = cols,
                   .T = run->n,
                   .halves = is_f16,
                   .q = (j->settling ? r->k : r->q) + t * r->q_stride + key,
                   .k = r->k + t * r->k_stride + key,
                   .v = r->v + t * r->v_stride + value,
                   .a = r->a + t * r->a_stride + decay,
                   .beta = r->beta + t * r->beta_stride + head,
                   .o = j->settling ? unread : r->o + t * r->o_stride + value,
                   .q_stride = r->q_stride,
                   .k_stride = r->k_stride,
                   .v_stride = r->v_stride,
                   .a_stride = r->a_stride,
                   .beta_stride = r->beta_stride,
                   .o_stride = r->o_stride};
    j->kernel(&job);
    if (is_f16 && !run->journal) j->vec->to_f16(memory, to, (int)values);
}

static void scan_blocks(void *arg, int worker, int begin, int end) {
    const Scan *j = arg;
    int per_run = j->s->heads * j->blocks;
    for (int i = begin; i < end; i++)
        scan_block(j, &j->runs[i / per_run], worker, i % per_run / j->blocks, i % j->blocks);
}

static void run_scan(Pool *pool, const Kernels *k, Scan *j, int n_runs) {
    ScanRule rule = j->s->rule;
    j->vec = &k->vec;
    j->blocks = (j->s->values + SCAN_COLS - 1) / SCAN_COLS;
    j->kernel = rule == SCAN_RULE_DELTA ? k->scan.delta : rule == SCAN_RULE_ADD ? k->scan.add : k->scan.delta_keys;
    th_pool_run_grain(pool, scan_blocks, j, n_runs * j->s->heads * j->blocks, 1);
}

/* Floats a row of a note takes of each input. */
typedef struct NoteSizes {
    size_t k, v, a, beta;
} NoteSizes;

static NoteSizes note_sizes(const ScanSpec *s) {
    size_t heads = (size_t)s->heads;
    return (NoteSizes){.k = (size_t)s->key_heads * (size_t)s->keys,
                       .v = heads * (size_t)s->values,
                       .a = heads * (s->rule == SCAN_RULE_DELTA_KEYS ? (size_t)s->keys : 1),
                       .beta = heads};
}

size_t th_scan_note_bytes(const ScanSpec *s, int T) {
    NoteSizes n = note_sizes(s);
    size_t rows = (size_t)T;
    return NOTE_BYTES + note_floats_size(rows * n.k) + note_floats_size(rows * n.v) + note_floats_size(rows * n.a) +
           note_floats_size(rows * n.beta);
}

static const float *copy_rows(ScanJournal *j, const float *from, size_t stride, int row, int n, size_t floats) {
    float *to = take(j, note_floats_size((size_t)n * floats));
    for (size_t t = 0; t < (size_t)n; t++)
        memcpy(to + t * floats, from + ((size_t)row + t) * stride, floats * sizeof *to);
    return to;
}

static void note_scan(const ScanSpec *s, const ScanRun *run, const ScanRows *r) {
    NoteSizes n = note_sizes(s);
    ScanNote *note = take_note(run);
    ScanJournal *j = run->journal;
    note->is_scan = true;
    note->scan = *s;
    note->in = (ScanRows){.k = copy_rows(j, r->k, r->k_stride, run->row, run->n, n.k),
                          .v = copy_rows(j, r->v, r->v_stride, run->row, run->n, n.v),
                          .a = copy_rows(j, r->a, r->a_stride, run->row, run->n, n.a),
                          .beta = copy_rows(j, r->beta, r->beta_stride, run->row, run->n, n.beta),
                          .q_stride = n.k,
                          .k_stride = n.k,
                          .v_stride = n.v,
                          .a_stride = n.a,
                          .beta_stride = n.beta};
}

void th_scan(Pass *p, const ScanSpec *s, const ScanRun *runs, int n_runs, const ScanRows *rows) {
    if (runs[0].journal) note_scan(s, &runs[0], rows);
    Scan j = {.s = s, .runs = runs, .r = rows};
    run_scan(p->pool, p->k, &j, n_runs);
}

void th_scan_settle(Pool *pool, const Kernels *k, const ScanJournal *journal, int rows) {
    for (const ScanNote *note = journal->first; note && rows > 0; note = note->next) {
        ScanRun run = note->run;
        run.row = 0, run.n = rows, run.journal = NULL;
        Scan j = {.s = &note->scan, .runs = &run, .r = &note->in, .settling = true};
        if (note->is_scan) run_scan(pool, k, &j, 1);
        else settle_conv(pool, note, &run);
    }
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
