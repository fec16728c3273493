/* toy_store.c: see toy_store.h. */
#include "common/toy_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "common/gguf_writer.h"

static void add(GgufWriter *w, const char *name, uint32_t type, uint64_t d0, uint64_t d1, uint64_t d2) {
    const TypeInfo *t = th_type_info(type);
    size_t bytes = d0 / t->block * t->bytes * d1 * d2;
    char *data = malloc(bytes);
    if (!data) abort();
    uint64_t rng[4];
    th_rng_seed(rng, w->n_tensors + 1);
    for (size_t i = 0; i < bytes; i++) data[i] = (char)(th_rng_next(rng) >> 33);
    /* Random halves may be NaN; vectors are compared as numbers. */
    if (type == TYPE_F32)
        for (size_t i = 0; i < bytes / 4; i++) ((float *)(void *)data)[i] = (float)i * 0.25f + 1;
    if (type == TYPE_F16)
        for (size_t i = 0; i < bytes / 2; i++) ((uint16_t *)(void *)data)[i] = th_f32_to_f16((float)(i % 1000) * 0.5f);
    gguf_writer_tensor(w, name, type, d2 > 1 ? 3 : d1 > 1 ? 2 : 1, (uint64_t[]){d0, d1, d2}, data);
    free(data);
}

static void add_layer(GgufWriter *w, const ToyShape *s, int il) {
    char name[64];
    uint64_t dim = (uint64_t)s->dim, ff = (uint64_t)s->ff, eff = (uint64_t)s->expert_ff, x = (uint64_t)s->experts;
#define TOY_NAME(what) (snprintf(name, sizeof name, "blk.%d." what ".weight", il), name)
    add(w, TOY_NAME("attn_norm"), TYPE_F32, dim, 1, 1);
    add(w, TOY_NAME("attn_q"), TYPE_F16, dim, dim, 1);
    add(w, TOY_NAME("ffn_up"), TYPE_Q8_0, dim, ff, 1);
    add(w, TOY_NAME("ffn_down"), TYPE_Q4_K, dim, ff, 1);
    if (!x) return;
    add(w, TOY_NAME("ffn_gate_inp"), TYPE_F16, dim, x, 1);
    add(w, TOY_NAME("ffn_gate_exps"), TYPE_Q4_0, dim, eff, x);
    add(w, TOY_NAME("ffn_up_exps"), TYPE_Q4_0, dim, eff, x);
    add(w, TOY_NAME("ffn_down_exps"), il % 2 ? TYPE_Q8_0 : TYPE_Q4_0, eff, dim, x); /* two sizes of experts */
#undef TOY_NAME
}

void toy_write(Toy *t, const ToyShape *shape) {
    memset(t, 0, sizeof *t);
    t->shape = *shape;
    th_scratch_open(&t->dir);
    snprintf(t->path, sizeof t->path, "%s", th_scratch_path(&t->dir, "toy.gguf"));
    GgufWriter w;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "toy");
    add(&w, "token_embd.weight", TYPE_Q8_0, (uint64_t)shape->dim, (uint64_t)shape->vocab, 1);
    for (int il = 0; il < shape->layers; il++) add_layer(&w, shape, il);
    add(&w, "output_norm.weight", TYPE_F32, (uint64_t)shape->dim, 1, 1);
    if (!shape->tied) add(&w, "output.weight", TYPE_Q6_K, (uint64_t)shape->dim, (uint64_t)shape->vocab, 1);
    if (!gguf_writer_save(&w, t->path)) abort();
    gguf_writer_finish(&w, &t->bytes, &t->len);
    gguf_writer_free(&w);
}

static bool bind_layer(Toy *t, int il, Err *err) {
    char name[64];
    const ToyShape *s = &t->shape;
    Shape mat = {.cols = s->dim, .rows = s->ff}, square = {.cols = s->dim, .rows = s->dim};
    Shape up = {.cols = s->dim, .rows = s->expert_ff, .experts = s->experts};
    Shape down = {.cols = s->expert_ff, .rows = s->dim, .experts = s->experts};
    const Weight *m[3];
#define TOY_FIND(what, shape, flags, out)                                                                              \
    (snprintf(name, sizeof name, "blk.%d." what ".weight", il), th_weights_find(t->ws, name, shape, flags, out, err))
    if (!TOY_FIND("attn_norm", ((Shape){.cols = s->dim, .rows = 1}), WEIGHT_VECTOR, &t->norm[il]) ||
        !TOY_FIND("attn_q", square, 0, &t->q[il]) || !TOY_FIND("ffn_up", mat, 0, &t->up[il]) ||
        !TOY_FIND("ffn_down", mat, 0, &t->down[il]))
        return false;
    if (!s->experts) return true;
    return TOY_FIND("ffn_gate_inp", ((Shape){.cols = s->dim, .rows = s->experts}), WEIGHT_VECTOR, &t->router[il]) &&
           TOY_FIND("ffn_gate_exps", up, WEIGHT_EXPERTS, &m[0]) && TOY_FIND("ffn_up_exps", up, WEIGHT_EXPERTS, &m[1]) &&
           TOY_FIND("ffn_down_exps", down, WEIGHT_EXPERTS, &m[2]) &&
           th_weights_bundle(t->ws, m, 3, &t->bundle[il], err);
#undef TOY_FIND
}

static const MatKernel no_kernel = {.origin = "none"};

bool toy_open(Toy *t, const WeightsOptions *o, int k, Err *err) {
    th_budget_init(&t->budget, UINT64_MAX);
    t->k = k;
    for (int i = 0; i < N_TYPES; i++) t->kernels.mat[i] = &no_kernel;
    if (!th_gguf_open(&t->gguf, t->path, &t->budget, err) ||
        !th_weights_open(&t->ws, &t->gguf, &t->kernels, &t->budget, o, err) ||
        !th_weights_find(t->ws, "token_embd.weight", (Shape){0}, WEIGHT_EMBED, &t->embd, err))
        return false;
    for (int il = 0; il < t->shape.layers; il++)
        if (!bind_layer(t, il, err)) return false;
    return th_weights_find(t->ws, "output_norm.weight", (Shape){0}, WEIGHT_VECTOR, &t->final_norm, err) &&
           th_weights_find(t->ws, t->shape.tied ? "token_embd.weight" : "output.weight", (Shape){0}, 0, &t->head, err);
}

bool toy_load(Toy *t, uint64_t bytes, Err *err) {
    t->planned_from = t->budget.used;
    if (!th_weights_plan(t->ws, bytes, t->k, &t->plan, err)) return false;
    /* Not a byte more than planned, not for a moment. */
    th_budget_limit(&t->budget, t->planned_from + t->plan.resident + t->plan.ring + t->plan.slots + t->plan.io);
    return th_weights_load(t->ws, err);
}

void toy_close(Toy *t) {
    th_weights_close(t->ws);
    t->ws = NULL;
    th_gguf_close(&t->gguf);
    th_budget_free(&t->budget);
}

void toy_remove(Toy *t) {
    th_scratch_close(&t->dir);
    free(t->bytes);
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

static const char *in_file(const Toy *t, const Weight *w) {
    return t->bytes + th_gguf_tensor(&t->gguf, th_weight_name(w))->offset;
}

bool toy_view_equals(Toy *t, const View *v) {
    for (int i = 0; i < MAX_BUNDLE && v->ptr[i]; i++) {
        const Weight *m = th_weights_member(v->weight, i), *w = m ? m : v->weight;
        size_t from = (size_t)(m ? v->part * th_weight_rows(m) : v->row0) * th_weight_row_bytes(w);
        size_t bytes = (size_t)(m ? th_weight_rows(m) : v->rows) * th_weight_row_bytes(w);
        if (memcmp(v->ptr[i], in_file(t, w) + from, bytes) == 0) continue;
        snprintf(t->why, sizeof t->why, "%s: part %d differs from the file", th_weight_name(w), v->part);
        return false;
    }
    return true;
}

bool toy_dense(Toy *t, const Weight *w, Err *err) {
    int row = 0;
    for (int part = 0; part < th_weights_parts(w);) {
        View v;
        if (!th_weights_pin(t->ws, w, part, &v, err)) return false;
        bool same = toy_view_equals(t, &v);
        if (v.row0 != row || v.parts < 1) same = false;
        row += v.rows;
        part += v.parts;
        th_weights_unpin(t->ws, &v);
        if (!same) return false;
    }
    if (row != th_weight_rows(w)) snprintf(t->why, sizeof t->why, "%s: %d rows were covered", th_weight_name(w), row);
    return row == th_weight_rows(w);
}

bool toy_experts(Toy *t, const Weight *bundle, const int *ids, int n, Err *err) {
    th_weights_want(t->ws, bundle, ids, n);
    View v[64];
    bool ok = true;
    int pinned = 0;
    for (; ok && pinned < n; pinned++) {
        ok = th_weights_pin(t->ws, bundle, ids[pinned], &v[pinned], err);
        if (!ok) break;
        ok = toy_view_equals(t, &v[pinned]);
    }
    for (int i = 0; i < pinned; i++) { /* pinned bytes do not change while others arrive */
        if (ok) ok = toy_view_equals(t, &v[i]);
        th_weights_unpin(t->ws, &v[i]);
    }
    return ok;
}

bool toy_rows(Toy *t, const int32_t *rows, int n, Err *err) {
    size_t dim = (size_t)t->shape.dim;
    float *got = malloc((size_t)n * dim * sizeof(float)), *want = malloc(dim * sizeof(float));
    if (!got || !want) abort();
    bool ok = th_weights_rows(t->ws, t->embd, rows, n, got, err);
    for (int i = 0; ok && i < n; i++) {
        const char *row = in_file(t, t->embd) + (size_t)rows[i] * th_weight_row_bytes(t->embd);
        th_weight_type(t->embd)->dequantize(want, row, dim);
        ok = memcmp(want, got + (size_t)i * dim, dim * sizeof(float)) == 0;
        if (!ok) snprintf(t->why, sizeof t->why, "embedding row %d differs", rows[i]);
    }
    free(got);
    free(want);
    return ok;
}

bool toy_vectors(Toy *t) {
    bool ok = true;
    for (int i = 0; i < t->shape.dim; i++)
        ok = ok && th_weights_f32(t->final_norm)[i] == (float)i * 0.25f + 1;
    for (int i = 0; t->shape.experts && i < t->shape.dim * t->shape.experts; i++)
        ok = ok && th_weights_f32(t->router[0])[i] == (float)(i % 1000) * 0.5f;
    if (!ok) snprintf(t->why, sizeof t->why, "a vector differs");
    return ok;
}

static void pick(uint64_t rng[4], int *ids, int n, int among) {
    for (int i = 0; i < n; i++) {
        bool again = true;
        while (again) {
            ids[i] = (int)(th_rng_next(rng) % (uint64_t)among);
            again = false;
            for (int k = 0; k < i; k++) again = again || ids[k] == ids[i];
        }
    }
}

bool toy_pass(Toy *t, uint64_t seed, Err *err) {
    uint64_t rng[4];
    int32_t rows[20];
    int ids[64];
    th_rng_seed(rng, seed);
    for (int i = 0; i < 20; i++) rows[i] = (int32_t)(th_rng_next(rng) % (uint64_t)t->shape.vocab);
    if (!toy_rows(t, rows, 20, err) || !toy_vectors(t)) return false;
    for (int il = 0; il < t->shape.layers; il++) {
        if (!toy_dense(t, t->q[il], err) || !toy_dense(t, t->up[il], err) || !toy_dense(t, t->down[il], err))
            return false;
        if (!t->shape.experts) continue;
        pick(rng, ids, t->k, t->shape.experts);
        if (!toy_experts(t, t->bundle[il], ids, t->k, err)) return false;
        if (il + 1 == t->shape.layers || !th_weights_lookahead(t->ws)) continue;
        pick(rng, ids, t->k, t->shape.experts);
        th_weights_guess(t->ws, t->bundle[il + 1], ids, t->k);
    }
    return toy_dense(t, t->head, err);
}
