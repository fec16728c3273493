/* test_weights.c: taking weights by name from files that may hold anything; parts; running out of budget at every
 * step. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/toy_store.h"
#include "weights/home.h"

static Toy toy;

static void open_toy(const WeightsOptions *o) {
    Err err = {0};
    if (!toy_open(&toy, o, 3, &err)) fail_msg("%s", err.message);
}

static void expect_refusal(const char *name, Shape shape, int flags, int code, const char *word) {
    Err err = {0};
    const Weight *w = toy.q[0];
    assert_false(th_weights_find(toy.ws, name, shape, flags, &w, &err));
    assert_int_equal(err.code, code);
    assert_null(w);
    if (!strstr(err.message, name) || !strstr(err.message, word)) fail_msg("\"%s\" lacks \"%s\"", err.message, word);
}

static void find_checks_what_it_finds(void **state) {
    (void)state;
    Err err = {0};
    const Weight *w;
    open_toy(&(WeightsOptions){0});
    expect_refusal("blk.9.attn_q.weight", (Shape){0}, 0, THIMBLE_E_FORMAT, toy.path);
    assert_true(th_weights_find(toy.ws, "blk.9.attn_q.weight", (Shape){0}, WEIGHT_OPTIONAL, &w, &err));
    assert_null(w);
    expect_refusal("blk.0.attn_q.weight", (Shape){.cols = 513, .rows = 512}, 0, THIMBLE_E_FORMAT, "513");
    expect_refusal("blk.0.attn_q.weight", (Shape){.cols = 512, .rows = 511}, 0, THIMBLE_E_FORMAT, "511");
    expect_refusal("blk.0.ffn_up_exps.weight", (Shape){.experts = 13}, WEIGHT_EXPERTS, THIMBLE_E_FORMAT, "13");
    expect_refusal("blk.0.ffn_up_exps.weight", (Shape){0}, 0, THIMBLE_E_FORMAT, "12"); /* a bank is not a matrix */
    expect_refusal("blk.0.attn_q.weight", (Shape){0}, WEIGHT_VECTOR, THIMBLE_E_STATE, "before");
    toy.kernels.mat[TYPE_F16] = NULL;
    expect_refusal("blk.0.attn_q.weight", (Shape){0}, 0, THIMBLE_E_UNSUPPORTED, "F16");
    assert_true(th_weights_has(toy.ws, "blk.0.attn_q.weight"));
    assert_false(th_weights_has(toy.ws, "blk.0.attn_q"));
    toy_close(&toy);
}

static void bundles_hold_like_members(void **state) {
    (void)state;
    Err err = {0};
    const Weight *b;
    open_toy(&(WeightsOptions){0});
    const Weight *bad[] = {th_weights_member(toy.bundle[0], 0), toy.q[0]};
    assert_false(th_weights_bundle(toy.ws, bad, 2, &b, &err));
    assert_non_null(strstr(err.message, "blk.0.attn_q.weight"));
    assert_int_equal(th_weights_parts(toy.bundle[1]), 12);
    assert_null(th_weights_member(toy.bundle[1], 3));
    assert_int_equal(th_weight_bytes(toy.bundle[1]), th_weight_bytes(th_weights_member(toy.bundle[1], 0)) +
                                                         th_weight_bytes(th_weights_member(toy.bundle[1], 1)) +
                                                         th_weight_bytes(th_weights_member(toy.bundle[1], 2)));
    toy_close(&toy);
}

static void parts_are_whole_rows_of_a_mebibyte(void **state) {
    (void)state;
    open_toy(&(WeightsOptions){0});
    const Weight *all[] = {toy.q[0], toy.up[0], toy.down[0], toy.head, toy.embd};
    for (size_t i = 0; i < TH_COUNT(all); i++) {
        const Weight *w = all[i];
        uint64_t bytes = 0;
        for (int part = 0; part < w->n_parts; part++) {
            assert_true(th_part_rows(w, part) > 0);
            assert_true(th_part_bytes(w, part) <= TH_MIB);
            assert_int_equal(th_part_offset(w, part), w->tensor->offset + bytes);
            bytes += th_part_bytes(w, part);
            assert_int_equal(th_parts_bytes(w, part + 1), bytes);
        }
        assert_int_equal(bytes, th_weight_bytes(w));
    }
    assert_true(th_weights_parts(toy.up[0]) > 1);
    toy_close(&toy);
}

static void state_is_checked(void **state) {
    (void)state;
    Err err = {0};
    View v;
    float row[512];
    open_toy(&(WeightsOptions){0});
    assert_false(th_weights_load(toy.ws, &err)); /* no plan */
    assert_int_equal(err.code, THIMBLE_E_STATE);
    assert_false(th_weights_pin(toy.ws, toy.q[0], 0, &v, &err));
    assert_true(toy_load(&toy, UINT64_MAX, &err));
    assert_false(th_weights_load(toy.ws, &err));
    assert_false(th_weights_pin(toy.ws, toy.q[0], -1, &v, &err));
    assert_false(th_weights_pin(toy.ws, toy.q[0], th_weights_parts(toy.q[0]), &v, &err));
    assert_false(th_weights_pin(toy.ws, toy.bundle[0], 12, &v, &err));
    assert_false(th_weights_rows(toy.ws, toy.embd, (int32_t[]){-1}, 1, row, &err));
    assert_false(th_weights_rows(toy.ws, toy.embd, (int32_t[]){2500}, 1, row, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    assert_false(th_weights_rows(toy.ws, toy.q[0], (int32_t[]){0}, 1, row, &err));
    toy_close(&toy);
}

/* A ledger that gives less and less: each step of opening fails once, with a sentence, and leaves nothing behind. */
static void every_shortage_is_clean(void **state) {
    (void)state;
    int refused = 0;
    const int homes[] = {THIMBLE_HOME_AUTO, THIMBLE_HOME_STREAM, THIMBLE_HOME_MAPPED};
    for (size_t h = 0; h < TH_COUNT(homes); h++) {
        WeightsOptions o = {.home = homes[h]};
        WeightsNeed need;
        open_toy(&o);
        th_weights_need(toy.ws, 3, &need);
        toy_close(&toy);
        for (uint64_t lack = 1; lack < need.floor; lack = lack * 3 / 2 + 1000) {
            Err err = {0};
            open_toy(&o);
            assert_true(th_weights_plan(toy.ws, need.floor, 3, &toy.plan, &err));
            uint64_t before = toy.budget.used;
            th_budget_limit(&toy.budget, before + need.floor - lack);
            assert_false(th_weights_load(toy.ws, &err));
            assert_int_equal(err.code, THIMBLE_E_BUDGET);
            assert_int_equal(toy.budget.used, before);
            refused++;
            toy_close(&toy);
        }
    }
    assert_true(refused > 20);
}

static void binding_without_memory_is_clean(void **state) {
    (void)state;
    Err err = {0};
    open_toy(&(WeightsOptions){0});
    uint64_t enough = toy.budget.used;
    toy_close(&toy);
    for (uint64_t limit = 0; limit < enough; limit += 5000) {
        th_budget_init(&toy.budget, UINT64_MAX);
        if (!th_gguf_open(&toy.gguf, toy.path, &toy.budget, &err)) fail_msg("%s", err.message);
        th_budget_limit(&toy.budget, limit);
        Weights *ws = NULL;
        const Weight *w;
        err = (Err){0};
        if (th_weights_open(&ws, &toy.gguf, &toy.kernels, &toy.budget, &(WeightsOptions){0}, &err)) {
            for (size_t i = 0; i < toy.gguf.n_tensors && !err.code; i++)
                (void)th_weights_find(ws, toy.gguf.tensors[i].name.data, (Shape){0}, WEIGHT_OPTIONAL, &w, &err);
        }
        if (err.code != THIMBLE_E_BUDGET && err.code != THIMBLE_E_FORMAT) assert_int_equal(err.code, 0);
        th_weights_close(ws);
        th_gguf_close(&toy.gguf);
        assert_int_equal(toy.budget.used, 0);
        th_budget_free(&toy.budget);
    }
}

static int write_toy(void **state) {
    (void)state;
    ToyShape shape = TOY_SHAPE;
    toy_write(&toy, &shape);
    return 0;
}
static int remove_toy(void **state) {
    (void)state;
    toy_remove(&toy);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(find_checks_what_it_finds),
        cmocka_unit_test(bundles_hold_like_members),
        cmocka_unit_test(parts_are_whole_rows_of_a_mebibyte),
        cmocka_unit_test(state_is_checked),
        cmocka_unit_test(every_shortage_is_clean),
        cmocka_unit_test(binding_without_memory_is_clean),
    };
    return cmocka_run_group_tests(tests, write_toy, remove_toy);
}
