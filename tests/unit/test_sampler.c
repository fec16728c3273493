/* test_sampler.c: odd parameters, ties, non-finite logits, and that what is kept is what the rules say. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "session/sampler.h"

enum { MAX_V = 512 };
static Candidate scratch[MAX_V];

static bool pick(ThimbleSampler *sm, const float *logits, int n, const int32_t *history, size_t n_history,
                 int32_t *token, uint64_t *nonfinite, Err *err) {
    SampleInput in = {.logits = logits, .n_vocab = n, .history = history, .n_history = n_history, .scratch = scratch};
    return th_sampler_pick(sm, &in, token, nonfinite, err);
}

static ThimbleSampler plain(void) {
    return (ThimbleSampler){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};
}

static void tiny_temperature_is_greedy(void **state) {
    (void)state;
    const float logits[] = {0, 100, 9, 100};
    const float temperatures[] = {0, 1e-30f, 1e-7f};
    for (size_t i = 0; i < TH_COUNT(temperatures); i++) {
        ThimbleSampler sm = plain();
        sm.temperature = temperatures[i];
        int32_t token = -1;
        uint64_t bad = 0;
        assert_true(pick(&sm, logits, 4, NULL, 0, &token, &bad, NULL));
        assert_int_equal(token, 1); /* lowest id wins the tie */
    }
}

static void bad_parameters_are_refused(void **state) {
    (void)state;
    const float logits[] = {0, 1};
    for (int i = 0; i < 8; i++) {
        ThimbleSampler sm = plain();
        if (i == 0) sm.temperature = NAN;
        if (i == 1) sm.temperature = -1;
        if (i == 2) sm.temperature = INFINITY;
        if (i == 3) sm.top_p = -0.1f;
        if (i == 4) sm.top_p = NAN;
        if (i == 5) sm.min_p = 1.5f;
        if (i == 6) sm.top_k = -1;
        if (i == 7) sm.repeat_penalty = 0;
        int32_t token;
        uint64_t bad = 0;
        Err err = {0};
        assert_false(pick(&sm, logits, 2, NULL, 0, &token, &bad, &err));
        assert_int_equal(err.code, THIMBLE_E_ARG);
    }
}

static void one_always_remains(void **state) {
    (void)state;
    const float logits[] = {1, 5, 2};
    ThimbleSampler sm = plain();
    sm.top_p = 0;
    int32_t token;
    uint64_t bad = 0;
    assert_true(pick(&sm, logits, 3, NULL, 0, &token, &bad, NULL));
    assert_int_equal(token, 1);
    sm = plain();
    sm.min_p = 1;
    assert_true(pick(&sm, logits, 3, NULL, 0, &token, &bad, NULL));
    assert_int_equal(token, 1);
}

static void non_finite_is_ignored_and_counted(void **state) {
    (void)state;
    const float logits[] = {NAN, INFINITY, 2, -INFINITY};
    ThimbleSampler sm = plain();
    int32_t token;
    uint64_t bad = 0;
    assert_true(pick(&sm, logits, 4, NULL, 0, &token, &bad, NULL));
    assert_int_equal(token, 2);
    assert_int_equal(bad, 2);
    const float nothing[] = {NAN, -INFINITY};
    Err err = {0};
    assert_false(pick(&sm, nothing, 2, NULL, 0, &token, &bad, &err));
    assert_int_equal(err.code, THIMBLE_E_STATE);
}

static void penalty_counts_each_token_once(void **state) {
    (void)state;
    const float logits[] = {4.0f, 3.0f, -1.0f};
    const int32_t history[] = {0, 0, 0};
    ThimbleSampler sm = plain();
    sm.temperature = 0;
    sm.repeat_penalty = 1.3f; /* 4 / 1.3 = 3.08 stays ahead if applied once, 4 / 1.69 would not */
    int32_t token;
    uint64_t bad = 0;
    assert_true(pick(&sm, logits, 3, history, 3, &token, &bad, NULL));
    assert_int_equal(token, 0);
    sm.repeat_penalty = 1.4f;
    assert_true(pick(&sm, logits, 3, history, 3, &token, &bad, NULL));
    assert_int_equal(token, 1);
    sm.repeat_last_n = 0;
    assert_true(pick(&sm, logits, 3, history, 3, &token, &bad, NULL));
    assert_int_equal(token, 0);
}

static int by_rank(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

/* Draws often and checks that exactly the tokens a full sort would keep ever come out. */
static void kept_set_equals_a_full_sort(void **state) {
    (void)state;
    uint64_t rng[4];
    th_rng_seed(rng, 7);
    for (int round = 0; round < 60; round++) {
        int n = 2 + (int)(th_rng_next(rng) % 60);
        float logits[MAX_V];
        Candidate sorted[MAX_V];
        for (int i = 0; i < n; i++) {
            logits[i] = (float)(th_rng_next(rng) % 40) * 0.1f;
            sorted[i] = (Candidate){logits[i], i};
        }
        qsort(sorted, (size_t)n, sizeof *sorted, by_rank);
        ThimbleSampler sm = plain();
        sm.top_k = (int)(th_rng_next(rng) % 20);
        sm.top_p = 0.05f + 0.9f * (float)th_rng_unit(rng);
        int k = sm.top_k && sm.top_k < n ? sm.top_k : n, kept = 0;
        double total = 0, sum = 0;
        for (int i = 0; i < k; i++) total += exp((double)sorted[i].logit - sorted[0].logit);
        while (kept < k && (kept == 0 || sum < sm.top_p * total))
            sum += exp((double)sorted[kept++].logit - sorted[0].logit);
        bool expected[MAX_V] = {false}, seen[MAX_V] = {false};
        for (int i = 0; i < kept; i++) expected[sorted[i].id] = true;
        for (int draw = 0; draw < 3000; draw++) {
            int32_t token;
            uint64_t bad = 0;
            assert_true(pick(&sm, logits, n, NULL, 0, &token, &bad, NULL));
            assert_true(expected[token]);
            seen[token] = true;
        }
        for (int i = 0; i < kept; i++)
            assert_true(seen[sorted[i].id] || exp((double)sorted[i].logit - sorted[0].logit) / sum < 0.01);
    }
}

static void same_seed_same_tokens(void **state) {
    (void)state;
    float logits[100];
    for (int i = 0; i < 100; i++) logits[i] = (float)(i % 7);
    ThimbleSampler a = plain(), b = plain();
    a.seed = b.seed = 42;
    for (int i = 0; i < 50; i++) {
        int32_t x, y;
        uint64_t bad = 0;
        assert_true(pick(&a, logits, 100, NULL, 0, &x, &bad, NULL));
        assert_true(pick(&b, logits, 100, NULL, 0, &y, &bad, NULL));
        assert_int_equal(x, y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_temperature_is_greedy),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(one_always_remains),
        cmocka_unit_test(non_finite_is_ignored_and_counted),
        cmocka_unit_test(penalty_counts_each_token_once),
        cmocka_unit_test(kept_set_equals_a_full_sort),
        cmocka_unit_test(same_seed_same_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
