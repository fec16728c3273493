/* rope.c: rotary position embedding (architectures specification, section 3).
 *
 * Frequencies are made once in binary64, with factors and scaling applied; a pass makes one table of cosines and sines
 * for its positions, also from binary64 angles, and all layers that share the Rope read it. A value depends on its
 * position and pair alone. */
#include <math.h>

#include "op/op.h"

static const double TWO_PI = 6.283185307179586476925286766559;

/* The pair index at which n turns fit into the original context. */
static double turn_pair(const RopeNumbers *n, double turns) {
    return n->dims * log(n->n_ctx_orig / (turns * TWO_PI)) / (2 * log(n->base));
}

bool th_rope_init(Rope *r, const RopeNumbers *n, double *freq, Err *err) {
    *r = (Rope){.kind = n->kind, .dims = n->dims, .freq = freq, .magnitude = (float)n->attn_factor};
    if (n->kind == ROPE_MROPE || n->kind == ROPE_IMROPE) memcpy(r->sections, n->sections, sizeof r->sections);
    double low = 0, high = 0;
    if (n->ext != 0) {
        low = fmax(0, floor(turn_pair(n, n->beta_fast)));
        high = fmin(n->dims - 1, ceil(turn_pair(n, n->beta_slow)));
        if (n->yarn_magnitude && n->freq_scale < 1)
            r->magnitude = (float)((0.1 * log(1 / n->freq_scale) + 1) * n->attn_factor);
    }
    for (int i = 0; i < n->dims / 2; i++) {
        double theta = pow(n->base, -2.0 * i / n->dims) / (n->factors ? (double)n->factors[i] : 1.0);
        freq[i] = n->freq_scale * theta;
        if (n->ext != 0) {
            double mix = (1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)))) * n->ext;
            freq[i] = n->freq_scale * theta * (1 - mix) + theta * mix;
        }
        if (!isfinite(freq[i]))
            return th_fail(err, THIMBLE_E_FORMAT, "rotary embedding: the angle of pair %d is not a finite number", i);
    }
    if (!isfinite(r->magnitude))
        return th_fail(err, THIMBLE_E_FORMAT, "rotary embedding: the magnitude is not a finite number");
    return true;
}

/* Which of the four positions pair i follows. */
static int section_of(const Rope *r, int i) {
    const int *s = r->sections;
    int sum = s[0] + s[1] + s[2] + s[3];
    if (sum == 0) return 0;
    int k = i % sum;
    if (r->kind == ROPE_IMROPE) return k < 3 * s[k % 3] ? k % 3 : 3;
    return k < s[0] ? 0 : k < s[0] + s[1] ? 1 : k < s[0] + s[1] + s[2] ? 2 : 3;
}

void th_rope_angles(float *cs, const Rope *r, const int position[4]) {
    for (int i = 0; i < r->dims / 2; i++) {
        double phi = position[section_of(r, i)] * r->freq[i];
        cs[2 * i] = (float)cos(phi) * r->magnitude;
        cs[2 * i + 1] = (float)sin(phi) * r->magnitude;
    }
}

typedef struct Table {
    const Pass *p;
    const Rope *r;
    float *cs;
} Table;

static void table_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Table *a = arg;
    for (int t = begin; t < end; t++) {
        int at = a->p->rows[t].position;
        th_rope_angles(a->cs + (size_t)t * (size_t)a->r->dims, a->r, (int[]){at, at, at, 0});
    }
}

const float *th_rope_table(Pass *p, const Rope *r) {
    Table a = {p, r, th_scratch_f32(p, (size_t)p->T * (size_t)r->dims)};
    if (p->T == 1) table_rows(&a, 0, 0, 1);
    else th_pool_run(p->pool, table_rows, &a, p->T);
    return a.cs;
}

typedef struct Rotation {
    const Rope *r;
    const float *cs;
    float *x;
    int heads, head_stride;
} Rotation;

static void rotate_head(float *x, const float *cs, const Rope *r) {
    int pairs = r->dims / 2, step = r->kind == ROPE_NORM ? 2 : 1, other = r->kind == ROPE_NORM ? 1 : pairs;
    for (int i = 0; i < pairs; i++) {
        float *a = x + (size_t)i * (size_t)step, *b = a + other;
        float c = cs[2 * i], s = cs[2 * i + 1], a0 = *a, b0 = *b;
        *a = a0 * c - b0 * s;
        *b = a0 * s + b0 * c;
    }
}

static void rotate_rows(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Rotation *a = arg;
    for (int t = begin; t < end; t++)
        for (int h = 0; h < a->heads; h++)
            rotate_head(a->x + ((size_t)t * (size_t)a->heads + (size_t)h) * (size_t)a->head_stride,
                        a->cs + (size_t)t * (size_t)a->r->dims, a->r);
}

void th_rope(Pass *p, int which, float *x, int heads, int head_stride) {
    Rotation a = {p->rope[which], p->rope_cs[which], x, heads, head_stride};
    if (a.r->kind == ROPE_NONE || a.r->dims == 0) return;
    if (p->T < 4) rotate_rows(&a, 0, 0, p->T);
    else th_pool_run(p->pool, rotate_rows, &a, p->T);
}
