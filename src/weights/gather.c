/* gather.c: rows of an embedding that is not in memory: a small read each, several at the same time.
 *
 *   lane 0 [row]  lane 1 [row] ...     row i passes through lane i mod 8, in order
 *
 * A token needs one row of a matrix that may be hundreds of megabytes; keeping or streaming it would be waste. */
#include <string.h>

#include "weights/home.h"

struct Gather {
    uint64_t row_span;
    char *memory;
    Read read[GATHER_LANES];
};

uint64_t th_gather_bytes(uint64_t row_span) {
    return sizeof(Gather) + th_vm_rounded((size_t)(GATHER_LANES * row_span), false);
}

bool th_gather_open(Weights *ws, Err *err) {
    uint64_t span = ws->plan.row_span;
    if (!span) return true;
    Gather *g = ws->gather = th_mem_alloc(ws->budget, MEM_IO, sizeof *g, 16, err);
    if (!g) return false;
    g->row_span = span;
    g->memory = th_vm_alloc(ws->budget, MEM_IO, (size_t)(GATHER_LANES * span), false, err);
    return g->memory != NULL;
}

void th_gather_close(Weights *ws) {
    Gather *g = ws->gather;
    if (!g) return;
    th_vm_free(ws->budget, MEM_IO, g->memory, (size_t)(GATHER_LANES * g->row_span), false);
    th_mem_free(ws->budget, MEM_IO, g, sizeof *g);
    ws->gather = NULL;
}

static void submit_row(Weights *ws, const Weight *w, int row, int lane) {
    Read *r = &ws->gather->read[lane];
    *r = (Read){.file = w->file,
                .offset = w->tensor->offset + (uint64_t)row * w->row_bytes,
                .bytes = w->row_bytes,
                .buffer = ws->gather->memory + (uint64_t)lane * ws->gather->row_span,
                .priority = AIO_DEMAND};
    th_aio_submit(ws->aio, r);
}

bool th_gather_rows(Weights *ws, const Weight *w, const int32_t *rows, int n, float *dst, Err *err) {
    int submitted = 0;
    bool ok = true;
    for (int i = 0; i < n && (ok || i < submitted); i++) {
        for (; ok && submitted < n && submitted < i + GATHER_LANES; submitted++)
            submit_row(ws, w, rows[submitted], submitted % GATHER_LANES);
        /* After a failure only those on their way are waited for: they write into the lanes. */
        const Read *r = &ws->gather->read[i % GATHER_LANES];
        th_aio_wait(ws->aio, r);
        if (ok && r->err.code) ok = th_weights_read_failed(w, r, err);
        const char *row = (const char *)r->buffer + r->skip;
        if (ok) w->type->dequantize(dst + (size_t)i * (size_t)w->cols, row, (size_t)w->cols);
    }
    return ok;
}
