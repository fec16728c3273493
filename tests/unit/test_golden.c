/* test_golden.c: every NAME.gguf of tests/golden gives the logits of NAME.json: exact ones, from a binary64 program
 * that shares nothing with the engine (tests/golden/make.py). A cache of binary32, the prompt in one pass and token by
 * token, in every home: the bits are then those of the first run. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thimble/thimble.h"

#define FOLDER "tests/golden"
static const double TOLERANCE = 1e-4; /* of logits between about -10 and 10 */

typedef struct Golden {
    const char *name;
    json_t *rows;
    double worst;
    size_t seen;
    float *first; /* [rows][n_vocab], of the first run */
    bool is_first, same;
} Golden;

static int compare_row(void *arg, size_t index, const float *logits, size_t n_vocab) {
    Golden *g = arg;
    json_t *row = json_array_get(g->rows, index);
    if (json_array_size(row) != n_vocab) return 1;
    if (!g->first) g->first = calloc(json_array_size(g->rows) * n_vocab, sizeof *g->first);
    if (!g->first) return 1;
    float *first = g->first + index * n_vocab;
    if (g->is_first) memcpy(first, logits, n_vocab * sizeof *first);
    if (memcmp(first, logits, n_vocab * sizeof *first) != 0) g->same = false;
    for (size_t i = 0; i < n_vocab; i++) {
        double d = fabs((double)logits[i] - json_number_value(json_array_get(row, i)));
        if (!(d <= g->worst)) g->worst = d;
    }
    g->seen++;
    return 0;
}

static void check_run(Golden *g, const char *path, const int32_t *tokens, size_t n, int home, int batch) {
    ThimbleModelOptions o;
    ThimbleModel *m = NULL;
    ThimbleSession *s = NULL;
    ThimbleError e = {0};
    thimble_model_options_init(&o);
    o.cache_type = THIMBLE_CACHE_F32;
    o.batch = batch;
    o.home = home;
    o.threads = 2;
    g->worst = 0, g->seen = 0, g->same = true, g->is_first = g->first == NULL;
    if (thimble_model_open(&m, path, &o, &e) != THIMBLE_OK || thimble_session_open(&s, m, NULL, &e) != THIMBLE_OK ||
        thimble_session_score(s, tokens, n, compare_row, g, &e) != THIMBLE_OK)
        fail_msg("%s: %s", g->name, e.message);
    thimble_session_close(s);
    thimble_model_close(m);
    if (g->seen != n || !(g->worst <= TOLERANCE))
        fail_msg("%s, home %d, passes of %d: %zu of %zu rows, off by %g", g->name, home, batch, g->seen, n, g->worst);
    if (!g->same) fail_msg("%s, home %d, passes of %d: other bits than in memory", g->name, home, batch);
}

static void check_model(const char *name) {
    char path[512];
    int32_t tokens[256];
    snprintf(path, sizeof path, FOLDER "/%.200s.json", name);
    json_t *want = json_load_file(path, 0, NULL), *ids = json_object_get(want, "tokens");
    Golden g = {.name = name, .rows = json_object_get(want, "logits")};
    size_t n = json_array_size(ids);
    assert_in_range(n, 1, 256);
    assert_int_equal(json_array_size(g.rows), n);
    for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    snprintf(path, sizeof path, FOLDER "/%.200s.gguf", name);
    for (int home = THIMBLE_HOME_RESIDENT; home <= THIMBLE_HOME_PAGED; home++) {
        check_run(&g, path, tokens, n, home, 512);
        check_run(&g, path, tokens, n, home, 1);
    }
    free(g.first);
    json_decref(want);
}

static void models_give_exact_logits(void **state) {
    (void)state;
    DIR *folder = opendir(FOLDER);
    int found = 0;
    assert_non_null(folder);
    for (struct dirent *d; (d = readdir(folder));) {
        char *end = strstr(d->d_name, ".gguf");
        if (!end || end[5]) continue;
        *end = '\0';
        check_model(d->d_name);
        found++;
    }
    closedir(folder);
    assert_true(found >= 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_give_exact_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
