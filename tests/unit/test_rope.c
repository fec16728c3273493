/* test_rope.c: rotary embedding against numbers computed in binary64 from the specification. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "common/ops.h"

static RopeNumbers numbers_of(const json_t *c, float *factors) {
    const char *layout = json_string_value(json_object_get(c, "layout"));
    RopeNumbers n = {.kind = strcmp(layout, "norm") == 0 ? ROPE_NORM : ROPE_NEOX, .freq_scale = 1, .attn_factor = 1};
    n.dims = (int)op_number(c, "R", 0);
    n.base = op_number(c, "base", 0);
    n.freq_scale = 1 / op_number(c, "factor", 1);
    n.n_ctx_orig = (int)op_number(c, "original_context", 0);
    n.beta_fast = op_number(c, "beta_fast", 32);
    n.beta_slow = op_number(c, "beta_slow", 1);
    n.ext = n.n_ctx_orig ? 1 : 0;
    n.yarn_magnitude = true;
    if (op_numbers(json_object_get(c, "ff"), factors, 128) > 0) n.factors = factors;
    return n;
}

static void vectors_agree(void **state) {
    (void)state;
    json_t *data = op_data("rope"), *cases = json_object_get(data, "cases");
    OpTest t;
    op_test_open(&t, 1, ISA_C);
    int checked = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (json_object_get(c, "sections")) continue; /* several position streams: for images */
        float x[256], y[256], factors[128];
        double freq[128];
        size_t D = op_numbers(json_object_get(c, "x"), x, 256);
        op_numbers(json_object_get(c, "y"), y, 256);
        RopeNumbers n = numbers_of(c, factors);
        Rope rope;
        assert_true(th_rope_init(&rope, &n, freq, &t.err));
        if (json_object_get(c, "magnitude"))
            assert_float_equal(rope.magnitude, (float)op_number(c, "magnitude", 0), 1e-6f);
        op_test_rows(&t, (int)op_number(c, "pos", 0), 1);
        size_t mark = th_scratch_mark(&t.pass);
        t.pass.rope[0] = &rope;
        t.pass.rope_cs[0] = th_rope_table(&t.pass, &rope);
        th_rope(&t.pass, 0, x, 1, (int)D);
        th_scratch_reset(&t.pass, mark);
        if (op_difference(x, y, D) > 1e-6) fail_msg("case %zu: off by %g", i, op_difference(x, y, D));
        checked++;
    }
    assert_int_equal(checked, 40);
    op_test_close(&t);
    json_decref(data);
}

/* Several rows and heads, strided, on threads: each row as if it were alone. */
static void rows_do_not_mix(void **state) {
    (void)state;
    enum { T = 9, HEADS = 3, STRIDE = 20, R = 16 };
    float many[T * HEADS * STRIDE], one[HEADS * STRIDE];
    double freq[R / 2];
    Rope rope;
    OpTest t;
    op_test_open(&t, 3, ISA_C);
    RopeNumbers n = {.kind = ROPE_NEOX, .dims = R, .base = 1e4, .freq_scale = 1, .attn_factor = 1};
    assert_true(th_rope_init(&rope, &n, freq, &t.err));
    t.pass.rope[1] = &rope;
    for (int i = 0; i < T * HEADS * STRIDE; i++) many[i] = (float)(i % 37) - 18;
    op_test_rows(&t, 100, T);
    t.pass.rope_cs[1] = th_rope_table(&t.pass, &rope);
    th_rope(&t.pass, 1, many, HEADS, STRIDE);
    for (int row = 0; row < T; row++) {
        for (int i = 0; i < HEADS * STRIDE; i++) one[i] = (float)((row * HEADS * STRIDE + i) % 37) - 18;
        op_test_rows(&t, 100 + row, 1);
        t.pass.rope_cs[1] = th_rope_table(&t.pass, &rope);
        th_rope(&t.pass, 1, one, HEADS, STRIDE);
        assert_memory_equal(one, many + row * HEADS * STRIDE, sizeof one);
    }
    op_test_close(&t);
}

static void impossible_numbers_are_refused(void **state) {
    (void)state;
    double freq[8];
    float zero[8] = {0};
    Rope rope;
    Err err = {0};
    RopeNumbers n = {.kind = ROPE_NORM, .dims = 16, .base = 1e4, .freq_scale = 1, .attn_factor = 1, .factors = zero};
    assert_false(th_rope_init(&rope, &n, freq, &err));
    assert_int_equal(err.code, THIMBLE_E_FORMAT);
    n.factors = NULL, n.attn_factor = (double)NAN;
    assert_false(th_rope_init(&rope, &n, freq, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_agree), cmocka_unit_test(rows_do_not_mix),
                                       cmocka_unit_test(impossible_numbers_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
