/* test_type.c: the list of tensor types and what refused ids are called. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "quant/layout.h"
#include "quant/type.h"

static void list_is_consistent(void **state) {
    (void)state;
    int n = 0;
    for (uint32_t id = 0; id < 500; id++) {
        const TypeInfo *t = th_type_info(id);
        if (!t) continue;
        n++;
        assert_int_equal(t->id, id);
        assert_null(th_type_foreign(id));
        assert_int_equal(th_type_row_bytes(t, (uint64_t)t->block * 3), t->bytes * 3);
        assert_true((t->dequantize == NULL) == (strcmp(t->family, "int") == 0));
        for (uint32_t other = 0; other < id; other++) {
            if (th_type_info(other)) assert_string_not_equal(th_type_info(other)->name, t->name);
        }
    }
    assert_int_equal(n, 37);
}

static void foreign_ids_are_named(void **state) {
    (void)state;
    assert_non_null(strstr(th_type_foreign(4), "Q4_2"));
    assert_non_null(strstr(th_type_foreign(36), "I2_S"));
    assert_non_null(strstr(th_type_foreign(139), "IQ4_K of ik_llama.cpp"));
    assert_non_null(th_type_foreign(202));
    assert_non_null(th_type_foreign(399));
    assert_null(th_type_foreign(400));
    assert_null(th_type_foreign(43));
    assert_null(th_type_info(4));
    assert_null(th_type_info(N_TYPES));
    assert_null(th_type_info(UINT32_MAX));
}

static void row_sizes_are_checked(void **state) {
    (void)state;
    const TypeInfo *q6 = th_type_info(TYPE_Q6_K), *f64 = th_type_info(TYPE_F64);
    assert_int_equal(th_type_row_bytes(q6, 512), 420);
    assert_int_equal(th_type_row_bytes(q6, 100), 0);
    assert_int_equal(th_type_row_bytes(f64, UINT64_MAX / 4), 0);
    assert_int_equal(th_type_row_bytes(q6, UINT64_MAX - 255), UINT64_MAX / 256 * 210);
}

static void signs_have_even_parity(void **state) {
    (void)state;
    for (unsigned k = 0; k < 128; k++) {
        assert_int_equal(th_even_signs(k) & 127, k);
        assert_int_equal(__builtin_popcount(th_even_signs(k)) % 2, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list_is_consistent),
        cmocka_unit_test(foreign_ids_are_named),
        cmocka_unit_test(row_sizes_are_checked),
        cmocka_unit_test(signs_have_even_parity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
