/* heads.c: products with a matrix per head, all in one tensor, head after head (latent attention).
 *
 * Like linear.c: part after part is pinned, work is cut by output rows; a part may begin and end within a head. The
 * turned form multiplies with the transposed matrix of each head: rows join the sums in ascending order, so that
 * neither parts nor threads (which share out heads) nor T show in the bits. */
#include "op/op.h"

enum { HEADS_AT_ONCE = 32 };

/* The rows of head h that a view holds: [first, first + n) of the whole matrix. */
typedef struct HeadPiece {
    int head, first, n;
} HeadPiece;

/* Pieces of the heads in a view, from *head on; at most HEADS_AT_ONCE, *head moves on. */
static int take_pieces(const HeadRows *h, const View *view, int *head, HeadPiece *pieces) {
    int n = 0, end = view->row0 + view->rows;
    for (; *head < h->H && *head * h->per_head < end && n < HEADS_AT_ONCE; ++*head) {
        int begin = *head * h->per_head + h->first;
        HeadPiece piece = {*head, th_max_int(begin, view->row0), 0};
        piece.n = th_min_int(begin + h->n, end) - piece.first;
        if (piece.n > 0) pieces[n++] = piece;
    }
    return n;
}

/* scale: one value, or one per head. */
static void apply_head_companions(float *y, size_t y_stride, const Linear *l, const HeadRows *h, int n, bool turned,
                                  int T) {
    const float *scale = l->scale ? th_weights_f32(l->scale) : NULL, *bias = l->bias ? th_weights_f32(l->bias) : NULL;
    bool per_head = scale && (int64_t)th_weight_cols(l->scale) * th_weight_rows(l->scale) > 1;
    if (!scale && !bias) return;
    for (int i = 0; i < T * h->H; i++, y += y_stride) {
        int head = i % h->H;
        const float *b = bias && !turned ? bias + (size_t)head * (size_t)h->per_head + h->first : NULL;
        if (scale)
            for (int r = 0; r < n; r++) y[r] *= scale[per_head ? head : 0];
        if (b)
            for (int r = 0; r < n; r++) y[r] += b[r];
    }
}

bool th_linear_heads(Pass *p, float *y, size_t y_stride, const Linear *l, const HeadRows *h, const float *x,
                     size_t x_stride, int T) {
    size_t mark = th_scratch_mark(p), H = (size_t)h->H, stride = th_weight_row_bytes(l->w);
    const MatKernel *kernel = p->k->mat[th_weight_type(l->w)->id];
    Prepared prepared = th_prepared(x, x_stride, th_weight_cols(l->w), T * h->H);
    const char *form = th_prepare_form(p, &prepared, kernel->act);
    size_t form_stride = prepared.stride[kernel->act];
    for (int part = 0; part < th_weights_parts(l->w);) {
        View view;
        if (!th_weights_pin(p->ws, l->w, part, &view, p->err)) return false;
        part += view.parts;
        HeadPiece pieces[HEADS_AT_ONCE];
        MatJob jobs[HEADS_AT_ONCE];
        for (int head = view.row0 / h->per_head, n; (n = take_pieces(h, &view, &head, pieces)) > 0;) {
            for (int i = 0; i < n; i++) {
                const HeadPiece *a = &pieces[i];
                jobs[i] = (MatJob){.kernel = kernel,
                                   .w = (const char *)view.ptr[0] + (size_t)(a->first - view.row0) * stride,
                                   .stride = stride,
                                   .x = form + (size_t)a->head * form_stride,
                                   .x_stride = H * form_stride,
                                   .y = y + (size_t)a->head * y_stride + (a->first - a->head * h->per_head - h->first),
                                   .y_stride = H * y_stride,
                                   .cols = prepared.cols,
                                   .rows = a->n,
                                   .T = T};
            }
            th_jobs_run(p, jobs, n);
        }
        th_weights_unpin(p->ws, &view);
    }
    apply_head_companions(y, y_stride, l, h, h->n, false, T);
    th_scratch_reset(p, mark);
    return true;
}

typedef struct Turned {
    const Pass *p;
    const HeadRows *h;
    const Weight *w;
    const View *view;
    const HeadPiece *pieces;
    float *rows; /* [threads][cols] */
    float *y;
    const float *x;
    size_t y_stride, x_stride;
    int T;
} Turned;

/* Row after row joins the sums of all tokens, ascending. */
static void turned_pieces(void *arg, int worker, int begin, int end) {
    const Turned *j = arg;
    int cols = th_weight_cols(j->w);
    size_t stride = th_weight_row_bytes(j->w), H = (size_t)j->h->H;
    float *row = j->rows + (size_t)worker * (((size_t)cols + 15) & ~(size_t)15);
    for (int i = begin; i < end; i++) {
        const HeadPiece *a = &j->pieces[i];
        const float *x = j->x + (size_t)a->head * j->x_stride + (a->first - a->head * j->h->per_head - j->h->first);
        for (int r = 0; r < a->n; r++) {
            const char *w = (const char *)j->view->ptr[0] + (size_t)(a->first - j->view->row0 + r) * stride;
            th_weight_type(j->w)->dequantize(row, w, (size_t)cols);
            for (int t = 0; t < j->T; t++)
                j->p->k->vec.axpy_f32(j->y + ((size_t)t * H + (size_t)a->head) * j->y_stride,
                                      x[(size_t)t * H * j->x_stride + (size_t)r], row, cols);
        }
    }
}

size_t th_linear_heads_turned_scratch(int cols, int threads) {
    return th_scratch_f32_size((size_t)threads * (((size_t)cols + 15) & ~(size_t)15));
}

bool th_linear_heads_turned(Pass *p, float *y, size_t y_stride, const Linear *l, const HeadRows *h, const float *x,
                            size_t x_stride, int T) {
    size_t mark = th_scratch_mark(p);
    int cols = th_weight_cols(l->w), threads = th_pool_threads(p->pool);
    Turned j = {.p = p,
                .h = h,
                .w = l->w,
                .y = y,
                .x = x,
                .y_stride = y_stride,
                .x_stride = x_stride,
                .T = T,
                .rows = th_scratch_take(p, th_linear_heads_turned_scratch(cols, threads))};
    for (int i = 0; i < T * h->H; i++) memset(y + (size_t)i * y_stride, 0, (size_t)cols * sizeof *y);
    for (int part = 0; part < th_weights_parts(l->w);) {
        View view;
        if (!th_weights_pin(p->ws, l->w, part, &view, p->err)) return false;
        part += view.parts;
        HeadPiece pieces[HEADS_AT_ONCE];
        j.view = &view;
        j.pieces = pieces;
        for (int head = view.row0 / h->per_head, n; (n = take_pieces(h, &view, &head, pieces)) > 0;) {
            for (int i = 0; i < n; i++) p->moved += (size_t)pieces[i].n * th_weight_row_bytes(l->w);
            th_pool_run_grain(p->pool, turned_pieces, &j, n, 1);
        }
        th_weights_unpin(p->ws, &view);
    }
    apply_head_companions(y, y_stride, l, h, cols, true, T);
    th_scratch_reset(p, mark);
    return true;
}
