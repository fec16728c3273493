/* replay.c: see replay.h. Binary32 cache; context 256, as the oracle's was (it decides between the factors of
 * longrope), or what a longer case needs. */
#include "runner/replay.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_architecture(const char *name) {
    const char *list = thimble_architectures(), *at = list;
    size_t len = strlen(name);
    while ((at = strstr(at, name))) {
        bool starts = at == list || at[-1] == ' ' || at[-1] == ',';
        if (starts && (at[len] == '\0' || at[len] == ',')) return true;
        at += len;
    }
    return false;
}

/* Of all arrays of integers, the most there are in one. */
static int longest_ids(json_t *j) {
    int n = (int)json_array_size(j), longest = 0;
    const char *key;
    json_t *value;
    if (n > 0 && json_is_integer(json_array_get(j, 0))) return n;
    for (int i = 0; i < n; i++) longest = th_max_int(longest, longest_ids(json_array_get(j, (size_t)i)));
    json_object_foreach(j, key, value) longest = th_max_int(longest, longest_ids(value));
    return longest;
}

int replay_open(Replay *r, const char *path, json_t *expect) {
    ThimbleError e = {0};
    ThimbleModelOptions o;
    *r = (Replay){0};
    thimble_model_options_init(&o);
    o.load = THIMBLE_LOAD_NOTHING;
    ThimbleModel *m = NULL;
    if (thimble_model_open(&m, path, &o, &e) == THIMBLE_OK) {
        const ThimbleModelInfo *info = thimble_model_info(m);
        bool known = has_architecture(info->architecture);
        snprintf(r->why, sizeof r->why, "architecture %s", info->architecture);
        thimble_model_close(m);
        if (!known) return 0;
    }
    o.load = THIMBLE_LOAD_ALL;
    o.context = th_max_int(256, 2 * longest_ids(expect)); /* a prompt, and what is fed after it */
    o.cache_type = THIMBLE_CACHE_F32;
    if (thimble_model_open(&r->model, path, &o, &e) != THIMBLE_OK ||
        thimble_session_open(&r->session, r->model, NULL, &e) != THIMBLE_OK) {
        snprintf(r->why, sizeof r->why, "%s", e.message);
        return -1;
    }
    r->n_vocab = (size_t)thimble_model_info(r->model)->n_vocab;
    r->logp = calloc(r->n_vocab, sizeof *r->logp);
    return r->logp ? 1 : -1;
}

void replay_close(Replay *r) {
    thimble_session_close(r->session);
    thimble_model_close(r->model);
    free(r->logp);
    *r = (Replay){0};
}

bool replay_restart(Replay *r) {
    ThimbleError e = {0};
    if (thimble_session_rewind(r->session, 0, &e) == THIMBLE_OK) return true;
    snprintf(r->why, sizeof r->why, "%s", e.message);
    return false;
}

bool replay_feed(Replay *r, const int32_t *tokens, size_t n) {
    ThimbleError e = {0};
    size_t n_vocab;
    if (thimble_session_eval(r->session, tokens, n, &e) != THIMBLE_OK) {
        snprintf(r->why, sizeof r->why, "%s", e.message);
        return false;
    }
    const float *logits = thimble_session_logits(r->session, &n_vocab);
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n_vocab; i++) max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < n_vocab; i++) sum += exp((double)logits[i] - max);
    for (size_t i = 0; i < n_vocab; i++) r->logp[i] = (double)logits[i] - max - log(sum);
    return true;
}

double replay_top_difference(const Replay *r, const json_t *top) {
    double worst = 0;
    size_t i;
    json_t *pair;
    json_array_foreach(top, i, pair) {
        size_t id = (size_t)json_integer_value(json_array_get(pair, 0));
        double want = json_number_value(json_array_get(pair, 1));
        double difference = id < r->n_vocab ? fabs(r->logp[id] - want) : INFINITY;
        if (!(difference <= worst)) worst = difference; /* NaN is worse than anything */
    }
    return worst;
}

int32_t replay_best(const Replay *r) {
    size_t best = 0;
    for (size_t i = 1; i < r->n_vocab; i++)
        if (r->logp[i] > r->logp[best]) best = i;
    return (int32_t)best;
}

size_t replay_ids(const json_t *array, int32_t *out, size_t cap) {
    size_t n = json_array_size(array);
    if (n > cap) n = cap;
    for (size_t i = 0; i < n; i++) out[i] = (int32_t)json_integer_value(json_array_get(array, i));
    return n;
}

static int keep_folders(const struct dirent *d) { return d->d_name[0] != '.'; }

bool replay_cases(const char *dir, Tally *t, ReplayCase *judge) {
    struct dirent **names = NULL;
    int n = scandir(dir, &names, keep_folders, alphasort), found = 0;
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s/expect.json", dir, names[i]->d_name);
        json_t *expect = json_load_file(path, 0, NULL);
        if (expect) {
            Replay r;
            found++;
            snprintf(path, sizeof path, "%s/%s/model.gguf", dir, names[i]->d_name);
            int ready = replay_open(&r, path, expect);
            if (ready > 0) judge(t, names[i]->d_name, &r, expect);
            else if (ready == 0) tally_skip(t, "%s: %s is not in this build", names[i]->d_name, r.why);
            else tally_fail(t, "%s: %s", names[i]->d_name, r.why);
            replay_close(&r);
            json_decref(expect);
        }
        free(names[i]);
    }
    free(names);
    return found > 0;
}
