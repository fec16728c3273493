/* ops_kda.c: Kimi Delta Attention without its projections and convolutions (vectors/ops/kda.json), in one pass and in
 * pieces: every split of the tokens must give the same bits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/vec_math.h"
#include "runner/ops.h"

enum { START = 5, MOST_HEADS = 64 }; /* the first token stands at START: the memory before it counts */

typedef struct Kda {
    int N, d, T;
    float eps, bound, *q, *k, *v, *f, *dt, *a, *beta, *gate, *norm, *S_in;
    ScanSpec scan;
    size_t slot_bytes;
} Kda;

static bool read_kda(Kda *n, const json_t *c, Tally *t) {
    *n = (Kda){.N = ops_int(c, "N"), .d = ops_int(c, "d"), .T = ops_int(c, "T"), .eps = (float)ops_real(c, "eps")};
    n->bound = (float)ops_real(c, "lower_bound");
    if (n->N < 1 || n->N > MOST_HEADS || n->d < 1 || n->d > 256 || n->T < 1 || n->T > OPS_ROWS) {
        tally_fail(t, "kda: odd sizes");
        return false;
    }
    size_t T = (size_t)n->T, N = (size_t)n->N, d = (size_t)n->d, all = T * N * d;
    n->q = ops_member(t, c, "q", all), n->k = ops_member(t, c, "k", all), n->v = ops_member(t, c, "v", all);
    n->f = ops_member(t, c, "f", all), n->gate = ops_member(t, c, "gate", all);
    n->dt = ops_member(t, c, "dt_bias", N * d), n->a = ops_member(t, c, "ssm_a", N);
    n->beta = ops_member(t, c, "beta_logit", T * N), n->norm = ops_member(t, c, "norm_w", d);
    n->S_in = ops_member(t, c, "S_in", N * d * d);
    n->scan = (ScanSpec){.rule = SCAN_RULE_DELTA_KEYS, .heads = n->N, .keys = n->d, .values = n->d, .key_heads = n->N};
    n->slot_bytes = (size_t)th_scan_bytes(&n->scan, THIMBLE_STATE_F32);
    return n->q && n->k && n->v && n->f && n->gate && n->dt && n->a && n->beta && n->norm && n->S_in;
}

static void free_kda(Kda *n) {
    free(n->q), free(n->k), free(n->v), free(n->f), free(n->dt), free(n->a), free(n->beta), free(n->gate),
        free(n->norm);
    free(n->S_in);
}

static void exchange(const Kda *n, const ScanRun *run, float *S, bool load) {
    float *memory = (float *)(void *)run->memory;
    for (int h = 0; h < n->N; h++)
        for (int e = 0; e < n->d; e++)
            for (int i = 0; i < n->d; i++, S++) {
                float *mine = &memory[th_scan_index(&n->scan, h, i, e)];
                *(load ? mine : S) = *(load ? S : mine);
            }
}

static float *copy(Ops *o, const float *from, size_t n) {
    float *to = th_scratch_f32(&o->pass, n);
    memcpy(to, from, n * sizeof *to);
    return to;
}

/* Tokens [first, first + T) into y. */
static void run_piece(Ops *o, const Kda *n, ScanRun run, int first, int T, float *y) {
    size_t di = (size_t)(n->N * n->d), at = (size_t)first * di, values = (size_t)T * di;
    float *q = copy(o, n->q + at, values), *k = copy(o, n->k + at, values), *decay = copy(o, n->f + at, values);
    float beta[OPS_ROWS * MOST_HEADS];
    for (int i = 0; i < T * n->N; i++) beta[i] = th_sigmoid(n->beta[first * n->N + i]);
    ops_rows(o, START + first, T);
    run.position = START + first, run.row = 0, run.n = T;
    th_l2_norm(&o->pass, q, di, n->d, n->N, T, n->eps, 1 / sqrtf((float)n->d));
    th_l2_norm(&o->pass, k, di, n->d, n->N, T, n->eps, 1);
    th_key_decay(&o->pass, decay, n->dt, n->a, n->bound, n->d, n->N, T);
    ScanRows rows = {.q = q,
                     .k = k,
                     .v = n->v + at,
                     .a = decay,
                     .beta = beta,
                     .o = y + at,
                     .q_stride = di,
                     .k_stride = di,
                     .v_stride = di,
                     .a_stride = di,
                     .beta_stride = (size_t)n->N,
                     .o_stride = di};
    th_scan(&o->pass, &n->scan, &run, 1, &rows);
    th_rms_norm(&o->pass, y + at, y + at, n->norm, n->d, T * n->N, n->eps);
    th_sigmoid_mul(&o->pass, y + at, di, n->gate + at, di, (int)di, T);
    o->scratch.used = 0;
}

static bool run_kda(Ops *o, const Kda *n, int piece, int hold, float *y, float *S) {
    char *memory = calloc(1, n->slot_bytes);
    OpsTrial trial;
    if (!memory || !ops_trial_open(&trial, hold)) return false;
    ScanRun run = {.memory = memory};
    exchange(n, &run, n->S_in, true);
    for (int t = 0; t < n->T;) {
        int T = th_min_int(piece, n->T - t);
        ops_try(&trial, &run);
        run_piece(o, n, run, t, T, y);
        t += ops_settle(o, &trial, T);
    }
    exchange(n, &run, S, false);
    ops_trial_close(&trial);
    free(memory);
    return true;
}

static void kda_case(Ops *o, const json_t *c, Tally *t) {
    Kda n;
    const char *name = ops_text(c, "name");
    if (read_kda(&n, c, t)) {
        size_t outputs = (size_t)(n.T * n.N * n.d), state = (size_t)(n.N * n.d * n.d);
        float *y = calloc(2 * outputs, sizeof *y), *S = calloc(2 * state, sizeof *S);
        const json_t *want_y = json_object_get(c, "y"), *want_S = json_object_get(c, "S_out");
        bool same = y && S && run_kda(o, &n, n.T, 0, y, S);
        if (same) {
            ops_judge(t, "kda", name, "y", ops_difference(y, outputs, want_y), 2e-5 * ops_largest(want_y));
            ops_judge(t, "kda", name, "S_out", ops_difference(S, state, want_S), 2e-5 * ops_largest(want_S));
        }
        for (int piece = 1; same && piece < n.T; piece++)
            for (int hold = 0; hold <= 4; hold++)
                same = same && run_kda(o, &n, piece, hold, y + outputs, S + state) &&
                       !memcmp(y, y + outputs, outputs * sizeof *y) && !memcmp(S, S + state, state * sizeof *S);
        if (same)
            tally_pass(t, "kda %s: splits", name);
        else
            tally_fail(t, "kda %s: a split of the tokens gives other bits", name);
        free(y), free(S);
    }
    free_kda(&n);
}

void ops_kda(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "kda: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    if (!cases) kda_case(&o, set, t);
    for (size_t i = 0; i < json_array_size(cases); i++) kda_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}
