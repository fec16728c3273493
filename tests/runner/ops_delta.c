/* ops_delta.c: Gated DeltaNet without its projections (vectors/ops/gated_delta_net.json), in one pass and in pieces:
 * every split of the tokens must give the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/vec_math.h"
#include "runner/ops.h"

typedef struct Net {
    int d, Nk, Nv, Kc, T, cd, vd;
    float eps;
    float *qkv, *conv_in, *conv_w, *beta, *alpha, *dt, *a, *z, *norm, *S_in;
    ConvSpec conv;
    ScanSpec scan;
    size_t slot_bytes;
} Net;

static bool read_net(Net *n, const json_t *c, Tally *t) {
    *n = (Net){.d = ops_int(c, "d"),
               .Nk = ops_int(c, "Nk"),
               .Nv = ops_int(c, "Nv"),
               .Kc = ops_int(c, "Kc"),
               .T = ops_int(c, "T"),
               .eps = (float)ops_real(c, "eps")};
    if (n->d < 1 || n->d > 256 || n->Nk < 1 || n->Nv < n->Nk || n->Nv > 64 || n->Kc < 1 || n->Kc > MAX_CONV_TAPS ||
        n->T < 1 || n->T > OPS_ROWS || n->Nv % n->Nk != 0) {
        tally_fail(t, "gated_delta_net: odd sizes");
        return false;
    }
    n->vd = n->Nv * n->d, n->cd = 2 * n->Nk * n->d + n->vd;
    size_t T = (size_t)n->T, cd = (size_t)n->cd, Nv = (size_t)n->Nv, d = (size_t)n->d;
    n->qkv = ops_member(t, c, "qkv", T * cd), n->conv_w = ops_member(t, c, "conv_w", cd * (size_t)n->Kc);
    n->conv_in = ops_member(t, c, "conv_state_in", (size_t)(n->Kc - 1) * cd);
    n->beta = ops_member(t, c, "beta_logit", T * Nv), n->alpha = ops_member(t, c, "alpha", T * Nv);
    n->dt = ops_member(t, c, "dt_bias", Nv), n->a = ops_member(t, c, "ssm_a", Nv);
    n->z = ops_member(t, c, "z", T * Nv * d), n->norm = ops_member(t, c, "norm_w", d);
    n->S_in = ops_member(t, c, "S_in", Nv * d * d);
    n->conv = (ConvSpec){.w = n->conv_w, .channels = n->cd, .taps = n->Kc, .silu = true};
    n->scan = (ScanSpec){.rule = SCAN_RULE_DELTA,
                         .heads = n->Nv,
                         .keys = n->d,
                         .values = n->d,
                         .key_heads = n->Nk,
                         .grouped = strstr(ops_text(c, "key_head"), "floor") != NULL,
                         .at = (size_t)th_conv_bytes(n->cd, n->Kc)};
    n->slot_bytes = n->scan.at + (size_t)th_scan_bytes(&n->scan, THIMBLE_STATE_F32);
    return n->qkv && n->conv_w && n->conv_in && n->beta && n->alpha && n->dt && n->a && n->z && n->norm && n->S_in;
}

static void free_net(Net *n) {
    free(n->qkv), free(n->conv_in), free(n->conv_w), free(n->beta), free(n->alpha), free(n->dt), free(n->a), free(n->z);
    free(n->norm), free(n->S_in);
}

/* Where the first token stands: anything that is not 0, so that the memory counts. */
enum { START = 9 };

static void exchange(const Net *n, ScanRun *run, int position, float *conv, float *S, bool load) {
    float *rows = (float *)(void *)run->memory;
    float *memory = (float *)(void *)(run->memory + n->scan.at);
    for (int i = 0; i < n->Kc - 1; i++) {
        float *row = rows + (size_t)((position - (n->Kc - 1) + i) % (n->Kc - 1)) * (size_t)n->cd;
        float *out = conv + (size_t)i * (size_t)n->cd;
        memcpy(load ? row : out, load ? out : row, (size_t)n->cd * sizeof *row);
    }
    for (int h = 0; h < n->Nv; h++)
        for (int e = 0; e < n->d; e++)
            for (int i = 0; i < n->d; i++) {
                float *mine = &memory[th_scan_index(&n->scan, h, i, e)], *other = S++;
                *(load ? mine : other) = *(load ? other : mine);
            }
}

typedef struct Result {
    float *conv_out, *core, *y, *S, *conv_state;
} Result;

/* Tokens [first, first + T). */
static void run_piece(Ops *o, const Net *n, ScanRun run, int first, int T, Result *out) {
    size_t cd = (size_t)n->cd, vd = (size_t)n->vd, kd = (size_t)(n->Nk * n->d);
    float *u = out->conv_out + (size_t)first * cd, *core = out->core + (size_t)first * vd;
    float *y = out->y + (size_t)first * vd;
    float a[OPS_ROWS * 64], beta[OPS_ROWS * 64];
    memcpy(u, n->qkv + (size_t)first * cd, (size_t)T * cd * sizeof *u);
    for (int i = 0; i < T * n->Nv; i++) {
        size_t at = (size_t)(first * n->Nv + i);
        beta[i] = th_sigmoid(n->beta[at]);
        a[i] = th_exp(n->a[i % n->Nv] * th_softplus(n->alpha[at] + n->dt[i % n->Nv]));
    }
    ops_rows(o, START + first, T);
    run.position = START + first, run.row = 0, run.n = T;
    th_conv(&o->pass, &n->conv, &run, 1, u, cd);
    float *normed = th_scratch_f32(&o->pass, (size_t)T * cd);
    memcpy(normed, u, (size_t)T * cd * sizeof *u);
    th_l2_norm(&o->pass, normed, cd, n->d, n->Nk, T, n->eps, 1 / sqrtf((float)n->d));
    th_l2_norm(&o->pass, normed + kd, cd, n->d, n->Nk, T, n->eps, 1);
    ScanRows rows = {.q = normed,
                     .k = normed + kd,
                     .v = normed + 2 * kd,
                     .a = a,
                     .beta = beta,
                     .o = core,
                     .q_stride = cd,
                     .k_stride = cd,
                     .v_stride = cd,
                     .a_stride = (size_t)n->Nv,
                     .beta_stride = (size_t)n->Nv,
                     .o_stride = vd};
    th_scan(&o->pass, &n->scan, &run, 1, &rows);
    float *normal = th_scratch_f32(&o->pass, (size_t)T * vd);
    th_rms_norm(&o->pass, normal, core, n->norm, n->d, T * n->Nv, n->eps);
    memcpy(y, n->z + (size_t)first * vd, (size_t)T * vd * sizeof *y);
    th_act_mul(&o->pass, ACT_FN_SILU, y, normal, n->vd, vd, T);
    o->scratch.used = 0;
}

/* piece: tokens per pass; hold: see OpsTrial. */
static bool run_net(Ops *o, const Net *n, int piece, int hold, Result *out) {
    char *memory = calloc(1, n->slot_bytes);
    OpsTrial trial;
    if (!memory || !ops_trial_open(&trial, hold)) return false;
    ScanRun run = {.memory = memory};
    exchange(n, &run, START, n->conv_in, n->S_in, true);
    for (int t = 0; t < n->T;) {
        int T = th_min_int(piece, n->T - t);
        ops_try(&trial, &run);
        run_piece(o, n, run, t, T, out);
        t += ops_settle(o, &trial, T);
    }
    exchange(n, &run, START + n->T, out->conv_state, out->S, false);
    ops_trial_close(&trial);
    free(memory);
    return true;
}

static Result make_result(const Net *n) {
    size_t T = (size_t)n->T, cd = (size_t)n->cd, vd = (size_t)n->vd, d = (size_t)n->d;
    return (Result){.conv_out = calloc(T * cd, 4),
                    .core = calloc(T * vd, 4),
                    .y = calloc(T * vd, 4),
                    .S = calloc(vd * d, 4),
                    .conv_state = calloc((size_t)n->Kc * cd, 4)};
}
static void free_result(Result *r) { free(r->conv_out), free(r->core), free(r->y), free(r->S), free(r->conv_state); }

static void judge_splits(Ops *o, const Net *n, const Result *whole, const char *name, Tally *t) {
    static const int pieces[] = {1, 2, 3, 5}, holds[] = {0, 1, 3, 5};
    size_t vd = (size_t)n->vd, state = vd * (size_t)n->d;
    bool same = true;
    for (size_t p = 0; p < TH_COUNT(pieces); p++)
        for (size_t k = 0; k < TH_COUNT(holds); k++) {
            Result r = make_result(n);
            run_net(o, n, pieces[p], holds[k], &r);
            same = same && !memcmp(r.y, whole->y, (size_t)n->T * vd * 4) && !memcmp(r.S, whole->S, state * 4) &&
                   !memcmp(r.conv_state, whole->conv_state, (size_t)(n->Kc - 1) * (size_t)n->cd * 4);
            free_result(&r);
        }
    if (same)
        tally_pass(t, "gated_delta_net %s: splits", name);
    else
        tally_fail(t, "gated_delta_net %s: a split of the tokens gives other bits", name);
}

static void net_case(Ops *o, const json_t *c, Tally *t) {
    Net n;
    const char *name = ops_text(c, "name");
    if (!read_net(&n, c, t)) {
        free_net(&n);
        return;
    }
    Result r = make_result(&n);
    run_net(o, &n, n.T, 0, &r);
    size_t T = (size_t)n.T, cd = (size_t)n.cd, vd = (size_t)n.vd;
    const struct {
        const char *key;
        const float *got;
        size_t n;
    } outputs[] = {{"conv_out", r.conv_out, T * cd},
                   {"core_out", r.core, T * vd},
                   {"y", r.y, T * vd},
                   {"S_out", r.S, vd * (size_t)n.d},
                   {"conv_state_out", r.conv_state, (size_t)(n.Kc - 1) * cd}};
    for (size_t i = 0; i < TH_COUNT(outputs); i++) {
        const json_t *want = json_object_get(c, outputs[i].key);
        if (want)
            ops_judge(t, "gated_delta_net", name, outputs[i].key, ops_difference(outputs[i].got, outputs[i].n, want),
                      2e-5 * ops_largest(want));
    }
    judge_splits(o, &n, &r, name, t);
    free_result(&r);
    free_net(&n);
}

void ops_gated_delta_net(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "gated_delta_net: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) net_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}
