/* test_loops.c: what counts as a loop, at its edges. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tools/common/loops.h"

enum { MOST = 600 };

/* `lead` different tokens, then a pattern of `period` different tokens until `repeated` tokens are there. */
static size_t make(int32_t *id, size_t lead, size_t period, size_t repeated) {
    for (size_t i = 0; i < lead; i++) id[i] = (int32_t)(1000 + i);
    for (size_t i = 0; i < repeated; i++) id[lead + i] = (int32_t)(i % period);
    return lead + repeated;
}

static void every_period_is_found_at_its_shortest(void **state) {
    (void)state;
    int32_t id[MOST];
    for (size_t period = 1; period <= LOOP_MAX_PERIOD; period++) {
        size_t need = 4 * period > 48 ? 4 * period : 48;
        for (size_t lead = 0; lead <= 90; lead += 30) {
            assert_int_equal(loop_period(id, make(id, lead, period, need)), period);
            assert_int_equal(loop_period(id, make(id, lead, period, need - 1)), 0);
            assert_int_equal(loop_period(id, make(id, lead, period, need + 7)), period);
        }
    }
}

static void longer_periods_are_none(void **state) {
    (void)state;
    int32_t id[MOST];
    assert_int_equal(loop_period(id, make(id, 0, LOOP_MAX_PERIOD + 1, 65 * 5)), 0);
    assert_int_equal(loop_period(id, make(id, 500, 1, 0)), 0);
    assert_int_equal(loop_period(id, 0), 0);
    assert_int_equal(loop_period(id, 1), 0);
}

/* It is the end that counts: a loop the answer got out of is none. */
static void a_loop_that_was_left_is_none(void **state) {
    (void)state;
    int32_t id[MOST];
    size_t n = make(id, 10, 7, 100);
    id[n] = 5000;
    assert_int_equal(loop_period(id, n + 1), 0);
    id[60] = 5000; /* 49 tokens after it */
    assert_int_equal(loop_period(id, n), 7);
    id[62] = 5000; /* 47 */
    assert_int_equal(loop_period(id, n), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_period_is_found_at_its_shortest),
                                       cmocka_unit_test(longer_periods_are_none),
                                       cmocka_unit_test(a_loop_that_was_left_is_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
