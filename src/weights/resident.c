/* resident.c: weights that stay: one region for all of them, filled once at load.
 *
 *   place     place
 *   |norm f32 |attn_q, all rows      |ffn_up, first 3 parts |norm f32 |...      64-byte steps, in running order
 *
 * Read through the page cache: a second start then finds the bytes there, and pieces may lie at any address. Vectors
 * become f32 here, because everybody who uses them wants that. */
#include "weights/home.h"

#include <string.h>

enum { CHUNK_BYTES = 4 * 1024 * 1024, SMALL_CHUNK = 8 * 1024 };

typedef struct Progress {
    const ThimbleProgress *host;
    uint64_t done, total;
} Progress;

static bool step(Progress *p, uint64_t bytes, Err *err) {
    p->done += bytes;
    if (p->host && p->host->fn && p->host->fn(p->host->arg, THIMBLE_PHASE_LOAD, p->done, p->total) != 0)
        return th_fail(err, THIMBLE_E_CANCELLED, "loading was cancelled");
    return true;
}

static bool read_plain(const Weight *w, char *to, uint64_t bytes, Progress *p, Err *err) {
    for (uint64_t done = 0; done < bytes;) {
        size_t n = bytes - done < CHUNK_BYTES ? (size_t)(bytes - done) : CHUNK_BYTES;
        if (!th_file_read(w->file, to + done, n, w->tensor->offset + done, err))
            return th_err_prefix(err, "%s: ", w->name);
        done += n;
        if (!step(p, n, err)) return false;
    }
    return true;
}

static bool read_vector(const Weight *w, float *to, Progress *p, Err *err) {
    if (w->type->id == TYPE_F32) return read_plain(w, (char *)to, w->bytes, p, err);
    char blocks[SMALL_CHUNK];
    size_t at_once = SMALL_CHUNK / w->type->bytes * w->type->bytes;
    for (uint64_t done = 0; done < w->bytes;) {
        size_t n = w->bytes - done < at_once ? (size_t)(w->bytes - done) : at_once;
        if (!th_file_read(w->file, blocks, n, w->tensor->offset + done, err))
            return th_err_prefix(err, "%s: ", w->name);
        size_t values = n / w->type->bytes * w->type->block;
        w->type->dequantize(to, blocks, values);
        to += values;
        done += n;
    }
    return step(p, w->bytes, err);
}

/* Bytes of the file that stay. */
static uint64_t kept_bytes(const Weight *w) {
    if (th_weight_is_bundle(w)) return 0;
    if (th_weight_is_vector(w)) return w->bytes;
    return th_weight_is_expert(w) ? (w->resident_parts ? w->bytes : 0) : th_parts_bytes(w, w->resident_parts);
}

bool th_resident_load(Weights *ws, Err *err) {
    Progress p = {.host = ws->options.progress};
    uint64_t bytes = ws->plan.resident_bytes;
    for (const Weight *w = ws->first; w; w = w->next) p.total += kept_bytes(w);
    if (bytes == 0) return true;
    if (bytes > SIZE_MAX) return th_fail(err, THIMBLE_E_NOMEM, "the weights are larger than an address space");
    ws->resident = th_vm_alloc(ws->budget, MEM_RESIDENT, (size_t)bytes, th_weights_huge(bytes), err);
    if (!ws->resident) return false;
    for (Weight *w = ws->first; w; w = w->next) {
        uint64_t kept = kept_bytes(w);
        if (!kept) continue;
        char *to = (char *)ws->resident + w->place;
        w->memory = to;
        if (th_weight_is_vector(w) ? !read_vector(w, (float *)(void *)to, &p, err) : !read_plain(w, to, kept, &p, err))
            return false;
    }
    ws->load_bytes = p.done;
    return true;
}

void th_resident_close(Weights *ws) {
    uint64_t bytes = ws->plan.resident_bytes;
    th_vm_free(ws->budget, MEM_RESIDENT, ws->resident, (size_t)bytes, th_weights_huge(bytes));
    ws->resident = NULL;
}

bool th_memory_pin(const Weight *w, int n_there, int part, View *view) {
    *view = (View){.weight = w, .part = part, .parts = 1, .rows = w->rows};
    if (th_weight_is_bundle(w)) {
        for (int i = 0; i < w->n_members; i++) {
            const Weight *m = w->member[i];
            view->ptr[i] = m->memory + (size_t)part * (size_t)m->rows * m->row_bytes;
        }
        return true;
    }
    view->row0 = part * w->part_rows;
    view->parts = n_there - part;
    view->rows = (n_there == w->n_parts ? w->rows : n_there * w->part_rows) - view->row0;
    view->ptr[0] = w->memory + (size_t)view->row0 * w->row_bytes;
    return true;
}

void th_memory_unpin(Weights *ws, View *view) { (void)ws, (void)view; }

bool th_memory_ready(const Weights *ws, const Weight *w, int part) {
    (void)ws, (void)w, (void)part;
    return true;
}

static bool pin(Weights *ws, const Weight *w, int part, View *view, Err *err) {
    (void)ws, (void)err;
    return th_memory_pin(w, w->resident_parts, part, view);
}

const HomeOps th_home_resident = {.name = "resident", .pin = pin, .unpin = th_memory_unpin, .ready = th_memory_ready};
