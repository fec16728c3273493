/* ops_mla.c: latent attention in the absorbed form (vectors/ops/mla.json), with the matrices of the heads apart and, as
 * old files have them, in one. The matrices go through a file and a store, as a model's do. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "runner/ops.h"

typedef struct Latent {
    int H, Dn, R, C, Dv, S;
    float *q_nope, *q_rope, *c, *k_rope, *k_b, *v_b, *kv_b;
} Latent;

static int length(const json_t *array) { return (int)json_array_size(array); }

static bool read_case(Latent *l, const json_t *set, Tally *t) {
    const json_t *q = json_object_get(set, "q_nope"), *r = json_object_get(set, "q_rope"),
                 *c = json_object_get(set, "c");
    const json_t *v = json_object_get(set, "v_b");
    *l = (Latent){.H = length(q),
                  .Dn = length(json_array_get(q, 0)),
                  .R = length(json_array_get(r, 0)),
                  .S = length(c),
                  .C = length(json_array_get(c, 0)),
                  .Dv = length(json_array_get(v, 0))};
    if (l->H < 1 || l->H > 128 || l->Dn < 1 || l->Dn > 512 || l->R > 512 || l->C < 1 || l->C > 1024 || l->Dv < 1 ||
        l->Dv > 512 || l->S < 1 || l->S > OPS_ROWS) {
        tally_fail(t, "mla: odd sizes");
        return false;
    }
    size_t H = (size_t)l->H, Dn = (size_t)l->Dn, R = (size_t)l->R, C = (size_t)l->C, Dv = (size_t)l->Dv,
           S = (size_t)l->S;
    l->q_nope = ops_member(t, set, "q_nope", H * Dn), l->q_rope = ops_member(t, set, "q_rope", H * R);
    l->c = ops_member(t, set, "c", S * C), l->k_rope = ops_member(t, set, "k_rope", S * R);
    l->k_b = ops_member(t, set, "k_b", H * C * Dn), l->v_b = ops_member(t, set, "v_b", H * Dv * C);
    l->kv_b = calloc(H * (Dn + Dv) * C, sizeof(float));
    if (!l->q_nope || !l->q_rope || !l->c || !l->k_rope || !l->k_b || !l->v_b || !l->kv_b) return false;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < C; i++) {
            float *head = l->kv_b + h * (Dn + Dv) * C;
            for (size_t n = 0; n < Dn; n++) head[n * C + i] = l->k_b[(h * C + i) * Dn + n];
            for (size_t e = 0; e < Dv; e++) head[(Dn + e) * C + i] = l->v_b[(h * Dv + e) * C + i];
        }
    return true;
}

static void free_case(Latent *l) {
    free(l->q_nope), free(l->q_rope), free(l->c), free(l->k_rope), free(l->k_b), free(l->v_b), free(l->kv_b);
}

/* ---- a store of the three matrices
 * ------------------------------------------------------------------------------------ */

typedef struct Matrices {
    char path[64];
    Budget budget;
    Gguf gguf;
    Weights *ws;
    Linear k_b, v_b, kv_b;
} Matrices;

static bool write_matrices(Matrices *m, const Latent *l) {
    strcpy(m->path, "/tmp/thimble-mla-XXXXXX");
    int file = mkstemp(m->path);
    if (file < 0) return false;
    close(file);
    GgufWriter w;
    gguf_writer_init(&w);
    uint64_t H = (uint64_t)l->H, C = (uint64_t)l->C;
    gguf_writer_tensor(&w, "k_b", TYPE_F32, 3, (uint64_t[]){(uint64_t)l->Dn, C, H}, l->k_b);
    gguf_writer_tensor(&w, "v_b", TYPE_F32, 3, (uint64_t[]){C, (uint64_t)l->Dv, H}, l->v_b);
    gguf_writer_tensor(&w, "kv_b", TYPE_F32, 2, (uint64_t[]){C, H * (uint64_t)(l->Dn + l->Dv)}, l->kv_b);
    bool ok = gguf_writer_save(&w, m->path);
    gguf_writer_free(&w);
    return ok;
}

static bool open_matrices(Matrices *m, const Latent *l, Ops *o) {
    *m = (Matrices){0};
    WeightsOptions options = {.home = THIMBLE_HOME_RESIDENT};
    WeightsNeed need;
    WeightsPlan plan;
    Err *err = &o->err;
    th_budget_init(&m->budget, UINT64_MAX);
    if (!write_matrices(m, l) || !th_gguf_open(&m->gguf, m->path, &m->budget, err) ||
        !th_weights_open(&m->ws, &m->gguf, &o->kernels, &m->budget, &options, err) ||
        !th_weights_find(m->ws, "k_b", (Shape){l->Dn, (int64_t)l->H * l->C, 1}, WEIGHT_FLAT, &m->k_b.w, err) ||
        !th_weights_find(m->ws, "v_b", (Shape){l->C, (int64_t)l->H * l->Dv, 1}, WEIGHT_FLAT, &m->v_b.w, err) ||
        !th_weights_find(m->ws, "kv_b", (Shape){l->C, 0, 1}, WEIGHT_FLAT, &m->kv_b.w, err))
        return false;
    th_weights_need(m->ws, 0, &need);
    if (!th_weights_plan(m->ws, 2 * (need.floor + need.all) + TH_MIB, 0, &plan, err) || !th_weights_load(m->ws, err))
        return false;
    o->pass.ws = m->ws;
    return true;
}

static void close_matrices(Matrices *m) {
    th_weights_close(m->ws);
    th_gguf_close(&m->gguf);
    th_budget_free(&m->budget);
    unlink(m->path);
}

/* ---- the case
 * ----------------------------------------------------------------------------------------------------------- */

static void store_latents(Ops *o, const Latent *l, const AttendSpec *a, KvCache *cache) {
    size_t C = (size_t)l->C, R = (size_t)l->R, S = (size_t)l->S;
    float *k = th_scratch_f32(&o->pass, S * (C + R));
    char *cells = th_scratch_take(&o->pass, S * (C + R) * sizeof(float));
    for (size_t s = 0; s < S; s++) {
        memcpy(k + s * (C + R), l->c + s * C, C * sizeof *k);
        memcpy(k + s * (C + R) + C, l->k_rope + s * R, R * sizeof *k);
        cache[s] = (KvCache){.k = cells, .n_cells = l->S};
    }
    ops_rows(o, 0, l->S);
    th_attend_store(&o->pass, a, cache, k, NULL);
}

/* o [H][Dv] of the last position. */
static bool attend(Ops *o, const Latent *l, const Matrices *m, bool legacy, float scale, float *out) {
    int both = l->Dn + l->Dv, D = l->C + l->R;
    AttendSpec a = {
        .H = l->H, .Hk = 1, .D = D, .Dv = l->C, .scale = scale, .cache_type = THIMBLE_CACHE_F32, .latent = true};
    HeadRows keys = {l->H, l->C, 0, l->C}, values = {l->H, l->Dv, 0, l->Dv};
    if (legacy) keys = (HeadRows){l->H, both, 0, l->Dn}, values = (HeadRows){l->H, both, l->Dn, l->Dv};
    KvCache cache[OPS_ROWS];
    store_latents(o, l, &a, cache);
    ops_rows(o, l->S - 1, 1);
    float *latent = th_scratch_f32(&o->pass, (size_t)(l->H * D)), *u = th_scratch_f32(&o->pass, (size_t)(l->H * l->C));
    bool ok = legacy ? th_linear_heads_turned(&o->pass, latent, (size_t)D, &m->kv_b, &keys, l->q_nope, (size_t)l->Dn, 1)
                     : th_linear_heads(&o->pass, latent, (size_t)D, &m->k_b, &keys, l->q_nope, (size_t)l->Dn, 1);
    for (int h = 0; h < l->H; h++)
        memcpy(latent + (size_t)(h * D + l->C), l->q_rope + (size_t)(h * l->R), (size_t)l->R * sizeof *latent);
    th_attend(&o->pass, &a, cache, u, latent);
    return ok &&
           th_linear_heads(&o->pass, out, (size_t)l->Dv, legacy ? &m->kv_b : &m->v_b, &values, u, (size_t)l->C, 1);
}

static void mla_case(Ops *o, const json_t *set, Tally *t) {
    Latent l = {0};
    Matrices m = {0};
    float out[128 * 512];
    const json_t *want = json_object_get(set, "o");
    if (read_case(&l, set, t)) {
        if (!open_matrices(&m, &l, o)) tally_fail(t, "mla: %s", o->err.message);
        for (int legacy = 0; legacy < 2 && o->pass.ws; legacy++) {
            bool ok = attend(o, &l, &m, legacy, (float)ops_real(set, "scale"), out);
            ops_judge(t, "mla", ops_text(set, "name"), legacy ? "output, one matrix" : "output, two matrices",
                      ok ? ops_difference(out, (size_t)(l.H * l.Dv), want) : 1e9, 2e-5 * ops_largest(want));
            o->scratch.used = 0;
        }
        close_matrices(&m);
        o->pass.ws = NULL;
    }
    free_case(&l);
}

void ops_mla(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "mla: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    if (!cases) mla_case(&o, set, t);
    for (size_t i = 0; i < json_array_size(cases); i++) mla_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}
