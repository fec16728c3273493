/* ops_mamba2.c: Mamba-2 between its projections (vectors/ops/mamba2.json), in one pass and in pieces: every split of
 * the tokens and every number of copies must give the same bits. */
#include <stdlib.h>
#include <string.h>

#include "model/block/mamba2.h"
#include "runner/ops.h"

/* Where the first token stands: anything that is not 0, so that the memory counts. */
enum { START = 9 };

typedef struct Mixer {
    Mamba2Spec spec;
    int T;
    float *z, *xbc, *dt, *conv_in, *conv_w, *conv_b, *dt_bias, *a, *d, *norm, *S_in;
} Mixer;

static bool read_mixer(Mixer *m, const json_t *c, Tally *t) {
    int heads = ops_int(c, "N");
    *m = (Mixer){.T = ops_int(c, "T"),
                 .spec = {.inner = heads * ops_int(c, "hd"),
                          .heads = heads,
                          .keys = ops_int(c, "ds"),
                          .groups = ops_int(c, "G"),
                          .taps = ops_int(c, "Kc"),
                          .eps = (float)ops_real(c, "eps")}};
    Mamba2Spec *s = &m->spec;
    if (heads < 1 || heads > 64 || s->inner < 1 || s->inner > 4096 || s->keys < 1 || s->keys > 256 || s->groups < 1 ||
        heads % s->groups != 0 || s->taps < 2 || s->taps > MAX_CONV_TAPS || m->T < 1 || m->T > OPS_ROWS) {
        tally_fail(t, "mamba2: odd sizes");
        return false;
    }
    size_t T = (size_t)m->T, di = (size_t)s->inner, N = (size_t)s->heads, cd = (size_t)th_mamba2_channels(s);
    m->z = ops_member(t, c, "z", T * di), m->xbc = ops_member(t, c, "xbc", T * cd),
    m->dt = ops_member(t, c, "dt", T * N);
    s->conv_w = m->conv_w = ops_member(t, c, "conv_w", cd * (size_t)s->taps);
    s->conv_bias = m->conv_b = ops_member(t, c, "conv_b", cd);
    s->dt_bias = m->dt_bias = ops_member(t, c, "dt_bias", N);
    s->a = m->a = ops_member(t, c, "ssm_a", N), s->d = m->d = ops_member(t, c, "ssm_d", N);
    s->norm = m->norm = ops_member(t, c, "norm_w", di);
    m->conv_in = ops_member(t, c, "conv_state_in", (size_t)(s->taps - 1) * cd);
    m->S_in = ops_member(t, c, "S_in", di * (size_t)s->keys);
    return m->z && m->xbc && m->dt && m->conv_w && m->conv_b && m->dt_bias && m->a && m->d && m->norm && m->conv_in &&
           m->S_in;
}

static void free_mixer(Mixer *m) {
    free(m->z), free(m->xbc), free(m->dt), free(m->conv_in), free(m->conv_w), free(m->conv_b), free(m->dt_bias);
    free(m->a), free(m->d), free(m->norm), free(m->S_in);
}

/* Between the memory of `position` and the exchange form: rows of the convolution by age, S [head][value][key]. */
static void exchange(const Mamba2Spec *s, ScanRun *run, int position, float *conv, float *S, bool load) {
    ScanSpec scan = th_mamba2_scan(s);
    float *rows = (float *)(void *)run->memory;
    float *memory = (float *)(void *)(run->memory + scan.at);
    size_t cd = (size_t)th_mamba2_channels(s);
    for (int i = 0; i < s->taps - 1; i++) {
        float *row = rows + (size_t)((position - (s->taps - 1) + i) % (s->taps - 1)) * cd, *out = conv + (size_t)i * cd;
        memcpy(load ? row : out, load ? out : row, cd * sizeof *row);
    }
    for (int h = 0; h < s->heads; h++)
        for (int e = 0; e < scan.values; e++)
            for (int i = 0; i < s->keys; i++) {
                float *mine = &memory[th_scan_index(&scan, h, i, e)], *other = S++;
                *(load ? mine : other) = *(load ? other : mine);
            }
}

typedef struct Result {
    float *y, *S, *conv;
} Result;

static Result make_result(const Mixer *m) {
    size_t di = (size_t)m->spec.inner;
    return (Result){.y = calloc((size_t)m->T * di, 4),
                    .S = calloc(di * (size_t)m->spec.keys, 4),
                    .conv = calloc((size_t)(m->spec.taps - 1) * (size_t)th_mamba2_channels(&m->spec), 4)};
}
static void free_result(Result *r) { free(r->y), free(r->S), free(r->conv); }

static bool run_mixer(Ops *o, const Mixer *m, int piece, int hold, Result *out) {
    const Mamba2Spec *s = &m->spec;
    size_t di = (size_t)s->inner, cd = (size_t)th_mamba2_channels(s), N = (size_t)s->heads;
    size_t width = (size_t)th_mamba2_width(s), bytes = (size_t)th_mamba2_memory(s, THIMBLE_STATE_F32);
    char *memory = calloc(1, bytes);
    OpsTrial trial;
    if (!memory || !ops_trial_open(&trial, hold)) return false;
    ScanRun run = {.memory = memory};
    exchange(s, &run, START, m->conv_in, m->S_in, true);
    for (int first = 0; first < m->T;) {
        int T = th_min_int(piece, m->T - first);
        ops_rows(o, START + first, T);
        float *x = th_scratch_f32(&o->pass, (size_t)T * width);
        for (size_t t = 0, at = (size_t)first; t < (size_t)T; t++, at++) {
            memcpy(x + t * width, m->z + at * di, di * 4);
            memcpy(x + t * width + di, m->xbc + at * cd, cd * 4);
            memcpy(x + t * width + di + cd, m->dt + at * N, N * 4);
        }
        run.position = START + first, run.n = T;
        ops_try(&trial, &run);
        th_mamba2_rows(&o->pass, s, &run, 1, out->y + (size_t)first * di, x);
        o->scratch.used = 0;
        first += ops_settle(o, &trial, T);
    }
    exchange(s, &run, START + m->T, out->conv, out->S, false);
    ops_trial_close(&trial);
    free(memory);
    return true;
}

static void judge_splits(Ops *o, const Mixer *m, const Result *whole, const char *name, Tally *t) {
    static const int pieces[] = {1, 2, 3, 5}, holds[] = {0, 1, 3, 5};
    size_t di = (size_t)m->spec.inner, conv = (size_t)(m->spec.taps - 1) * (size_t)th_mamba2_channels(&m->spec);
    bool same = true;
    for (size_t p = 0; p < TH_COUNT(pieces); p++)
        for (size_t k = 0; k < TH_COUNT(holds); k++) {
            Result r = make_result(m);
            same = same && run_mixer(o, m, pieces[p], holds[k], &r) && !memcmp(r.y, whole->y, (size_t)m->T * di * 4) &&
                   !memcmp(r.S, whole->S, di * (size_t)m->spec.keys * 4) && !memcmp(r.conv, whole->conv, conv * 4);
            free_result(&r);
        }
    if (same)
        tally_pass(t, "mamba2 %s: splits", name);
    else
        tally_fail(t, "mamba2 %s: a split of the tokens gives other bits", name);
}

static void mixer_case(Ops *o, const json_t *c, Tally *t) {
    const char *name = ops_text(c, "name");
    Mixer m;
    if (read_mixer(&m, c, t)) {
        Result r = make_result(&m);
        run_mixer(o, &m, m.T, 0, &r);
        size_t di = (size_t)m.spec.inner, cd = (size_t)th_mamba2_channels(&m.spec);
        const struct {
            const char *key;
            const float *got;
            size_t n;
        } outputs[] = {{"y", r.y, (size_t)m.T * di},
                       {"S_out", r.S, di * (size_t)m.spec.keys},
                       {"conv_state_out", r.conv, (size_t)(m.spec.taps - 1) * cd}};
        for (size_t i = 0; i < TH_COUNT(outputs); i++) {
            const json_t *want = json_object_get(c, outputs[i].key);
            ops_judge(t, "mamba2", name, outputs[i].key, ops_difference(outputs[i].got, outputs[i].n, want),
                      2e-5 * ops_largest(want));
        }
        judge_splits(o, &m, &r, name, t);
        free_result(&r);
    }
    free_mixer(&m);
}

void ops_mamba2(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "mamba2: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) mixer_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}
