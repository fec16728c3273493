/* mtp.c: draft heads against an oracle with an F16 cache: the trunk, the head on the whole prompt in one pass, and a
 * greedy chain of drafts, each within 5e-3 (vectors/mtp/README.md). The head token by token must have the bits of the
 * one pass. */
#include "model/mtp.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/cpu.h"
#include "runner/vectors.h"

enum { MOST = 512 }; /* the head's window, too */
static const double LIMIT = 5e-3;

typedef struct Run {
    Budget budget;
    Gguf gguf;
    Model m;
    ModelPlan plan;
    SeqState state;
    Err err;
    int E, V;
    float *hidden; /* [MOST + 1][E]: row 0 zeros, row p + 1 the trunk's after token p */
    float *guess;  /* [MOST][E]: the head's */
    float *logits; /* [V] */
    double *logp;  /* [V] */
    const float *prev[MOST];
} Run;

static bool open_run(Run *r, const char *path) {
    *r = (Run){0};
    ModelOptions o = {.budget = (uint64_t)1 << 40,
                      .threads = 2,
                      .context = MOST,
                      .sessions = 1,
                      .batch = MOST,
                      .cache_type = THIMBLE_CACHE_F16,
                      .mtp = true,
                      .isa = th_cpu_isa()};
    th_budget_init(&r->budget, o.budget);
    if (!th_gguf_open(&r->gguf, path, &r->budget, &r->err) ||
        !th_model_bind(&r->m, &r->gguf, &r->budget, &o, &r->err) || !th_model_plan(&r->m, 0, &r->plan, &r->err) ||
        !th_model_load(&r->m, &r->plan, &r->err) || !th_state_open(&r->state, &r->m, &r->err))
        return false;
    r->E = r->m.hp.n_embd, r->V = r->m.hp.n_vocab;
    r->hidden = calloc((MOST + 1) * (size_t)r->E, sizeof(float));
    r->guess = calloc(MOST * (size_t)r->E, sizeof(float));
    r->logits = calloc((size_t)r->V, sizeof(float));
    r->logp = calloc((size_t)r->V, sizeof(double));
    return r->hidden && r->guess && r->logits && r->logp;
}

static void close_run(Run *r) {
    if (r->state.memory) th_state_close(&r->state, &r->m);
    th_model_close(&r->m);
    th_gguf_close(&r->gguf);
    th_budget_free(&r->budget);
    free(r->hidden), free(r->guess), free(r->logits), free(r->logp);
}

/* Largest |ln p - ln p| over a list of [token, ln p]. */
static double difference(Run *r, const json_t *top) {
    double max = -INFINITY, sum = 0, worst = 0;
    for (int i = 0; i < r->V; i++) max = fmax(max, (double)r->logits[i]);
    for (int i = 0; i < r->V; i++) sum += exp((double)r->logits[i] - max);
    for (int i = 0; i < r->V; i++) r->logp[i] = (double)r->logits[i] - max - log(sum);
    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *pair = json_array_get(top, i);
        int id = (int)json_integer_value(json_array_get(pair, 0));
        double off = id >= 0 && id < r->V ? fabs(r->logp[id] - json_number_value(json_array_get(pair, 1))) : INFINITY;
        if (!(off <= worst)) worst = off;
    }
    return json_array_size(top) ? worst : INFINITY;
}

static int best(const Run *r) {
    int id = 0;
    for (int i = 1; i < r->V; i++)
        if (r->logits[i] > r->logits[id]) id = i;
    return id;
}

/* The trunk over all tokens in one pass: hidden states, and its distributions. */
static bool run_trunk(Run *r, const int32_t *ids, int n, const json_t *want, double *worst) {
    PassRow rows[MOST];
    float *hidden;
    for (int t = 0; t < n; t++) rows[t] = (PassRow){.token = ids[t], .position = t, .seq = &r->state};
    bool ok = th_model_forward(&r->m, rows, n, &hidden, &r->err);
    if (ok) memcpy(r->hidden + r->E, hidden, (size_t)n * (size_t)r->E * sizeof(float));
    for (int t = 0; t < n && ok; t++) {
        ok = th_model_logits(&r->m, hidden, &t, 1, r->logits, &r->err);
        *worst = fmax(*worst, difference(r, json_array_get(want, (size_t)t)));
    }
    th_model_finish(&r->m);
    return ok;
}

/* The head on tokens [first, first + n); its hidden states go to r->guess. */
static bool run_head(Run *r, const int32_t *ids, int first, int n, bool fill_only) {
    PassRow rows[MOST];
    float *hidden = NULL;
    for (int t = 0; t < n; t++) {
        rows[t] = (PassRow){.token = ids[first + t], .position = first + t, .seq = &r->state};
        r->prev[t] = first + t == 0 ? NULL : r->hidden + (size_t)(first + t) * (size_t)r->E;
    }
    bool ok = th_mtp_forward(&r->m, rows, n, r->prev, fill_only ? NULL : &hidden, &r->err);
    if (ok && hidden) memcpy(r->guess + (size_t)first * (size_t)r->E, hidden, (size_t)n * (size_t)r->E * sizeof(float));
    th_model_finish(&r->m);
    return ok;
}

static bool head_logits(Run *r, int row) {
    bool ok = th_mtp_logits(&r->m, r->guess, &row, 1, r->logits, &r->err);
    th_model_finish(&r->m);
    return ok;
}

static bool run_drafts(Run *r, int n, const json_t *drafts, double *worst, bool *tokens) {
    bool ok = head_logits(r, n - 1);
    for (size_t s = 0; ok && s < json_array_size(drafts) && n + (int)s < MOST; s++) {
        const json_t *draft = json_array_get(drafts, s);
        int token = best(r), at = n + (int)s;
        *tokens = *tokens && token == json_integer_value(json_object_get(draft, "token"));
        PassRow row = {.token = token, .position = at, .seq = &r->state};
        const float *prev = r->guess + (size_t)(at - 1) * (size_t)r->E;
        float *hidden = NULL;
        ok = th_mtp_forward(&r->m, &row, 1, &prev, &hidden, &r->err);
        if (ok) memcpy(r->guess + (size_t)at * (size_t)r->E, hidden, (size_t)r->E * sizeof(float));
        th_model_finish(&r->m);
        ok = ok && head_logits(r, at);
        *worst = fmax(*worst, difference(r, json_object_get(draft, "next")));
    }
    return ok;
}

static void judge(Tally *t, const char *name, const char *what, double worst) {
    if (worst <= LIMIT)
        tally_pass(t, "%s %s", name, what);
    else
        tally_fail(t, "%s: %s: expected within %g, got %g", name, what, LIMIT, worst);
}

/* Cells filled without a guess, then a last row in a pass of its own: the same bits as in one pass. */
static bool judge_cut(Run *r, const char *name, const int32_t *ids, int n, Tally *t) {
    size_t E = (size_t)r->E;
    float *whole = malloc(E * sizeof *whole);
    if (!whole) return false;
    memcpy(whole, r->guess + (size_t)(n - 1) * E, E * sizeof *whole);
    bool ok = run_head(r, ids, 0, n / 2, true) && run_head(r, ids, n / 2, n - 1 - n / 2, true) &&
              run_head(r, ids, n - 1, 1, false);
    bool same = ok && memcmp(whole, r->guess + (size_t)(n - 1) * E, E * sizeof *whole) == 0;
    if (same)
        tally_pass(t, "%s cut", name);
    else if (ok)
        tally_fail(t, "%s: cells filled in pieces give other bits", name);
    free(whole);
    return ok;
}

static void run_case(Tally *t, const char *name, const char *path, const json_t *expect) {
    const json_t *ids = json_object_get(expect, "ids"), *mtp = json_object_get(expect, "mtp");
    int n = (int)json_array_size(ids);
    int32_t tokens[MOST];
    double trunk = 0, head = 0, draft = 0;
    bool drafts_match = true;
    Run r;
    if (access(path, R_OK) != 0) {
        tally_skip(t, "%s: its model is not there", name);
        return;
    }
    if (n < 3 || n > MOST - 16) {
        tally_fail(t, "%s: %d tokens", name, n);
        return;
    }
    for (int i = 0; i < n; i++) tokens[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    bool ok = open_run(&r, path);
    if (ok && !r.m.mtp) ok = th_fail(&r.err, THIMBLE_E_FORMAT, "no MTP head was found");
    ok = ok && run_trunk(&r, tokens, n, json_object_get(expect, "trunk"), &trunk) && run_head(&r, tokens, 0, n, false);
    for (int p = 0; ok && p < n; p++) {
        ok = head_logits(&r, p);
        head = fmax(head, difference(&r, json_array_get(mtp, (size_t)p)));
    }
    ok = ok && run_drafts(&r, n, json_object_get(expect, "draft"), &draft, &drafts_match) &&
         judge_cut(&r, name, tokens, n, t);
    if (ok) {
        judge(t, name, "trunk", trunk);
        judge(t, name, "head", head);
        judge(t, name, "drafts", draft);
        if (drafts_match)
            tally_pass(t, "%s draft tokens", name);
        else
            tally_fail(t, "%s: drafts other tokens", name);
    } else {
        tally_fail(t, "%s: %s", name, r.err.message);
    }
    close_run(&r);
}

bool vectors_mtp(const char *dir, Tally *t) {
    struct dirent **names = NULL;
    int n = scandir(dir, &names, NULL, alphasort), found = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/expect.json", dir, names[i]->d_name);
        json_t *expect = names[i]->d_name[0] == '.' ? NULL : json_load_file(path, 0, NULL);
        if (expect) {
            found++;
            snprintf(path, sizeof path, "%s/%s/model.gguf", dir, names[i]->d_name);
            if (access(path, F_OK) == 0)
                run_case(t, names[i]->d_name, path, expect);
            else
                tally_skip(t, "%s: its model is not here", names[i]->d_name);
            json_decref(expect);
        }
        free(names[i]);
    }
    free(names);
    return found > 0;
}
