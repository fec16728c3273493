/* weights.c: the store: takes weights by name, checks them, and passes on to the home that the plan gave each.
 *
 * A dense matrix is cut here, once and for good, into parts of whole rows of about 1 MiB: small enough that a ring of
 * three is little memory, large enough that a read costs what its bytes cost. Where a part lies never changes a bit,
 * for rows are independent; therefore nothing above asks. */
#include "weights/weights.h"

#include <string.h>

#include "weights/plan.h"

enum { ROW_STEP = 32 }; /* parts are multiples of it where they can be: kernels like full groups of rows */

/* ---- shape ----------------------------------------------------------------------------------------------------- */

const TypeInfo *th_weight_type(const Weight *w) { return w->type; }
const char *th_weight_name(const Weight *w) { return w->name; }
int th_weight_cols(const Weight *w) { return w->cols; }
int th_weight_rows(const Weight *w) { return w->rows; }
int th_weight_experts(const Weight *w) { return w->experts; }
size_t th_weight_row_bytes(const Weight *w) { return w->row_bytes; }
uint64_t th_weight_bytes(const Weight *w) { return w->bytes; }
int th_weights_parts(const Weight *w) { return th_weight_is_bundle(w) ? w->experts : w->n_parts; }
const Weight *th_weights_member(const Weight *bundle, int i) {
    return i < bundle->n_members ? bundle->member[i] : NULL;
}

/* ---- open, close ----------------------------------------------------------------------------------------------- */

bool th_weights_open(Weights **out, Gguf *g, const Kernels *k, Budget *b, const WeightsOptions *o, Err *err) {
    Arena arena;
    *out = NULL;
    th_arena_init(&arena, b, MEM_METADATA);
    Weights *ws = th_arena_alloc(&arena, sizeof *ws, err);
    if (!ws) return false;
    ws->gguf = g;
    ws->kernels = k;
    ws->budget = b;
    ws->options = *o;
    ws->arena = arena;
    ws->by_tensor = th_arena_array(&ws->arena, g->n_tensors, sizeof(Weight *), err);
    ws->maps = th_arena_array(&ws->arena, g->n_shards, sizeof *ws->maps, err);
    if (!ws->by_tensor || !ws->maps) {
        th_weights_close(ws);
        return false;
    }
    /* Now, because alignment decides how large ring and slots are. */
    ws->direct = true;
    for (uint32_t i = 0; i < g->n_shards; i++)
        if (g->files[i].size > 0 && !th_file_probe_direct(&g->files[i])) ws->direct = false;
    *out = ws;
    return true;
}

static void unload(Weights *ws) {
    /* Readers first: they write into what follows. */
    th_aio_close(ws->aio);
    ws->aio = NULL;
    th_budget_give(ws->budget, MEM_IO, ws->aio_charged);
    ws->aio_charged = 0;
    th_stream_close(ws);
    th_paged_close(ws);
    th_gather_close(ws);
    th_resident_close(ws);
    th_mapped_close(ws);
    ws->loaded = false;
}

void th_weights_close(Weights *ws) {
    if (!ws) return;
    unload(ws);
    Arena arena = ws->arena; /* ws lies in it */
    th_arena_free(&arena);
}

/* ---- find ------------------------------------------------------------------------------------------------------ */

static void append(Weights *ws, Weight *w) {
    w->next = NULL;
    if (ws->last) ws->last->next = w;
    else ws->first = w;
    ws->last = w;
}

static void unlink_weight(Weights *ws, Weight *w) {
    Weight *before = NULL;
    for (Weight *x = ws->first; x != w; x = x->next) before = x;
    if (before) before->next = w->next;
    else ws->first = w->next;
    if (ws->last == w) ws->last = before;
}

static bool shape_fits(const GgufTensor *t, Shape s, int flags) {
    const int64_t want[3] = {s.cols, s.rows, s.experts};
    if (flags & WEIGHT_FLAT) {
        uint64_t rows;
        return th_size_mul(t->dim[1], t->dim[2], &rows) && th_size_mul(rows, t->dim[3], &rows) && rows <= INT32_MAX &&
               (s.cols == 0 || t->dim[0] == (uint64_t)s.cols) && (s.rows == 0 || rows == (uint64_t)s.rows);
    }
    for (int i = 0; i < 3; i++)
        if (want[i] != 0 && t->dim[i] != (uint64_t)want[i]) return false;
    return t->dim[3] == 1;
}

/* A vector is a run of values: converters write the same one as [n], [1, n] or [k, 1, n, 1]. */
static bool values_fit(const GgufTensor *t, Shape s) {
    const int64_t want[2] = {s.cols, s.rows};
    int at = 0;
    for (int d = 0; d < 4; d++) {
        if (t->dim[d] == 1) continue;
        while (at < 2 && want[at] == 1) at++;
        if (at == 2 || t->dim[d] != (uint64_t)want[at++]) return false;
    }
    while (at < 2 && want[at] == 1) at++;
    return at == 2;
}

static bool check_shape(const GgufTensor *t, const char *name, Shape s, int flags, Err *err) {
    unsigned long long d0 = t->dim[0], d1 = t->dim[1], d2 = t->dim[2];
    if (!(flags & WEIGHT_EXPERTS)) s.experts = 1;
    if (!shape_fits(t, s, flags) && !((flags & WEIGHT_VECTOR) && values_fit(t, s)))
        return th_fail(err, THIMBLE_E_FORMAT, "%s: it is %llu x %llu x %llu but should be %lld x %lld x %lld (0: any)",
                       name, d0, d1, d2, (long long)s.cols, (long long)s.rows, (long long)s.experts);
    uint64_t rows, values;
    bool counted = th_size_mul(d1, d2, &rows) && th_size_mul(rows, d0, &values);
    if (!counted || d0 > INT32_MAX || d1 > INT32_MAX || d2 > INT32_MAX)
        return th_fail(err, THIMBLE_E_FORMAT, "%s: %llu x %llu x %llu weights are too many", name, d0, d1, d2);
    if ((flags & WEIGHT_VECTOR) && values > INT32_MAX)
        return th_fail(err, THIMBLE_E_FORMAT, "%s: %llu weights are too many for a vector", name,
                       (unsigned long long)values);
    return true;
}

static bool check_type(const Weights *ws, const TypeInfo *type, const char *name, int flags, Err *err) {
    bool product = !(flags & (WEIGHT_VECTOR | WEIGHT_EMBED));
    if (product ? !ws->kernels->mat[type->id] : !type->dequantize)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "%s: there is no kernel for type %s here", name, type->name);
    return true;
}

static Weight *make_weight(Weights *ws, const GgufTensor *t, Shape shape, int flags, Err *err) {
    Weight *w = th_arena_alloc(&ws->arena, sizeof *w, err);
    if (!w) return NULL;
    w->name = th_arena_dup(&ws->arena, t->name.data, t->name.len, err);
    if (!w->name) return NULL;
    w->tensor = t;
    w->file = &ws->gguf->files[t->shard];
    w->type = t->type;
    w->cols = (int)t->dim[0];
    w->rows = (int)t->dim[1];
    w->experts = (int)t->dim[2];
    if ((flags & WEIGHT_VECTOR) && shape.cols && shape.rows) {
        w->cols = (int)shape.cols, w->rows = (int)shape.rows;
        w->experts = 1;
    }
    if (flags & WEIGHT_FLAT) {
        w->rows = (int)(t->dim[1] * t->dim[2] * t->dim[3]);
        w->experts = 1;
    }
    w->row_bytes = (size_t)t->row_bytes;
    w->bytes = t->bytes;
    w->flags = flags & ~WEIGHT_OPTIONAL;
    if (!th_weight_is_dense(w)) return w;
    uint64_t rows = w->row_bytes < PART_BYTES ? PART_BYTES / w->row_bytes : 1;
    if (rows > ROW_STEP) rows -= rows % ROW_STEP;
    w->part_rows = rows < (uint64_t)w->rows ? (int)rows : w->rows;
    w->n_parts = (w->rows - 1) / w->part_rows + 1;
    return w;
}

bool th_weights_find(Weights *ws, const char *name, Shape shape, int flags, const Weight **out, Err *err) {
    const GgufTensor *t = th_gguf_tensor(ws->gguf, name);
    *out = NULL;
    if (!t) {
        if (flags & WEIGHT_OPTIONAL) return true;
        return th_fail(err, THIMBLE_E_FORMAT, "%s: no such tensor in %s", name, ws->gguf->files[0].path);
    }
    if (!check_shape(t, name, shape, flags, err) || !check_type(ws, t->type, name, flags, err)) return false;
    Weight **known = &ws->by_tensor[t - ws->gguf->tensors], *w = *known;
    int kind = WEIGHT_VECTOR | WEIGHT_EXPERTS;
    if (w && (w->flags & kind) != (flags & kind))
        return th_fail(err, THIMBLE_E_STATE, "%s: taken before as something else", name);
    if (w) {
        w->flags |= flags & WEIGHT_EMBED;
        if (!(flags & WEIGHT_EMBED)) {
            unlink_weight(ws, w);
            append(ws, w);
        }
    } else {
        w = make_weight(ws, t, shape, flags, err);
        if (!w) return false;
        *known = w;
        append(ws, w);
    }
    if (th_weight_is_dense(w) && !(flags & WEIGHT_EMBED)) w->multiplied = true;
    if (strcmp(name, "output.weight") == 0) ws->has_output = true;
    *out = w;
    return true;
}

bool th_weights_has(const Weights *ws, const char *name) { return th_gguf_tensor(ws->gguf, name) != NULL; }

/* Room for the largest widened read of one expert of m: alignment may differ from expert to expert. */
static uint64_t expert_span(const Weight *m) {
    uint64_t bytes = (uint64_t)m->rows * m->row_bytes, span = 0;
    for (int e = 0; e < m->experts; e++) {
        uint64_t s = th_read_span(m->file, m->tensor->offset + (uint64_t)e * bytes, bytes);
        if (s > span) span = s;
    }
    return span;
}

static bool check_members(const Weight *const *members, int n, Err *err) {
    for (int i = 0; i < n; i++) {
        if (!th_weight_is_expert(members[i]) || n > MAX_BUNDLE)
            return th_fail(err, THIMBLE_E_STATE, "%s: not a bundle of expert tensors", members[i]->name);
        if (members[i]->experts != members[0]->experts)
            return th_fail(err, THIMBLE_E_FORMAT, "%s has %d experts but %s has %d", members[0]->name,
                           members[0]->experts, members[i]->name, members[i]->experts);
    }
    return true;
}

bool th_weights_bundle(Weights *ws, const Weight *const *members, int n, const Weight **out, Err *err) {
    *out = NULL;
    if (!check_members(members, n, err)) return false;
    Weight *w = th_arena_alloc(&ws->arena, sizeof *w, err);
    BundlePaging *p = w ? th_arena_alloc(&ws->arena, sizeof *p, err) : NULL;
    ExpertState *e = p ? th_arena_array(&ws->arena, (size_t)members[0]->experts, sizeof *e, err) : NULL;
    if (!e) return false;
    *w = *members[0];
    w->tensor = NULL;
    w->bytes = 0;
    w->paging = p;
    w->n_members = n;
    p->expert = e;
    for (int i = 0; i < w->experts; i++) e[i].slot = -1;
    for (int i = 0; i < n; i++) {
        w->member[i] = members[i];
        w->bytes += members[i]->bytes;
        p->member_at[i] = (size_t)p->slot_bytes;
        p->slot_bytes += expert_span(members[i]);
    }
    append(ws, w);
    *out = w;
    return true;
}

/* ---- plan and load --------------------------------------------------------------------------------------------- */

void th_weights_need(const Weights *ws, int experts_used, WeightsNeed *out) { th_plan_need(ws, experts_used, out); }

bool th_weights_plan(Weights *ws, uint64_t bytes, int experts_used, WeightsPlan *out, Err *err) {
    return th_plan_make(ws, bytes, experts_used, out, err);
}

static bool open_readers(Weights *ws, Err *err) {
    const Decision *d = &ws->plan;
    if (!d->n_streamed && !d->paged && !d->row_span) return true;
    if (!th_budget_take(ws->budget, MEM_IO, N_READERS * (uint64_t)READER_BYTES, err)) return false;
    ws->aio_charged = N_READERS * (uint64_t)READER_BYTES;
    if (!ws->direct)
        th_log(ws->options.log, THIMBLE_LOG_NOTICE,
               "%s does not allow direct reads: reading through the page cache and dropping it behind",
               ws->gguf->files[0].path);
    return th_aio_open(&ws->aio, N_READERS, err);
}

/* --slots was given: what became of it. */
static void say_slots(const Weights *ws) {
    int asked = ws->options.slots, n = 0;
    for (int i = 0; i < ws->plan.n_classes; i++) n += ws->plan.slot_class[i].count;
    if (!ws->plan.paged)
        th_log(ws->options.log, THIMBLE_LOG_NOTICE, "%d expert slots were asked for, but no experts are paged here",
               asked);
    else if (n != asked)
        th_log(ws->options.log, THIMBLE_LOG_NOTICE,
               "%d expert slots were asked for, %d are used: %s", asked, n,
               n > asked ? "one more than twice the experts of a token, of each size, is the least"
                         : "that is all experts there are");
}

bool th_weights_load(Weights *ws, Err *err) {
    if (!ws->planned || ws->loaded) return th_fail(err, THIMBLE_E_STATE, "weights are loaded once, after the plan");
    double start = th_sys_seconds();
    bool ok = open_readers(ws, err) && (!ws->plan.mapped || th_mapped_load(ws, err)) && th_paged_open(ws, err) &&
              th_gather_open(ws, err) && th_resident_load(ws, err) && th_stream_open(ws, err);
    if (!ok) {
        unload(ws);
        return false;
    }
    ws->load_s = th_sys_seconds() - start;
    ws->loaded = true;
    if (ws->options.slots > 0) say_slots(ws);
    return true;
}

/* ---- in a pass ------------------------------------------------------------------------------------------------- */

const float *th_weights_f32(const Weight *w) { return (const float *)(const void *)w->memory; }

static const char *row_in_memory(const Weight *w, int row) {
    if (w->memory && (w->home == &th_home_mapped || row / w->part_rows < w->resident_parts))
        return w->memory + (size_t)row * w->row_bytes;
    return NULL;
}

bool th_weights_rows(Weights *ws, const Weight *w, const int32_t *rows, int n, float *dst, Err *err) {
    if (!ws->loaded || !(w->flags & WEIGHT_EMBED))
        return th_fail(err, THIMBLE_E_STATE, "%s: its rows cannot be gathered", w->name);
    for (int i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= w->rows)
            return th_fail(err, THIMBLE_E_ARG, "%s: row %d is outside its %d rows", w->name, rows[i], w->rows);
    for (int i = 0; i < n;) {
        const char *row = row_in_memory(w, rows[i]);
        if (row) {
            w->type->dequantize(dst + (size_t)i * (size_t)w->cols, row, (size_t)w->cols);
            i++;
            continue;
        }
        int end = i + 1;
        while (end < n && !row_in_memory(w, rows[end])) end++;
        if (!th_gather_rows(ws, w, rows + i, end - i, dst + (size_t)i * (size_t)w->cols, err)) return false;
        i = end;
    }
    return true;
}

void th_weights_want(Weights *ws, const Weight *w, const int *parts, int n) {
    if (w->home->want) w->home->want(ws, w, parts, n);
}

void th_weights_guess(Weights *ws, const Weight *w, const int *parts, int n) {
    if (w->home->guess) w->home->guess(ws, w, parts, n);
}

bool th_weights_lookahead(const Weights *ws) { return ws->paged && th_paged_lookahead(ws); }

void th_weights_keep(Weights *ws, const char *prefix) {
    for (Weight *w = ws->first; w; w = w->next)
        if (th_weight_is_dense(w) && !strncmp(w->name, prefix, strlen(prefix))) w->keep = true;
}

int th_weights_resident_rows(const Weight *w) {
    if (w->resident_parts >= w->n_parts || w->home == &th_home_mapped) return w->rows;
    return w->resident_parts * w->part_rows;
}

bool th_weights_ready(const Weights *ws, const Weight *w, int part) {
    return part < w->resident_parts || w->home->ready(ws, w, part);
}

bool th_weights_pin(Weights *ws, const Weight *w, int part, View *view, Err *err) {
    if (!ws->loaded || part < 0 || part >= th_weights_parts(w))
        return th_fail(err, THIMBLE_E_STATE, "%s: part %d of %d cannot be used", w->name, part, th_weights_parts(w));
    return w->home->pin(ws, w, part, view, err);
}

void th_weights_unpin(Weights *ws, View *view) {
    if (view->weight) view->weight->home->unpin(ws, view);
    *view = (View){0};
}

int th_weights_max_pins(const Weights *ws, const Weight *bundle) {
    return ws->paged ? th_paged_max_pins(ws, bundle) : bundle->experts;
}

bool th_weights_check(Weights *ws, Err *err) {
    for (uint32_t i = 0; i < ws->gguf->n_shards; i++)
        if (!th_file_check(&ws->gguf->files[i], err)) return false;
    return true;
}

bool th_weights_read_failed(const Weight *w, const Read *r, Err *err) {
    if (err) *err = r->err;
    return th_err_prefix(err, "%s: ", w->name);
}

void th_weights_stats(const Weights *ws, WeightsStats *out) {
    *out = (WeightsStats){.io_mode = "buffered", .io_backend = "none", .io_bytes = ws->load_bytes};
    if (ws->plan.mapped) out->io_mode = "mapped";
    if (ws->paged) th_paged_stats(ws, out);
    if (!ws->aio) return;
    AioStats io;
    th_aio_stats(ws->aio, &io);
    out->io_mode = ws->direct ? "direct" : "buffered";
    out->io_backend = th_aio_backend(ws->aio);
    out->io_bytes += io.bytes;
    out->io_read_s = io.read_s;
    out->io_stall_s = io.stall_s;
    out->flash_rate = io.busy_s > 0 ? (double)io.bytes / io.busy_s : 0;
}

const void *th_weights_resident(const Weights *ws, size_t *bytes) {
    *bytes = ws->resident ? (size_t)ws->plan.resident_bytes : 0;
    return ws->resident;
}
