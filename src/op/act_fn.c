/* act_fn.c: element-wise functions over whole activations. Every element is independent of its neighbours, so pieces
 * may be cut anywhere. */
#include "kernel/vec_math.h"
#include "op/op.h"

enum { PIECE = 2048, INLINE_PIECES = 2 };

typedef struct Elements {
    const Kernels *k;
    float *y;
    const float *x;
    size_t n, stride;
    int pieces_per_row, act_fn;
    float a;
} Elements;

static size_t piece_size(const Elements *e, int piece) { return th_min_size(PIECE, e->n - (size_t)piece * PIECE); }

/* g * sigmoid(1.702 g) * (u + 1) = silu(1.702 g) * ((u + 1) / 1.702): the kernel for silu does the rest. */
static void clamped(const Kernels *k, float *gate, const float *up, int n) {
    enum { N = 128 };
    const float alpha = 1.702f, limit = 7.0f;
    float factor[N];
    for (int at = 0; at < n; at += N) {
        int count = th_min_int(N, n - at);
        for (int i = 0; i < count; i++) {
            float g = gate[at + i], u = up[at + i];
            u = u > limit ? limit : u < -limit ? -limit : u;
            gate[at + i] = (g > limit ? limit : g) * alpha;
            factor[i] = (u + 1.0f) / alpha;
        }
        k->vec.silu_mul(gate + at, factor, count);
    }
}

/* silu(gate) is cut above, up on both sides; NaN stays. */
static void limited(const Kernels *k, float *gate, const float *up, float limit, int n) {
    enum { N = 128 };
    float one[N];
    for (int i = 0; i < N; i++) one[i] = 1;
    for (int at = 0; at < n; at += N) {
        int count = th_min_int(N, n - at);
        k->vec.silu_mul(gate + at, one, count);
        for (int i = 0; i < count; i++) {
            float g = gate[at + i], u = up[at + i];
            u = u > limit ? limit : u < -limit ? -limit : u;
            gate[at + i] = (g > limit ? limit : g) * u;
        }
    }
}

static void act_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Elements *e = arg;
    for (int i = begin; i < end; i++) {
        int row = i / e->pieces_per_row, piece = i % e->pieces_per_row;
        size_t at = (size_t)row * e->stride + (size_t)piece * PIECE;
        int n = (int)piece_size(e, piece);
        if (e->a > 0) limited(e->k, e->y + at, e->x + at, e->a, n);
        else if (e->act_fn == ACT_FN_GELU) e->k->vec.gelu_mul(e->y + at, e->x + at, n);
        else if (e->act_fn == ACT_FN_CLAMPED) clamped(e->k, e->y + at, e->x + at, n);
        else e->k->vec.silu_mul(e->y + at, e->x + at, n);
    }
}
static void add_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Elements *e = arg;
    for (int i = begin; i < end; i++)
        e->k->vec.add(e->y + (size_t)i * PIECE, e->x + (size_t)i * PIECE, (int)piece_size(e, i));
}
static void scale_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Elements *e = arg;
    for (int i = begin; i < end; i++) e->k->vec.scale(e->y + (size_t)i * PIECE, e->a, (int)piece_size(e, i));
}
static void softcap_pieces(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Elements *e = arg;
    for (int i = begin; i < end; i++) {
        float *y = e->y + (size_t)i * PIECE;
        for (size_t j = 0, n = piece_size(e, i); j < n; j++) y[j] = th_tanh_capped(y[j], e->a);
    }
}

static void run_pieces(Pass *p, PoolFn fn, Elements *e, int rows) {
    e->k = p->k;
    e->pieces_per_row = (int)((e->n + PIECE - 1) / PIECE);
    int n = e->pieces_per_row * rows;
    if (n <= INLINE_PIECES) fn(e, 0, 0, n);
    else th_pool_run(p->pool, fn, e, n);
}

void th_act_mul(Pass *p, int act_fn, float *gate, const float *up, int n, size_t stride, int T) {
    Elements e = {.y = gate, .x = up, .n = (size_t)n, .stride = stride, .act_fn = act_fn};
    run_pieces(p, act_pieces, &e, T);
}
void th_silu_mul_limited(Pass *p, float *gate, const float *up, float limit, int n, size_t stride, int T) {
    Elements e = {.y = gate, .x = up, .n = (size_t)n, .stride = stride, .a = limit};
    run_pieces(p, act_pieces, &e, T);
}
void th_add(Pass *p, float *y, const float *x, size_t n) {
    Elements e = {.y = y, .x = x, .n = n};
    run_pieces(p, add_pieces, &e, 1);
}
void th_scale(Pass *p, float *y, float a, size_t n) {
    Elements e = {.y = y, .n = n, .a = a};
    run_pieces(p, scale_pieces, &e, 1);
}
void th_softcap(Pass *p, float *y, float cap, size_t n) {
    Elements e = {.y = y, .n = n, .a = cap};
    run_pieces(p, softcap_pieces, &e, 1);
}

typedef struct Copy {
    float *to;
    const float *from;
    size_t n, from_stride;
} Copy;

static void copy_some(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Copy *c = arg;
    for (int r = begin; r < end; r++)
        memcpy(c->to + (size_t)r * c->n, c->from + (size_t)r * c->from_stride, c->n * sizeof *c->to);
}

void th_copy_rows(Pass *p, float *to, const float *from, int n, size_t from_stride, int rows) {
    Copy c = {to, from, (size_t)n, from_stride};
    if (c.n * (size_t)rows <= 4 * (size_t)PIECE) copy_some(&c, 0, 0, rows);
    else th_pool_run(p->pool, copy_some, &c, rows);
}
