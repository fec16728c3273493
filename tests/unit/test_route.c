/* test_route.c: which experts a token uses: against numbers computed from the specification, and the odd cases. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/ops.h"

enum { MOST = 64 };

static RouteSpec spec_of(const json_t *c, const float *bias, size_t n_bias, int X) {
    return (RouteSpec){.X = X, .K = (int)op_number(c, "k", 0), .gating = (int)op_number(c, "gating", 0),
                       .groups = (int)op_number(c, "groups", 0), .groups_used = (int)op_number(c, "groups_used", 0),
                       .norm = op_number(c, "norm", 0) != 0, .weight_scale = (float)op_number(c, "scale", 0),
                       .bias = n_bias ? bias : NULL};
}

static void check_case(const json_t *c, size_t number) {
    float logits[MOST], bias[MOST], want[MOST], selected[MOST], weights[MOST], tmp[4 * MOST];
    int ids[MOST];
    uint64_t changed = 0;
    size_t X = op_numbers(json_object_get(c, "logits"), logits, MOST);
    size_t n_bias = op_numbers(json_object_get(c, "bias"), bias, MOST);
    RouteSpec spec = spec_of(c, bias, n_bias, (int)X);
    th_route(&spec, logits, NULL, 0, ids, weights, tmp, &changed);
    op_numbers(json_object_get(c, "selected"), selected, MOST);
    op_numbers(json_object_get(c, "weights"), want, MOST);
    for (int k = 0; k < spec.K; k++) {
        if (k > 0) assert_true(ids[k] > ids[k - 1]);
        int at = 0;
        while (at < spec.K && (int)selected[at] != ids[k]) at++;
        if (at == spec.K) fail_msg("case %zu: expert %d was not to be selected", number, ids[k]);
        assert_float_equal(weights[k], want[at], 1e-5f * fabsf(want[at]) + 1e-7f);
    }
    assert_int_equal(changed, 0);
}

static void vectors_agree(void **state) {
    (void)state;
    json_t *data = op_data("moe_routing"), *cases = json_object_get(data, "cases");
    assert_true(json_array_size(cases) > 20);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(json_array_get(cases, i), i);
    json_decref(data);
}

static void lower_index_wins_ties(void **state) {
    (void)state;
    float logits[8] = {1, 2, 2, 2, 0, 2, 2, 1}, weights[3], tmp[32];
    int ids[3];
    uint64_t changed = 0;
    RouteSpec spec = {.X = 8, .K = 3, .gating = 1};
    th_route(&spec, logits, NULL, 0, ids, weights, tmp, &changed);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 3);
}

/* Broken activations must give broken logits further on, not a wild expert number here. */
static void broken_logits_stay_in_range(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < TH_COUNT(bad); b++)
        for (int gating = 1; gating <= 4; gating++) {
            float logits[16], weights[4], tmp[64];
            int ids[4];
            uint64_t changed = 0;
            for (int i = 0; i < 16; i++) logits[i] = bad[b];
            RouteSpec spec = {.X = 16, .K = 4, .gating = gating, .norm = true, .groups = 4, .groups_used = 2};
            th_route(&spec, logits, NULL, 0, ids, weights, tmp, &changed);
            for (int k = 0; k < 4; k++) {
                assert_in_range(ids[k], 0, 15);
                if (k > 0) assert_true(ids[k] > ids[k - 1]);
            }
        }
}

static void bias_prefers_what_is_in_memory(void **state) {
    (void)state;
    float logits[6] = {0.5f, 0.4f, 0.3f, 0.2f, 0.1f, 0}, plain[2], weights[2], tmp[24];
    bool resident[6] = {false, true, false, false, false, true};
    int ids[2];
    uint64_t changed = 0;
    RouteSpec spec = {.X = 6, .K = 2, .gating = 1, .norm = false};
    th_route(&spec, logits, resident, 0, ids, plain, tmp, &changed);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 1);
    assert_int_equal(changed, 0);
    th_route(&spec, logits, resident, 1.0f, ids, weights, tmp, &changed);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 5);
    assert_int_equal(changed, 1);
    assert_float_equal(weights[0], plain[1], 0); /* the bias selects; it does not weigh */
}

/* The router's products: one order for every machine, thread count and number of rows. */
static void logits_do_not_depend_on_the_cut(void **state) {
    (void)state;
    enum { X = 37, E = 75, T = 11 };
    static float router[X * E], x[T * E], bias[X], all[T * X], one[X];
    srand(5);
    for (int i = 0; i < X * E; i++) router[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < T * E; i++) x[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < X; i++) bias[i] = (float)i;
    OpTest many, single;
    op_test_open(&many, 3, ISA_ALL);
    op_test_open(&single, 1, ISA_C);
    th_route_logits(&many.pass, all, router, bias, x, X, E, T);
    for (int t = 0; t < T; t++) {
        th_route_logits(&single.pass, one, router, bias, x + t * E, X, E, 1);
        assert_memory_equal(one, all + t * X, sizeof one);
        double sum = bias[X - 1];
        for (int i = 0; i < E; i++) sum += (double)router[(X - 1) * E + i] * (double)x[t * E + i];
        assert_float_equal(one[X - 1], (float)sum, 1e-5f);
    }
    op_test_close(&many);
    op_test_close(&single);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_agree),
        cmocka_unit_test(lower_index_wins_ties),
        cmocka_unit_test(broken_logits_stay_in_range),
        cmocka_unit_test(bias_prefers_what_is_in_memory),
        cmocka_unit_test(logits_do_not_depend_on_the_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
