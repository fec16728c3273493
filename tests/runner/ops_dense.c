/* ops_dense.c: rotary embedding, attention, routing, activations and norms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/vec_math.h"
#include "runner/ops.h"

/* ---- rope
 * ------------------------------------------------------------------------------------------------------------- */

/* The number, or what the set takes for granted. */
static double real_or(const json_t *c, const char *key, double otherwise) {
    return json_object_get(c, key) ? ops_real(c, key) : otherwise;
}

static void read_rope(const json_t *c, RopeNumbers *n, const float *factors) {
    const char *kind = ops_text(c, "kind");
    *n = (RopeNumbers){.dims = ops_int(c, "R"),
                       .base = ops_real(c, "base"),
                       .freq_scale = 1,
                       .attn_factor = real_or(c, "attn_factor", 1),
                       .beta_fast = real_or(c, "beta_fast", 32),
                       .beta_slow = real_or(c, "beta_slow", 1),
                       .factors = factors};
    n->kind = !strcmp(ops_text(c, "layout"), "norm") ? ROPE_NORM : ROPE_NEOX;
    if (!strcmp(kind, "imrope")) n->kind = ROPE_IMROPE;
    if (!strcmp(kind, "mrope")) n->kind = ROPE_MROPE;
    if (json_object_get(c, "factor")) n->freq_scale = 1 / ops_real(c, "factor");
    if (!strcmp(kind, "yarn")) {
        n->ext = real_or(c, "ext_factor", 1);
        n->yarn_magnitude = true, n->n_ctx_orig = ops_int(c, "original_context");
    }
    const json_t *sections = json_object_get(c, "sections");
    for (size_t i = 0; i < 4 && i < json_array_size(sections); i++)
        n->sections[i] = (int)json_integer_value(json_array_get(sections, i));
}

static void rope_case(Ops *o, const json_t *c, size_t index, Tally *t) {
    size_t D, n_factors;
    float *x = ops_floats(json_object_get(c, "x"), &D), *factors = ops_floats(json_object_get(c, "ff"), &n_factors);
    RopeNumbers numbers;
    read_rope(c, &numbers, factors);
    double freq[512], off = INFINITY;
    Rope r;
    float cs[1024];
    int at[4] = {ops_int(c, "pos"), ops_int(c, "pos"), ops_int(c, "pos"), 0};
    for (size_t i = 0; i < json_array_size(json_object_get(c, "pos4")) && i < 4; i++)
        at[i] = (int)json_integer_value(json_array_get(json_object_get(c, "pos4"), i));
    bool sane = x && numbers.dims <= (int)D && numbers.dims <= 1024 && (!factors || (int)n_factors >= numbers.dims / 2);
    if (sane && th_rope_init(&r, &numbers, freq, &o->err)) {
        ops_rows(o, at[0], 1);
        th_rope_angles(cs, &r, at);
        o->pass.rope[0] = &r;
        o->pass.rope_cs[0] = cs;
        th_rope(&o->pass, 0, x, 1, (int)D);
        off = ops_difference(x, D, json_object_get(c, "y"));
    }
    char name[64];
    snprintf(name, sizeof name, "%s %zu", ops_text(c, "kind"), index);
    ops_judge(t, "rope", name, "rotated", off, at[0] < 32767 ? 1e-6 * 10 : 1e-4);
    free(x);
    free(factors);
}

void ops_rope(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "rope: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) rope_case(&o, json_array_get(cases, i), i, t);
    ops_close(&o);
}

/* ---- attention
 * -------------------------------------------------------------------------------------------------------- */

/* S positions in two passes: those before the queries are stored only. */
static void attention_case(Ops *o, const json_t *c, Tally *t) {
    int T = ops_int(c, "T"), S = ops_int(c, "S");
    AttendSpec a = {.H = ops_int(c, "H"),
                    .Hk = ops_int(c, "Hk"),
                    .D = ops_int(c, "D"),
                    .Dv = (int)real_or(c, "Dv", ops_int(c, "D")),
                    .cache_type = THIMBLE_CACHE_F32,
                    .window = ops_int(c, "window"),
                    .scale = (float)ops_real(c, "scale"),
                    .softcap = (float)ops_real(c, "softcap")};
    if (T < 1 || S < T || S > OPS_ROWS || a.Hk < 1 || a.H < a.Hk || a.D < 1 || a.D > 512 ||
        a.Dv < 1 || a.Dv > 512) {
        tally_fail(t, "attention: %d of %d positions", T, S);
        return;
    }
    size_t nq = (size_t)(T * a.H * a.D), nk = (size_t)(S * a.Hk * a.D), nv = (size_t)(S * a.Hk * a.Dv);
    size_t no = (size_t)(T * a.H * a.Dv), n_sinks, n_gate;
    float *q = ops_member(t, c, "q", nq), *k = ops_member(t, c, "k", nk), *v = ops_member(t, c, "v", nv);
    float *sinks = ops_floats(json_object_get(c, "sinks"), &n_sinks),
          *gate = ops_floats(json_object_get(c, "gate"), &n_gate);
    float *cells = calloc(nk + nv, sizeof *cells), *out = calloc(no, sizeof *out);
    a.sinks = (int)n_sinks == a.H ? sinks : NULL;
    if (q && k && v && cells && out) {
        KvCache cache[OPS_ROWS];
        for (int i = 0; i < S; i++) cache[i] = (KvCache){.k = (char *)cells, .v = (char *)(cells + nk), .n_cells = S};
        ops_rows(o, 0, S);
        th_attend_store(&o->pass, &a, cache, k, v);
        ops_rows(o, S - T, T);
        th_attend(&o->pass, &a, cache, out, q);
        int width = a.H * a.Dv;
        if (gate && n_gate == no) th_sigmoid_mul(&o->pass, out, (size_t)width, gate, (size_t)width, width, T);
        const json_t *want = json_object_get(c, "o");
        ops_judge(t, "attention", ops_text(c, "name"), "output", ops_difference(out, no, want),
                  2e-5 * ops_largest(want));
    }
    free(q), free(k), free(v), free(sinks), free(gate), free(cells), free(out);
}

void ops_attention(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "attention: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) attention_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}

/* ---- routing
 * ---------------------------------------------------------------------------------------------------------- */

static void routing_case(const json_t *c, Tally *t) {
    enum { MOST = 1024 };
    size_t X, n_bias;
    float *logits = ops_floats(json_object_get(c, "logits"), &X),
          *bias = ops_floats(json_object_get(c, "bias"), &n_bias);
    RouteSpec r = {.X = (int)X,
                   .K = ops_int(c, "k"),
                   .gating = ops_int(c, "gating"),
                   .groups = ops_int(c, "groups"),
                   .groups_used = ops_int(c, "groups_used"),
                   .norm = json_is_true(json_object_get(c, "norm")),
                   .weight_scale = (float)ops_real(c, "scale"),
                   .bias = n_bias == X ? bias : NULL};
    const json_t *selected = json_object_get(c, "selected"), *weights = json_object_get(c, "weights");
    if (!logits || X > MOST || r.K < 1 || r.K > (int)X || json_array_size(selected) != (size_t)r.K) {
        tally_fail(t, "moe_routing: %d of %zu experts", r.K, X);
    } else {
        int ids[MOST];
        float w[MOST], tmp[4 * MOST];
        uint64_t changed = 0;
        double off = 0;
        th_route(&r, logits, NULL, 0, ids, w, tmp, &changed);
        for (int i = 0; i < r.K; i++) {
            int id = (int)json_integer_value(json_array_get(selected, (size_t)i)), at = 0;
            double want = json_number_value(json_array_get(weights, (size_t)i));
            while (at < r.K && ids[at] != id) at++;
            off = fmax(off, at < r.K ? fabs((double)w[at] - want) / fmax(fabs(want), 1e-30) : INFINITY);
        }
        ops_judge(t, "moe_routing", ops_text(c, "name"), "experts and weights", off, 1e-5);
    }
    free(logits);
    free(bias);
}

void ops_moe_routing(const json_t *set, Tally *t) {
    const json_t *cases = json_object_get(set, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) routing_case(json_array_get(cases, i), t);
}

/* ---- activations and norms
 * ---------------------------------------------------------------------------------------------- */

static void judge_relative(Tally *t, const char *set, const json_t *o, const char *key, const float *got, size_t n) {
    if (json_object_get(o, key))
        ops_judge(t, set, key, "values", ops_relative(got, n, json_object_get(o, key), 1e-6), 1e-5);
}

void ops_activations(const json_t *set, Tally *t) {
    size_t n, n_up;
    float *x = ops_floats(json_object_get(set, "x"), &n), *u = ops_floats(json_object_get(set, "u"), &n_up);
    float *y = n ? malloc(n * sizeof *y) : NULL, *one = n ? malloc(n * sizeof *one) : NULL;
    Ops o;
    if (!ops_open(&o) || !y || !one || n_up != n) {
        tally_fail(t, "activations: no x and u");
        return;
    }
    for (size_t i = 0; i < n; i++) one[i] = 1;
    const struct {
        const char *key;
        int fn;
        const float *up;
    } gates[] = {
        {"silu", ACT_FN_SILU, one}, {"gelu", ACT_FN_GELU, one}, {"swiglu", ACT_FN_SILU, u}, {"geglu", ACT_FN_GELU, u},
        {"gptoss", ACT_FN_CLAMPED, u}};
    for (size_t i = 0; i < TH_COUNT(gates); i++) {
        memcpy(y, x, n * sizeof *y);
        th_act_mul(&o.pass, gates[i].fn, y, gates[i].up, (int)n, n, 1);
        judge_relative(t, "activations", set, gates[i].key, y, n);
    }
    const char *key;
    json_t *members = json_deep_copy(set), *want;
    json_object_foreach(members, key, want) {
        if (strncmp(key, "swiglu_clamp", 12) != 0) continue;
        memcpy(y, x, n * sizeof *y);
        th_silu_mul_limited(&o.pass, y, u, (float)atof(key + 12), (int)n, n, 1);
        judge_relative(t, "activations", set, key, y, n);
    }
    json_decref(members);
    for (size_t i = 0; i < n; i++) y[i] = 1;
    th_sigmoid_mul(&o.pass, y, n, x, n, (int)n, 1);
    judge_relative(t, "activations", set, "sigmoid", y, n);
    for (size_t i = 0; i < n; i++) y[i] = th_softplus(x[i]);
    judge_relative(t, "activations", set, "softplus", y, n);
    ops_close(&o);
    free(x), free(u), free(y), free(one);
}

void ops_norms(const json_t *set, Tally *t) {
    size_t n_x, n;
    float *x = ops_floats(json_object_get(set, "x"), &n_x), *w = ops_floats(json_object_get(set, "w"), &n);
    float *y = n_x ? malloc(n_x * sizeof *y) : NULL;
    Ops o;
    if (!ops_open(&o) || !y || !w || n_x % n != 0) {
        tally_fail(t, "norms: no x and w");
        return;
    }
    const char *key;
    json_t *members = json_deep_copy(set), *want;
    json_object_foreach(members, key, want) {
        bool rms = strncmp(key, "rms_eps", 7) == 0, l2 = strncmp(key, "l2_eps", 6) == 0;
        int rows = (int)(n_x / n);
        if (rms) th_rms_norm(&o.pass, y, x, w, (int)n, rows, (float)atof(key + 7));
        if (l2) memcpy(y, x, n_x * sizeof *y), th_l2_norm(&o.pass, y, n, (int)n, 1, rows, (float)atof(key + 6), 1);
        if (rms || l2) judge_relative(t, "norms", set, key, y, n_x);
    }
    json_decref(members);
    ops_close(&o);
    free(x), free(w), free(y);
}
