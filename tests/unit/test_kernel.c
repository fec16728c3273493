/* test_kernel.c: the table: a kernel for every weight type whatever the mask, in the activation form of its family. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "kernel/kernel.h"
#include "os/cpu.h"

static bool is_weight(const TypeInfo *t) {
    return strcmp(t->family, "int") != 0 && t->id != TYPE_F64 && t->id != TYPE_Q8_1 && t->id != TYPE_Q8_K;
}

static void every_weight_type_has_a_kernel(void **state) {
    (void)state;
    const unsigned masks[] = {0, ISA_C, th_cpu_isa()};
    for (size_t m = 0; m < TH_COUNT(masks); m++) {
        Kernels k;
        memset(&k, 0xA5, sizeof k);
        th_kernels_init(&k, masks[m]);
        for (uint32_t id = 0; id < N_TYPES; id++) {
            const TypeInfo *t = th_type_info(id);
            if (!t || !is_weight(t)) {
                assert_null(k.mat[id]);
                continue;
            }
            assert_non_null(k.mat[id]);
            assert_non_null(k.mat[id]->row1);
            assert_non_null(k.mat[id]->rows);
            assert_non_null(strstr(k.mat[id]->origin, t->family));
            ActForm want = t->block == 256 ? ACT_Q8_K : t->block == 1 ? ACT_F32 : ACT_Q8_0;
            assert_int_equal(k.mat[id]->act, want);
        }
        for (int f = 0; f < N_ACT_FORMS; f++) assert_non_null(k.act[f]);
        assert_non_null(k.vec.dot_f32);
        assert_non_null(k.vec.max);
    }
}

static void c_is_what_a_mask_of_c_gives(void **state) {
    (void)state;
    Kernels k;
    th_kernels_init(&k, ISA_C);
    for (uint32_t id = 0; id < N_TYPES; id++) {
        if (!k.mat[id]) continue;
        const char *origin = k.mat[id]->origin;
        assert_string_equal(origin + strlen(origin) - 2, "_c");
    }
    assert_string_equal(k.vec.origin, "vec_c");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_weight_type_has_a_kernel),
        cmocka_unit_test(c_is_what_a_mask_of_c_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
