/* norm.c: root-mean-square norms, row by row. One row is one kernel call, so how rows are shared out cannot show. */
#include "op/op.h"

enum { INLINE_VALUES = 8192 };

typedef struct Norm {
    void (*norm)(float *y, const float *x, const float *w, int n, float eps);
    float *y;
    const float *x, *w;
    int n;
    size_t stride;
    float eps;
} Norm;

static void norm_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Norm *a = arg;
    for (int r = begin; r < end; r++)
        a->norm(a->y + (size_t)r * a->stride, a->x + (size_t)r * a->stride, a->w, a->n, a->eps);
}

void th_rms_norm_apart(Pass *p, float *y, const float *x, const float *w, int n, size_t stride, int rows, float eps) {
    Norm a = {p->k->vec.rms_norm, y, x, w, n, stride, eps};
    if ((size_t)n * (size_t)rows <= INLINE_VALUES) norm_rows(&a, 0, 0, rows);
    else th_pool_run_grain(p->pool, norm_rows, &a, rows, INLINE_VALUES / 4 / n + 1);
}

void th_rms_norm(Pass *p, float *y, const float *x, const float *w, int n, int rows, float eps) {
    th_rms_norm_apart(p, y, x, w, n, (size_t)n, rows, eps);
}
