/* ops.c: single operations against numbers in binary64 (vectors/ops/README.md), through the engine's own functions. */
#include "runner/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/cpu.h"

#pragma weak ops_rope
#pragma weak ops_attention
#pragma weak ops_mla
#pragma weak ops_moe_routing
#pragma weak ops_activations
#pragma weak ops_norms
#pragma weak ops_gated_delta_net
#pragma weak ops_kda
#pragma weak ops_mamba2
#pragma weak ops_shortconv

enum { SCRATCH_BYTES = 16 << 20 };

bool ops_open(Ops *o) {
    *o = (Ops){0};
    th_kernels_init(&o->kernels, th_cpu_isa());
    o->scratch = (Scratch){.bytes = SCRATCH_BYTES};
    o->scratch.base = aligned_alloc(64, SCRATCH_BYTES);
    o->pass = (Pass){.k = &o->kernels, .scratch = &o->scratch, .rows = o->rows, .err = &o->err};
    return o->scratch.base && th_pool_open(&o->pass.pool, 2, &o->err);
}

void ops_close(Ops *o) {
    th_pool_close(o->pass.pool);
    free(o->scratch.base);
}

enum { JOURNAL_BYTES = 1 << 24, WORK_FLOATS = 1 << 15 };

bool ops_trial_open(OpsTrial *trial, int hold) {
    *trial = (OpsTrial){.hold = hold};
    if (hold == 0) return true;
    trial->journal.bytes = JOURNAL_BYTES;
    trial->journal.memory = aligned_alloc(64, JOURNAL_BYTES);
    trial->work = calloc(2 * WORK_FLOATS, sizeof(float));
    return trial->journal.memory && trial->work;
}

void ops_trial_close(OpsTrial *trial) {
    free(trial->journal.memory);
    free(trial->work);
}

void ops_try(OpsTrial *trial, ScanRun *run) {
    ScanJournal *j = &trial->journal;
    j->used = 0;
    j->first = j->last = NULL;
    run->journal = trial->hold ? j : NULL;
    run->work = trial->work, run->work_floats = WORK_FLOATS;
}

int ops_settle(Ops *o, OpsTrial *trial, int T) {
    if (trial->hold == 0) return T;
    int rows = th_min_int(T, trial->hold);
    th_scan_settle(o->pass.pool, o->pass.k, &trial->journal, rows);
    return rows;
}

void ops_rows(Ops *o, int first, int T) {
    o->pass.T = th_min_int(T, OPS_ROWS);
    for (int t = 0; t < o->pass.T; t++) o->rows[t] = (PassRow){.position = first + t};
}

/* ---- numbers
 * --------------------------------------------------------------------------------------------------------- */

static size_t count(const json_t *x) {
    size_t n = 0;
    if (!json_is_array(x)) return 1;
    for (size_t i = 0; i < json_array_size(x); i++) n += count(json_array_get(x, i));
    return n;
}

static void flatten(const json_t *x, double *out, size_t *at) {
    if (!json_is_array(x))
        out[(*at)++] = json_number_value(x);
    else
        for (size_t i = 0; i < json_array_size(x); i++) flatten(json_array_get(x, i), out, at);
}

static double *doubles(const json_t *array, size_t *n) {
    *n = json_is_array(array) ? count(array) : 0;
    double *out = *n ? malloc(*n * sizeof *out) : NULL;
    size_t at = 0;
    if (out) flatten(array, out, &at);
    return out;
}

float *ops_floats(const json_t *array, size_t *n) {
    double *wide = doubles(array, n);
    float *out = wide ? malloc(*n * sizeof *out) : NULL;
    for (size_t i = 0; out && i < *n; i++) out[i] = (float)wide[i];
    free(wide);
    return out;
}

float *ops_member(Tally *t, const json_t *set, const char *key, size_t n) {
    size_t got;
    float *out = ops_floats(json_object_get(set, key), &got);
    if (out && got == n) return out;
    tally_fail(t, "%s: %zu numbers where %zu belong", key, got, n);
    free(out);
    return NULL;
}

int ops_int(const json_t *set, const char *key) { return (int)json_integer_value(json_object_get(set, key)); }
double ops_real(const json_t *set, const char *key) { return json_number_value(json_object_get(set, key)); }
const char *ops_text(const json_t *set, const char *key) {
    const char *text = json_string_value(json_object_get(set, key));
    return text ? text : "";
}

static double compare(const float *got, size_t n, const json_t *want, bool relative, double floor) {
    size_t n_want;
    double *w = doubles(want, &n_want), worst = n == n_want ? 0 : INFINITY;
    for (size_t i = 0; i < n && n == n_want; i++) {
        double off = fabs((double)got[i] - w[i]);
        if (relative) off /= fmax(fabs(w[i]), floor);
        if (!(off <= worst)) worst = off;
    }
    free(w);
    return worst;
}

double ops_difference(const float *got, size_t n, const json_t *want) { return compare(got, n, want, false, 0); }
double ops_relative(const float *got, size_t n, const json_t *want, double floor) {
    return compare(got, n, want, true, floor);
}

double ops_largest(const json_t *array) {
    size_t n;
    double *w = doubles(array, &n), most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(w[i]));
    free(w);
    return most;
}

void ops_judge(Tally *t, const char *set, const char *name, const char *what, double off, double limit) {
    if (off <= limit)
        tally_pass(t, "%s %s: %s", set, name, what);
    else
        tally_fail(t, "%s %s: %s: expected within %g, got %g", set, name, what, limit, off);
}

/* ---- files
 * ------------------------------------------------------------------------------------------------------------ */

bool vectors_ops(const char *dir, Tally *t) {
    const struct {
        const char *name;
        OpsFn *run;
    } sets[] = {{"rope", ops_rope},
                {"attention", ops_attention},
                {"mla", ops_mla},
                {"moe_routing", ops_moe_routing},
                {"activations", ops_activations},
                {"norms", ops_norms},
                {"gated_delta_net", ops_gated_delta_net},
                {"kda", ops_kda},
                {"mamba2", ops_mamba2},
                {"shortconv", ops_shortconv}};
    int found = 0;
    for (size_t i = 0; i < TH_COUNT(sets); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.json", dir, sets[i].name);
        json_t *set = json_load_file(path, 0, NULL);
        if (!set) continue;
        found++;
        if (sets[i].run)
            sets[i].run(set, t);
        else
            tally_skip(t, "%s: not supported yet", sets[i].name);
        json_decref(set);
    }
    return found > 0;
}
