/* linear.c: matrix products with weights that may lie anywhere.
 *
 *     prepare x once per form -> { pin part -> its rows on the pool -> unpin }* -> scale, bias
 *
 * A matrix is never needed as one piece: a part is a run of whole rows, and one part is pinned at a time, so the plan's
 * promise about pins in flight costs one slot of the ring. Work is cut by output rows; a kernel's result for one row
 * and one token does not depend on the cut, so neither threads nor parts nor T show in the bits. */
#include <assert.h>

#include "op/op.h"

enum {
    TOKEN_BLOCK_BYTES = 160 * 1024, /* activations that a kernel sweeps per run of rows: they should stay in L2 */
    ROWS_PER_SWEEP = 64,
    INLINE_BYTES = 40 * 1024 /* weights below this are done before another thread would have woken up */
};

void *th_scratch_take(Pass *p, size_t bytes) {
    Scratch *s = p->scratch;
    size_t size = th_scratch_size(bytes);
    assert(size <= s->bytes - s->used); /* the plan asked every block for its need; anything else is a bug */
    void *at = s->base + s->used;
    s->used += size;
    if (s->used > s->peak) s->peak = s->used;
    return at;
}

/* ---- activations ------------------------------------------------------------------------------------------------ */

typedef struct Making {
    void (*make)(void *dst, const float *x, int cols);
    char *dst;
    const float *x;
    size_t x_stride, stride;
    int cols;
} Making;

static void make_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Making *m = arg;
    for (int t = begin; t < end; t++)
        m->make(m->dst + (size_t)t * m->stride, m->x + (size_t)t * m->x_stride, m->cols);
}

const void *th_prepare_form(Pass *p, Prepared *x, ActForm form) {
    if (x->form[form]) return x->form[form];
    size_t stride = th_act_bytes(form, x->cols);
    if (form == ACT_F32 && x->cols % 16 == 0 && x->x_stride % 16 == 0 && (uintptr_t)x->x % 64 == 0) {
        x->form[form] = x->x; /* already what the form says */
        stride = x->x_stride * sizeof(float);
    } else {
        Making m = {p->k->act[form], th_scratch_take(p, stride * (size_t)x->T), x->x, x->x_stride, stride, x->cols};
        if (x->T > 1) th_pool_run(p->pool, make_rows, &m, x->T);
        else make_rows(&m, 0, 0, 1);
        x->form[form] = m.dst;
    }
    x->stride[form] = stride;
    return x->form[form];
}

size_t th_prepare_scratch(int cols, int T) {
    size_t bytes = 0;
    for (int form = 0; form < N_ACT_FORMS; form++)
        bytes += th_scratch_size(th_act_bytes((ActForm)form, cols) * (size_t)T);
    return bytes;
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* Rows [row, row + rows) of one job: tokens in blocks that stay in cache while the rows pass by. */
static void run_rows(const MatJob *j, int row, int rows) {
    float *y = j->y + row;
    const char *w = j->w + (size_t)row * j->stride;
    if (j->T == 1) {
        j->kernel->row1(y, w, j->stride, j->x, j->cols, rows);
        return;
    }
    int block = (int)th_min_size(TOKEN_BLOCK_BYTES / th_act_bytes(j->kernel->act, j->cols), (size_t)j->T);
    block = th_max_int(block & ~7, 8);
    for (int r = 0; r < rows; r += ROWS_PER_SWEEP) {
        int n = th_min_int(ROWS_PER_SWEEP, rows - r);
        for (int t = 0; t < j->T; t += block)
            j->kernel->rows(y + (size_t)t * j->y_stride + r, j->y_stride, w + (size_t)r * j->stride, j->stride,
                            j->x + (size_t)t * j->x_stride, j->x_stride, j->cols, n, th_min_int(block, j->T - t));
    }
}

typedef struct JobList {
    const MatJob *jobs;
    int n;
} JobList;

/* Items are the rows of all jobs, one after another. */
static void run_jobs(void *arg, int worker, int begin, int end) {
    (void)worker;
    const JobList *list = arg;
    for (int i = 0; i < list->n && begin < end; i++) {
        int rows = list->jobs[i].rows;
        if (begin < rows) run_rows(&list->jobs[i], begin, th_min_int(end, rows) - begin);
        begin = th_max_int(begin - rows, 0);
        end -= rows;
    }
}

void th_jobs_run(Pass *p, const MatJob *jobs, int n) {
    JobList list = {jobs, n};
    int rows = 0;
    size_t work = 0;
    for (int i = 0; i < n; i++) {
        rows += jobs[i].rows;
        work += (size_t)jobs[i].rows * jobs[i].stride * (size_t)jobs[i].T;
        p->moved += (size_t)jobs[i].rows * jobs[i].stride;
    }
    if (work < INLINE_BYTES) run_jobs(&list, 0, 0, rows);
    else th_pool_run_grain(p->pool, run_jobs, &list, rows, 16);
}

/* y = y * scale + bias over [T][rows]; either may be NULL. The scale is one value for the whole matrix. */
static void apply_companions(float *y, const Linear *l, int rows, int T) {
    const float *bias = l->bias ? th_weights_f32(l->bias) : NULL;
    float scale = l->scale ? th_weights_f32(l->scale)[0] : 1.0f;
    if (!l->bias && !l->scale) return;
    for (int t = 0; t < T; t++, y += rows) {
        if (l->scale)
            for (int r = 0; r < rows; r++) y[r] *= scale;
        if (bias)
            for (int r = 0; r < rows; r++) y[r] += bias[r];
    }
}

static bool multiply(Pass *p, float *y, const Linear *l, Prepared *x, int n_rows) {
    const Weight *w = l->w;
    const MatKernel *kernel = p->k->mat[th_weight_type(w)->id];
    const void *form = th_prepare_form(p, x, kernel->act);
    int done = 0;
    for (int part = 0; done < n_rows;) {
        View view;
        if (!th_weights_pin(p->ws, w, part, &view, p->err)) return false;
        MatJob job = {.kernel = kernel, .w = view.ptr[0], .stride = th_weight_row_bytes(w), .x = form,
                      .x_stride = x->stride[kernel->act], .y = y + view.row0, .y_stride = (size_t)n_rows,
                      .cols = x->cols, .rows = th_min_int(view.rows, n_rows - done), .T = x->T};
        part += view.parts;
        done += view.rows;
        th_jobs_run(p, &job, 1);
        th_weights_unpin(p->ws, &view);
    }
    apply_companions(y, l, n_rows, x->T);
    return true;
}

bool th_linear_many(Pass *p, float *const *y, const Linear *const *l, int n, const float *x, int T) {
    size_t mark = th_scratch_mark(p);
    int cols = th_weight_cols(l[0]->w);
    Prepared prepared = th_prepared(x, (size_t)cols, cols, T);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = multiply(p, y[i], l[i], &prepared, th_weight_rows(l[i]->w));
    th_scratch_reset(p, mark);
    return ok;
}

bool th_linear_first(Pass *p, float *y, const Linear *l, const float *x, int rows) {
    size_t mark = th_scratch_mark(p);
    int cols = th_weight_cols(l->w);
    Prepared prepared = th_prepared(x, (size_t)cols, cols, 1);
    bool ok = multiply(p, y, l, &prepared, th_min_int(rows, th_weight_rows(l->w)));
    th_scratch_reset(p, mark);
    return ok;
}

bool th_linear_row(Pass *p, float *y, const Linear *l, const float *x, int row) {
    size_t mark = th_scratch_mark(p), stride = th_weight_row_bytes(l->w);
    const MatKernel *kernel = p->k->mat[th_weight_type(l->w)->id];
    Prepared prepared = th_prepared(x, (size_t)th_weight_cols(l->w), th_weight_cols(l->w), 1);
    const void *form = th_prepare_form(p, &prepared, kernel->act);
    View view;
    for (int part = 0; part < th_weights_parts(l->w); part += view.parts) {
        if (!th_weights_pin(p->ws, l->w, part, &view, p->err)) return false;
        bool here = row < view.row0 + view.rows;
        if (here)
            kernel->row1(y, (const char *)view.ptr[0] + (size_t)(row - view.row0) * stride, stride, form,
                         prepared.cols, 1);
        th_weights_unpin(p->ws, &view);
        if (here) break;
    }
    p->moved += stride;
    if (l->scale) *y *= th_weights_f32(l->scale)[0];
    if (l->bias) *y += th_weights_f32(l->bias)[row];
    th_scratch_reset(p, mark);
    return true;
}

bool th_linear(Pass *p, float *y, const Linear *l, const float *x, int T) {
    return th_linear_many(p, &y, &l, 1, x, T);
}
