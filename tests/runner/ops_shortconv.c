/* ops_shortconv.c: the short convolution between its projections (vectors/ops/shortconv.json), in one pass and in
 * pieces: every split of the tokens must give the same bits. The file is one case, or holds `cases`. */
#include <stdlib.h>
#include <string.h>

#include "model/block/shortconv.h"
#include "runner/ops.h"

/* Where the first token stands: anything that is not 0, so that the memory counts. */
enum { START = 9, MOST = 1 << 16 };

typedef struct Conv {
    int E, taps, T;
    float *bcx, *w, *past;
} Conv;

static void exchange(const Conv *c, ScanRun *run, int position, float *rows, bool load) {
    size_t E = (size_t)c->E;
    for (int i = 0; i < c->taps - 1; i++) {
        size_t place = (size_t)((position - (c->taps - 1) + i) % (c->taps - 1));
        float *row = (float *)(void *)run->memory + place * E, *out = rows + (size_t)i * E;
        memcpy(load ? row : out, load ? out : row, E * sizeof *row);
    }
}

static void run_conv(Ops *o, const Conv *c, int piece, int hold, float *y, float *past) {
    size_t E = (size_t)c->E;
    char *memory = th_scratch_take(&o->pass, (size_t)th_conv_bytes(c->E, c->taps));
    ScanRun run = {.memory = memory};
    exchange(c, &run, START, c->past, true);
    float *bcx = th_scratch_f32(&o->pass, (size_t)c->T * 3 * E);
    OpsTrial trial;
    bool ready = ops_trial_open(&trial, hold);
    for (int first = 0; ready && first < c->T;) {
        run.position = START + first, run.n = th_min_int(piece, c->T - first);
        ops_rows(o, START + first, run.n);
        memcpy(bcx + (size_t)first * 3 * E, c->bcx + (size_t)first * 3 * E, (size_t)run.n * 3 * E * sizeof *bcx);
        ops_try(&trial, &run);
        th_shortconv_rows(&o->pass, c->w, c->E, c->taps, &run, 1, y + (size_t)first * E, bcx + (size_t)first * 3 * E);
        first += ops_settle(o, &trial, run.n);
    }
    ops_trial_close(&trial);
    exchange(c, &run, START + c->T, past, false);
    o->scratch.used = 0;
}

static void judge_conv(Ops *o, const Conv *c, const json_t *set, Tally *t) {
    size_t n = (size_t)c->T * (size_t)c->E, n_past = (size_t)(c->taps - 1) * (size_t)c->E;
    float *y = calloc(2 * n, sizeof *y), *past = calloc(2 * n_past, sizeof *past);
    bool same = y && past;
    if (same) {
        run_conv(o, c, c->T, 0, y, past);
        const json_t *want = json_object_get(set, "y"), *want_past = json_object_get(set, "state_out");
        ops_judge(t, "shortconv", ops_text(set, "name"), "y", ops_difference(y, n, want), 2e-5 * ops_largest(want));
        ops_judge(t, "shortconv", ops_text(set, "name"), "state_out", ops_difference(past, n_past, want_past),
                  2e-5 * ops_largest(want_past));
    }
    for (int way = 0; way < 16 && same; way++) { /* pieces of 1 to 4 tokens, of which 0 to 3 hold */
        run_conv(o, c, 1 + way % 4, way / 4, y + n, past + n_past);
        same = !memcmp(y, y + n, n * sizeof *y) && !memcmp(past, past + n_past, n_past * sizeof *past);
    }
    if (same)
        tally_pass(t, "shortconv: splits");
    else
        tally_fail(t, "shortconv: a split of the tokens gives other bits");
    free(y), free(past);
}

static void conv_case(Ops *o, const json_t *set, Tally *t) {
    Conv c = {.E = ops_int(set, "E"), .taps = ops_int(set, "Lc"), .T = ops_int(set, "T")};
    if (c.E < 1 || c.E > MOST || c.taps < 2 || c.taps > MAX_CONV_TAPS || c.T < 1 || c.T > OPS_ROWS) {
        tally_fail(t, "shortconv: odd sizes");
        return;
    }
    size_t E = (size_t)c.E;
    c.bcx = ops_member(t, set, "bcx", (size_t)c.T * 3 * E), c.w = ops_member(t, set, "conv_w", E * (size_t)c.taps);
    c.past = ops_member(t, set, "state_in", (size_t)(c.taps - 1) * E);
    if (c.bcx && c.w && c.past) judge_conv(o, &c, set, t);
    free(c.bcx), free(c.w), free(c.past);
}

void ops_shortconv(const json_t *set, Tally *t) {
    Ops o;
    if (!ops_open(&o)) {
        tally_fail(t, "shortconv: %s", o.err.message);
        return;
    }
    const json_t *cases = json_object_get(set, "cases");
    if (!cases) conv_case(&o, set, t);
    for (size_t i = 0; i < json_array_size(cases); i++) conv_case(&o, json_array_get(cases, i), t);
    ops_close(&o);
}
