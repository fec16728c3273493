/* test_hybrid.c: the numbers and refusals of models with recurrent layers and draft heads, in the ways that exporters
 * write them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "model/arch.h"

enum { LAYERS = 8 };

static char path[64]; /* one file, written anew by each case */
static GgufWriter w;
static Budget budget;
static Gguf g;
static Hparams hp;
static Err err;

static void number(const char *key, uint32_t v) { gguf_writer_u32(&w, key, v); }
static void tensor(const char *name, uint64_t cols, uint64_t rows) {
    gguf_writer_tensor(&w, name, 0, 2, (uint64_t[]){cols, rows}, NULL);
}

static void begin(uint32_t blocks) {
    gguf_writer_init(&w);
    err = (Err){0};
    gguf_writer_str(&w, "general.architecture", "qwen35");
    number("qwen35.block_count", blocks);
    number("qwen35.context_length", 256);
    number("qwen35.embedding_length", 64);
    number("qwen35.attention.head_count", 4);
    number("qwen35.attention.key_length", 32);
    number("qwen35.attention.value_length", 32);
    number("qwen35.rope.dimension_count", 16);
    gguf_writer_f32(&w, "qwen35.attention.layer_norm_rms_epsilon", 1e-6f);
    number("qwen35.feed_forward_length", 96);
    number("qwen35.ssm.inner_size", 64);
    number("qwen35.ssm.state_size", 16);
    number("qwen35.ssm.time_step_rank", 4);
    number("qwen35.ssm.group_count", 2);
    number("qwen35.ssm.conv_kernel", 4);
}

static bool finish(void) {
    tensor("token_embd.weight", 64, 32);
    assert_true(gguf_writer_save(&w, path));
    gguf_writer_free(&w);
    th_budget_init(&budget, (uint64_t)64 << 20);
    assert_true(th_gguf_open(&g, path, &budget, &err));
    return th_hparams_read(&hp, &g, &err);
}
static void end(void) {
    th_gguf_close(&g);
    th_budget_free(&budget);
}

/* Layers as letters: r recurrent, a attention. */
static void check_layers(const char *want) {
    if (!finish()) fail_msg("%s", err.message);
    assert_int_equal(hp.n_layer, strlen(want));
    for (int i = 0; i < hp.n_layer; i++) assert_int_equal(hp.layer[i].recurrent, want[i] == 'r');
    end();
}

static void layers_are_marked_in_three_ways(void **state) {
    (void)state;
    const uint8_t marks[LAYERS] = {1, 0, 0, 1, 1, 1, 1, 0};
    const int32_t heads[LAYERS] = {0, 0, 2, 0, 0, 2, 0, 0};
    begin(LAYERS), number("qwen35.attention.head_count_kv", 2);
    check_layers("rrrarrra");
    begin(LAYERS), number("qwen35.attention.head_count_kv", 2), number("qwen35.full_attention_interval", 3);
    check_layers("rrarrarr");
    begin(LAYERS), number("qwen35.attention.head_count_kv", 2);
    gguf_writer_array(&w, "qwen35.attention.recurrent_layers", GGUF_BOOL, marks, LAYERS);
    check_layers("raarrrra");
    begin(LAYERS), gguf_writer_array(&w, "qwen35.attention.head_count_kv", GGUF_I32, heads, LAYERS);
    check_layers("rrarrarr");
    begin(LAYERS), number("qwen35.attention.head_count_kv", 2);
    gguf_writer_array(&w, "qwen35.attention.recurrent_layers", GGUF_BOOL, marks, LAYERS - 1);
    assert_false(finish());
    assert_int_equal(err.code, THIMBLE_E_FORMAT);
    end();
}

static void sections_are_three_or_four(void **state) {
    (void)state;
    const int32_t sections[4] = {3, 3, 2, 0};
    for (size_t n = 2; n <= 5; n++) {
        begin(LAYERS);
        gguf_writer_array(&w, "qwen35.rope.dimension_sections", GGUF_I32, (int32_t[5]){3, 3, 2, 0, 0}, n);
        bool ok = finish();
        assert_int_equal(ok, n == 3 || n == 4);
        if (ok)
            assert_memory_equal(hp.rope_sections, sections, sizeof sections);
        else
            assert_int_equal(err.code, THIMBLE_E_FORMAT);
        end();
    }
}

static void missing_numbers_are_named(void **state) {
    (void)state;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "qwen3next");
    const char *keys[] = {"block_count", "context_length", "embedding_length", "attention.head_count"};
    for (size_t i = 0; i < TH_COUNT(keys); i++) {
        char key[64];
        snprintf(key, sizeof key, "qwen3next.%s", keys[i]);
        number(key, i == 3 ? 2 : 64);
    }
    gguf_writer_f32(&w, "qwen3next.attention.layer_norm_rms_epsilon", 1e-6f);
    assert_false(finish());
    assert_int_equal(err.code, THIMBLE_E_FORMAT);
    assert_non_null(strstr(err.message, "ssm.conv_kernel is missing"));
    end();
}

static void the_tensors_say_what_the_trunk_is(void **state) {
    (void)state;
    begin(LAYERS + 1), number("qwen35.nextn_predict_layers", 1);
    tensor("blk.0.attn_norm.weight", 64, 1), tensor("blk.8.attn_norm.weight", 64, 1);
    tensor("blk.8.nextn.enorm.weight", 64, 1);
    assert_true(finish());
    assert_int_equal(hp.n_layer, LAYERS);
    assert_int_equal(hp.layer[LAYERS].H, 4); /* the head's block is attention */
    assert_int_equal(hp.layer[LAYERS].ff, 96);
    assert_false(hp.layer[LAYERS].recurrent);
    end();
    begin(LAYERS + 1); /* the key was not written */
    tensor("blk.0.attn_norm.weight", 64, 1), tensor("blk.8.nextn.eh_proj.weight", 128, 64);
    assert_true(finish());
    assert_int_equal(hp.n_layer, LAYERS);
    assert_int_equal(hp.n_nextn, 1);
    end();
    begin(LAYERS), number("qwen35.nextn_predict_layers", 1); /* the key was left, the block is an ordinary one */
    tensor("blk.0.attn_norm.weight", 64, 1), tensor("blk.7.attn_norm.weight", 64, 1);
    assert_true(finish());
    assert_int_equal(hp.n_layer, LAYERS);
    end();
    begin(LAYERS + 1),
        number("qwen35.nextn_predict_layers", 1); /* the key and the count were left, the block was not */
    tensor("blk.0.attn_norm.weight", 64, 1);
    assert_true(finish());
    assert_int_equal(hp.n_layer, LAYERS);
    end();
}

static void a_draft_head_alone_is_refused(void **state) {
    (void)state;
    begin(LAYERS + 1), number("qwen35.nextn_predict_layers", 1);
    tensor("blk.8.attn_norm.weight", 64, 1), tensor("blk.8.nextn.eh_proj.weight", 128, 64);
    assert_false(finish());
    assert_int_equal(err.code, THIMBLE_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "draft head"));
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_marked_in_three_ways), cmocka_unit_test(sections_are_three_or_four),
        cmocka_unit_test(missing_numbers_are_named),       cmocka_unit_test(the_tensors_say_what_the_trunk_is),
        cmocka_unit_test(a_draft_head_alone_is_refused),
    };
    snprintf(path, sizeof path, "/tmp/thimble-hybrid-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
