/* test_norm.c: norms and activation functions over whole activations, against numbers from the specification. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/ops.h"

static void norms_agree(void **state) {
    (void)state;
    json_t *data = op_data("norms");
    float x[80], w[16], y[80], got[80];
    OpTest t;
    op_test_open(&t, 2, ISA_ALL);
    size_t n = op_numbers(json_object_get(data, "x"), x, 80);
    assert_int_equal(op_numbers(json_object_get(data, "w"), w, 16), 16);
    assert_int_equal(n, 80);
    static const struct {
        const char *key;
        float eps;
    } cases[] = {{"rms_eps1e-6", 1e-6f}, {"rms_eps1e-5", 1e-5f}};
    for (size_t c = 0; c < 2; c++) {
        assert_int_equal(op_numbers(json_object_get(data, cases[c].key), y, 80), 80);
        th_rms_norm(&t.pass, got, x, w, 16, 5, cases[c].eps);
        for (int i = 0; i < 80; i++) assert_float_equal(got[i], y[i], 1e-5f * fabsf(y[i]) + 1e-7f);
        float in_place[80];
        memcpy(in_place, x, sizeof x);
        th_rms_norm(&t.pass, in_place, in_place, w, 16, 5, cases[c].eps);
        assert_memory_equal(in_place, got, sizeof got);
    }
    op_test_close(&t);
    json_decref(data);
}

static void activations_agree(void **state) {
    (void)state;
    json_t *data = op_data("activations");
    float x[48], u[48], silu[48], gelu[48], got[48];
    OpTest t;
    op_test_open(&t, 1, ISA_ALL);
    assert_int_equal(op_numbers(json_object_get(data, "x"), x, 48), 48);
    op_numbers(json_object_get(data, "u"), u, 48);
    op_numbers(json_object_get(data, "swiglu"), silu, 48);
    op_numbers(json_object_get(data, "geglu"), gelu, 48);
    memcpy(got, x, sizeof x);
    th_act_mul(&t.pass, ACT_FN_SILU, got, u, 48, 48, 1);
    for (int i = 0; i < 48; i++) assert_float_equal(got[i], silu[i], 1e-5f * fabsf(silu[i]) + 1e-7f);
    memcpy(got, x, sizeof x);
    th_act_mul(&t.pass, ACT_FN_GELU, got, u, 48, 48, 1);
    for (int i = 0; i < 48; i++) assert_float_equal(got[i], gelu[i], 1e-5f * fabsf(gelu[i]) + 1e-6f);
    op_test_close(&t);
    json_decref(data);
}

/* Pieces handed to threads, rows with a stride: element by element the same, and nothing between the rows is touched.
 */
static void pieces_do_not_show(void **state) {
    (void)state;
    enum { N = 5000, STRIDE = 5008, T = 3 };
    static float gate[STRIDE * T], up[STRIDE * T], want[STRIDE * T], plain[N];
    OpTest t, one;
    op_test_open(&t, 3, ISA_ALL);
    op_test_open(&one, 1, ISA_C);
    for (int i = 0; i < STRIDE * T; i++) gate[i] = want[i] = sinf((float)i) * 5, up[i] = cosf((float)i);
    th_act_mul(&t.pass, ACT_FN_SILU, gate, up, N, STRIDE, T);
    for (int r = 0; r < T; r++) one.pass.k->vec.silu_mul(want + r * STRIDE, up + r * STRIDE, N);
    assert_memory_equal(gate, want, sizeof gate);
    th_add(&t.pass, gate, up, STRIDE * T);
    th_scale(&t.pass, gate, 0.25f, STRIDE * T);
    for (int i = 0; i < STRIDE * T; i++) assert_float_equal(gate[i], (want[i] + up[i]) * 0.25f, 0);
    for (int i = 0; i < N; i++) plain[i] = (float)(i - 2500) * 0.01f;
    th_softcap(&t.pass, plain, 5, N);
    for (int i = 0; i < N; i++) assert_float_equal(plain[i], 5 * tanhf((float)(i - 2500) * 0.01f / 5), 1e-6f);
    op_test_close(&t);
    op_test_close(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_agree), cmocka_unit_test(activations_agree),
                                       cmocka_unit_test(pieces_do_not_show)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
