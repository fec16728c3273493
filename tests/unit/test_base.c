/* test_base.c: conversions, ledger, arena, map, strings. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/str.h"

static void f16_round_trips(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = th_f16_to_f32((uint16_t)h);
        if (isnan(f)) continue;
        assert_int_equal(th_f32_to_f16(f), h);
    }
    assert_int_equal(th_f32_to_f16(65519.0f), 0x7BFF);
    assert_int_equal(th_f32_to_f16(65520.0f), 0x7C00);
    assert_int_equal(th_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(th_f32_to_f16(0x1.000002p-25f), 1);
    assert_true(isnan(th_f16_to_f32(th_f32_to_f16(NAN))));
}

static void sizes_do_not_wrap(void **state) {
    (void)state;
    uint64_t out = 7;
    assert_false(th_size_mul(UINT64_MAX / 2, 3, &out));
    assert_false(th_size_add(UINT64_MAX, 1, &out));
    assert_int_equal(out, 7);
    assert_true(th_align_up(UINT64_MAX - 1, 4096) != 0);
}

static void ledger_is_hard(void **state) {
    (void)state;
    Budget b;
    Err err = {0};
    th_budget_init(&b, 1000);
    assert_true(th_budget_take(&b, MEM_KV, 600, &err));
    assert_false(th_budget_take(&b, MEM_SLOTS, 401, &err));
    assert_int_equal(err.code, THIMBLE_E_BUDGET);
    assert_true(th_budget_take(&b, MEM_SLOTS, 400, &err));
    th_budget_give(&b, MEM_KV, 600);
    assert_int_equal(b.used, 400);
    assert_int_equal(b.peak, 1000);
    th_budget_free(&b);
}

static void arena_and_map(void **state) {
    (void)state;
    Budget b;
    Err err = {0};
    Arena a;
    Map m;
    th_budget_init(&b, UINT64_MAX);
    th_arena_init(&a, &b, MEM_METADATA);
    enum { N = 5000 };
    assert_true(th_map_init(&m, &a, N, &err));
    for (uint32_t i = 0; i < N; i++) {
        char text[32];
        snprintf(text, sizeof text, "key%u", i);
        char *copy = th_arena_dup(&a, text, strlen(text), &err);
        assert_non_null(copy);
        assert_true(th_map_put(&m, th_str(copy), i));
    }
    uint32_t v = 0;
    assert_true(th_map_get(&m, TH_STR("key4999"), &v));
    assert_int_equal(v, 4999);
    assert_false(th_map_get(&m, TH_STR("key5000"), &v));
    assert_false(th_map_put(&m, TH_STR("key0"), 9));
    assert_null(th_arena_array(&a, SIZE_MAX / 2, 16, &err));
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    th_arena_free(&a);
    assert_int_equal(b.used, 0);
    th_budget_free(&b);
}

static void escape_and_errors(void **state) {
    (void)state;
    char out[64];
    th_str_escape((Str){"a\x1b[\xff\xc3\xa9", 6}, out, sizeof out);
    assert_string_equal(out, "a\\x1B[\\xFF\xc3\xa9");
    Err err = {0};
    assert_false(th_fail(&err, THIMBLE_E_IO, "x %d", 3));
    th_err_prefix(&err, "layer %d: ", 7);
    assert_string_equal(err.message, "layer 7: x 3");
    assert_false(th_fail(NULL, 0, "nothing"));
}

static void rng_is_stable(void **state) {
    (void)state;
    uint64_t a[4], b[4];
    th_rng_seed(a, 1);
    th_rng_seed(b, 1);
    for (int i = 0; i < 100; i++) assert_true(th_rng_next(a) == th_rng_next(b));
    double u = th_rng_unit(a);
    assert_true(u >= 0 && u < 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_round_trips), cmocka_unit_test(sizes_do_not_wrap), cmocka_unit_test(ledger_is_hard),
        cmocka_unit_test(arena_and_map),   cmocka_unit_test(escape_and_errors), cmocka_unit_test(rng_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
