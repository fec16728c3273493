/* state.c: one sequence's memory: the layout of state.h, and what a rewind may do.
 *
 * Fresh memory is zero. Whether a cache can forget positions is its block's decision; whether a recurrent memory can go
 * back is decided here, for all kinds of them, by what it is the memory of. */
#include "model/state.h"

#include "model/model.h"
#include "os/vm.h"

static uint64_t cache_bytes(const Model *m, int il, int context, int batch) {
    const Layer *l = &m->layers[il];
    const Block *mix = l->spec.mix;
    return mix->state ? th_align_up(mix->state(l->mix, l, context, batch, m->options.cache_type), 64) : 0;
}

static uint64_t recurrent_bytes(const Model *m, int il) {
    const Layer *l = &m->layers[il];
    const Block *mix = l->spec.mix;
    return mix->recurrent ? th_align_up(mix->recurrent(l->mix, l, m->options.state_type), 64) : 0;
}

/* The parts of the region; each saturates instead of wrapping. */
typedef struct Layout {
    uint64_t tables, caches, slot, all;
} Layout;

static uint64_t sum(uint64_t a, uint64_t b) { return th_size_add(a, b, &a) ? a : UINT64_MAX / 4; }

static Layout lay_out(const Model *m, int context, int batch) {
    uint64_t layers = (uint64_t)m->n_layers;
    Layout out = {.tables = th_align_up(layers * sizeof(char *), 64) + th_align_up(layers * sizeof(uint64_t), 64)};
    for (int il = 0; il < m->n_layers; il++) {
        out.caches = sum(out.caches, cache_bytes(m, il, context, batch));
        out.slot = sum(out.slot, recurrent_bytes(m, il));
    }
    out.all = sum(out.tables, sum(out.caches, out.slot));
    return out;
}

uint64_t th_state_bytes(const Model *m, int context, int batch) {
    uint64_t bytes = lay_out(m, context, batch).all;
    return bytes > SIZE_MAX / 4 ? bytes : th_vm_rounded((size_t)bytes, false);
}

bool th_state_open(SeqState *s, const Model *m, Err *err) {
    Layout layout = lay_out(m, m->context, m->batch);
    *s = (SeqState){.model = m,
                    .cache_type = m->options.cache_type,
                    .state_type = m->options.state_type,
                    .context = m->context,
                    .batch = m->batch,
                    .bytes = layout.all,
                    .slot_bytes = (size_t)layout.slot};
    s->memory = th_vm_alloc(m->budget, MEM_KV, (size_t)s->bytes, false, err);
    if (!s->memory) {
        *s = (SeqState){0};
        return false;
    }
    s->layer = s->memory;
    s->slot_at = (uint64_t *)(void *)((char *)s->memory + th_align_up((uint64_t)m->n_layers * sizeof(char *), 64));
    char *at = (char *)s->memory + layout.tables;
    uint64_t slot_at = 0;
    for (int il = 0; il < m->n_layers; il++) {
        uint64_t bytes = cache_bytes(m, il, m->context, m->batch);
        s->layer[il] = bytes ? at : NULL;
        at += bytes;
        s->slot_at[il] = slot_at;
        slot_at += recurrent_bytes(m, il);
    }
    s->slot = at;
    return true;
}

void th_state_close(SeqState *s, const Model *m) {
    if (s->memory) th_vm_free(m->budget, MEM_KV, s->memory, (size_t)s->bytes, false);
    *s = (SeqState){0};
}

/* Can every cache forget positions >= length? */
static bool caches_rewind(const SeqState *s, int length) {
    const Model *m = s->model;
    for (int il = 0; il < m->hp.n_layer && length > 0; il++) {
        const Layer *l = &m->layers[il];
        const Block *mix = l->spec.mix;
        if (mix->can_rewind && !mix->can_rewind(l->mix, l, s, length)) return false;
    }
    return true;
}

bool th_state_can_rewind(const SeqState *s, int length) {
    if (length < 0 || length > s->length) return false;
    if (length > 0 && s->slot_bytes > 0 && length != s->kept_at) return false;
    return (length == s->length && s->high == s->length) || caches_rewind(s, length);
}

bool th_state_rewind(SeqState *s, int length) {
    if (!th_state_can_rewind(s, length)) return false;
    if (length == 0) s->high = s->kept_at = s->restored = 0;
    s->length = length;
    return true;
}

void th_state_begin(SeqState *s, int T) {
    s->high = th_max_int(s->high, s->length + T);
    if (!s->journal) s->kept_at = s->length + T;
    else if (s->length == 0) s->kept_at = 0; /* whatever a failed pass left */
}

void th_state_settle(SeqState *s, int length) {
    const Model *m = s->model;
    if (!s->journal) return;
    th_scan_settle(m->pool, &m->kernels, s->journal, length - s->kept_at);
    s->journal = NULL;
    s->kept_at = s->length = length;
}

ScanRun *th_state_runs(Pass *p, int layer, int *n) {
    ScanRun *runs = th_scratch_take(p, (size_t)p->T * sizeof *runs);
    *n = 0;
    for (int row = 0; row < p->T;) {
        const SeqState *s = p->rows[row].seq;
        ScanRun *run = &runs[(*n)++];
        *run = (ScanRun){.row = row,
                         .position = p->rows[row].position,
                         .memory = s->slot + s->slot_at[layer],
                         .state_type = s->state_type,
                         .work = s->model->scan_work,
                         .work_floats = s->model->scan_work_floats,
                         .journal = s->journal};
        while (row < p->T && p->rows[row].seq == s) row++;
        run->n = row - run->row;
    }
    return runs;
}

void th_state_save_recurrent(const SeqState *s, void *to) {
    if (s->length == 0)
        memset(to, 0, s->slot_bytes);
    else if (s->slot_bytes > 0)
        memcpy(to, s->slot, s->slot_bytes);
}

bool th_state_can_load(const SeqState *s, int length) {
    return length >= 0 && length <= s->length && caches_rewind(s, length);
}

bool th_state_load_recurrent(SeqState *s, const void *from, int length) {
    if (!th_state_can_load(s, length)) return false;
    if (s->slot_bytes > 0) memcpy(s->slot, from, s->slot_bytes);
    if (length == 0) s->high = s->restored = 0;
    s->kept_at = s->length = length;
    return true;
}

uint64_t th_state_checkpoint_bytes(const Model *m) {
    uint64_t bytes = 0;
    for (int il = 0; il < m->n_layers; il++) bytes = sum(bytes, recurrent_bytes(m, il));
    return bytes ? sum(bytes, th_align_up((uint64_t)m->hp.n_vocab * sizeof(float), 64)) : 0;
}

char *th_state_recurrent(const SeqState *s) { return s->slot_bytes > 0 ? s->slot : NULL; }

/* Positions [first, length) of one series: one piece, or two where a ring wraps. */
static bool series_pieces(const CacheRows *r, int length, StatePieceFn fn, void *arg) {
    for (int p = r->first; p < length;) {
        int cell = p % r->n_cells, n = th_min_int(length - p, r->n_cells - cell);
        if (!fn(arg, r->base + (size_t)cell * r->row_bytes, (size_t)n * r->row_bytes)) return false;
        p += n;
    }
    return true;
}

bool th_state_pieces(const SeqState *s, int length, StatePieceFn fn, void *arg) {
    const Model *m = s->model;
    for (int il = 0; il < m->hp.n_layer; il++) {
        const Layer *l = &m->layers[il];
        const Block *mix = l->spec.mix;
        CacheRows rows;
        for (int i = 0; mix->rows && mix->rows(l->mix, l, s, length, i, &rows); i++)
            if (!series_pieces(&rows, length, fn, arg)) return false;
    }
    return true;
}

static bool count_piece(void *arg, char *piece, size_t bytes) {
    (void)piece;
    *(uint64_t *)arg += bytes;
    return true;
}

uint64_t th_state_pieces_bytes(const SeqState *s, int length) {
    uint64_t bytes = 0;
    th_state_pieces(s, length, count_piece, &bytes);
    return bytes;
}

void th_state_restored(SeqState *s, int length) { s->length = s->high = s->kept_at = s->restored = length; }
