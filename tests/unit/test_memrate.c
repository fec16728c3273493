/* test_memrate.c: the reading that tells how fast memory is: it covers small, odd and missing regions. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "os/memrate.h"

static void any_region_has_a_rate(void **state) {
    static const size_t sizes[] = {1, 63, 64, 100000, 256 * 1024, 256 * 1024 + 1, 3 * 1024 * 1024 + 17};
    for (int threads = 1; threads <= 3; threads++) {
        Pool *pool;
        Err err = {0};
        assert_true(th_pool_open(&pool, threads, &err));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            char *region = malloc(sizes[i]); /* exactly: a sanitizer sees a byte too far */
            assert_non_null(region);
            memset(region, 1, sizes[i]);
            assert_true(th_memory_rate(pool, region, sizes[i]) > 0);
            free(region);
        }
        assert_true(th_memory_rate(pool, NULL, 0) == 0);
        th_pool_close(pool);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_region_has_a_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
