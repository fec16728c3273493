/* test_hparams.c: the numbers of a model, read from metadata: defaults, per-layer arrays, what an architecture makes of
 * them, and refusals. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "model/arch.h"
#include "quant/type.h"

enum { LAYERS = 6 };

typedef struct Reading {
    GgufWriter w;
    Budget budget;
    Gguf g;
    Hparams hp;
    Err err;
    char arch[64], key[128];
} Reading;

static char path[64]; /* one file, written anew by each case */
static Reading r;

static const char *key(const char *name) {
    snprintf(r.key, sizeof r.key, "%s.%s", r.arch, name);
    return r.key;
}

/* What every file has: LAYERS layers of width 64 with 4 heads. */
static void begin(const char *arch) {
    memset(&r, 0, sizeof r);
    snprintf(r.arch, sizeof r.arch, "%s", arch);
    gguf_writer_init(&r.w);
    gguf_writer_str(&r.w, "general.architecture", arch);
    gguf_writer_u32(&r.w, key("block_count"), LAYERS);
    gguf_writer_u32(&r.w, key("context_length"), 256);
    gguf_writer_u32(&r.w, key("embedding_length"), 64);
    gguf_writer_u32(&r.w, key("attention.head_count"), 4);
    gguf_writer_f32(&r.w, key("attention.layer_norm_rms_epsilon"), 1e-5f);
    gguf_writer_u32(&r.w, key("feed_forward_length"), 96);
}

static bool finish(void) {
    gguf_writer_tensor(&r.w, "token_embd.weight", 0, 2, (uint64_t[]){64, 32}, NULL);
    assert_true(gguf_writer_save(&r.w, path));
    gguf_writer_free(&r.w);
    th_budget_init(&r.budget, (uint64_t)64 << 20);
    assert_true(th_gguf_open(&r.g, path, &r.budget, &r.err));
    return th_hparams_read(&r.hp, &r.g, &r.err);
}
static void end(void) { th_gguf_close(&r.g); }

static void read_well(void) {
    if (!finish()) fail_msg("%s: %s", r.arch, r.err.message);
}
static void refused(int code, const char *word) {
    assert_false(finish());
    assert_int_equal(r.err.code, code);
    if (!strstr(r.err.message, word)) fail_msg("\"%s\" does not say \"%s\"", r.err.message, word);
    end();
}
static LayerSpec spec_of(int il) {
    LayerSpec s = {0};
    r.hp.arch->layer(&r.hp, il, &s);
    return s;
}

static void number(const char *name, uint32_t v) { gguf_writer_u32(&r.w, key(name), v); }
static void real(const char *name, float v) { gguf_writer_f32(&r.w, key(name), v); }

/* ---- which there are ---- */

/* The list is made from the files that are there: a file that got lost would be missed by nobody else. */
static void architectures(void **state) {
    (void)state;
    static const char *const names[] = {"bailingmoe2", "deepseek2",     "gemma3",     "glm4moe",  "gpt-oss",
                                        "granite",     "granitehybrid", "granitemoe", "lfm2",     "lfm2moe",
                                        "llama",       "olmoe",         "qwen2",      "qwen2moe", "qwen3",
                                        "qwen35",      "qwen35moe",     "qwen3moe",   "qwen3next"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!th_arch_find(th_str(names[i]))) fail_msg("%s is not in this build", names[i]);
    assert_null(th_arch_find(TH_STR("qwen")));
}

/* ---- refusals ---- */

static void unknown_architecture(void **state) {
    (void)state;
    begin("flamingo");
    assert_false(finish());
    assert_int_equal(r.err.code, THIMBLE_E_UNSUPPORTED);
    char all[512];
    th_arch_names(all, sizeof all);
    assert_non_null(strstr(r.err.message, "\"flamingo\""));
    assert_non_null(strstr(r.err.message, all)); /* the whole list: it must not be cut */
    end();
}

static void rotated_weights(void **state) {
    (void)state;
    begin("llama");
    gguf_writer_u32(&r.w, "prism.hadamard.block", 128);
    refused(THIMBLE_E_UNSUPPORTED, "prism.hadamard.block");
    begin("llama");
    gguf_writer_u32(&r.w, "prism.hadamards", 128); /* another name */
    read_well();
    end();
}

static void attention_to_the_future(void **state) {
    (void)state;
    begin("llama");
    gguf_writer_bool(&r.w, key("attention.causal"), false);
    refused(THIMBLE_E_UNSUPPORTED, "attention.causal");
    begin("llama");
    gguf_writer_bool(&r.w, key("attention.causal"), true);
    read_well();
    end();
}

static void missing_numbers(void **state) {
    (void)state;
    begin("granitemoe");
    refused(THIMBLE_E_FORMAT, "expert_count");
    begin("gpt-oss");
    number("expert_count", 4), number("expert_used_count", 5);
    refused(THIMBLE_E_FORMAT, "5 of 4 experts");
    begin("glm4moe");
    number("expert_count", 4096), number("expert_used_count", 2), number("expert_shared_count", 4096);
    number("expert_feed_forward_length", 1 << 20);
    refused(THIMBLE_E_FORMAT, "shared experts");
}

/* ---- windows and bases ---- */

static void pattern_of_windows(void **state) {
    (void)state;
    const bool sliding[LAYERS] = {false, true, true, false, false, true};
    begin("gemma3");
    number("attention.sliding_window", 8);
    gguf_writer_array(&r.w, key("attention.sliding_window_pattern"), GGUF_BOOL, sliding, LAYERS);
    real("rope.freq_base", 1e6f);
    read_well();
    for (int il = 0; il < LAYERS; il++) {
        assert_int_equal(spec_of(il).window, sliding[il] ? 8 : 0);
        assert_int_equal(spec_of(il).swa_rope, sliding[il]);
    }
    assert_true(r.hp.freq_base_swa == 10000);
    end();
    begin("gemma3");
    number("attention.sliding_window", 8), number("attention.sliding_window_pattern", 3);
    real("rope.freq_base_swa", 5000);
    read_well();
    for (int il = 0; il < LAYERS; il++) assert_int_equal(spec_of(il).window, il % 3 < 2 ? 8 : 0);
    assert_true(r.hp.freq_base_swa == 5000);
    end();
}

static void gemma_scale(void **state) {
    (void)state;
    begin("gemma3");
    number("attention.key_length", 32);
    read_well();
    assert_true(spec_of(0).attn_scale == 0); /* 1/sqrt(D) */
    assert_true(r.hp.embd_scale == 8);
    end();
    memset(&r, 0, sizeof r);
    snprintf(r.arch, sizeof r.arch, "gemma3"); /* 62 layers: the 27B */
    gguf_writer_init(&r.w);
    gguf_writer_str(&r.w, "general.architecture", "gemma3");
    number("block_count", 62), number("context_length", 256), number("embedding_length", 64);
    number("attention.head_count", 4), number("attention.key_length", 32), number("feed_forward_length", 96);
    real("attention.layer_norm_rms_epsilon", 1e-6f);
    read_well();
    assert_true(spec_of(0).attn_scale == 0.25f);
    end();
}

static void gptoss_layers(void **state) {
    (void)state;
    begin("gpt-oss");
    number("attention.sliding_window", 8), number("expert_count", 4), number("expert_used_count", 2);
    number("expert_feed_forward_length", 48);
    real("rope.freq_base", 150000);
    read_well();
    for (int il = 0; il < LAYERS; il++) {
        LayerSpec s = spec_of(il);
        assert_int_equal(s.window, il % 2 == 0 ? 8 : 0);
        assert_true(s.sinks && !s.swa_rope); /* one base and one scaling for all layers */
        assert_int_equal(s.act_fn, ACT_FN_CLAMPED);
    }
    assert_int_equal(r.hp.gating, 3);
    end();
}

/* ---- scales and defaults ---- */

static void granite_scales(void **state) {
    (void)state;
    begin("granite");
    read_well();
    assert_false(r.hp.no_rope); /* rotation is the default of this family */
    assert_true(spec_of(0).attn_scale == 0);
    end();
    begin("granite");
    real("embedding_scale", 12), real("residual_scale", 0.22f), real("logit_scale", 8);
    real("attention.scale", 0.0078125f);
    gguf_writer_bool(&r.w, key("rope.scaling.finetuned"), false);
    read_well();
    assert_true(r.hp.no_rope);
    assert_true(r.hp.embd_scale == 12 && r.hp.residual_scale == 0.22f && r.hp.logit_scale == 8);
    assert_true(spec_of(3).attn_scale == 0.0078125f);
    end();
    begin("llama"); /* elsewhere the key means nothing */
    gguf_writer_bool(&r.w, key("rope.scaling.finetuned"), false);
    real("attention.scale", 3);
    read_well();
    assert_false(r.hp.no_rope);
    assert_true(spec_of(0).attn_scale == 0);
    end();
}

/* Keys that other architectures go by: their files have them, too. */
static void foreign_numbers(void **state) {
    (void)state;
    static const char *const archs[] = {"llama", "qwen2moe", "qwen3moe", "olmoe", "granitemoe", "granitehybrid"};
    for (size_t i = 0; i < TH_COUNT(archs); i++) {
        begin(archs[i]);
        number("expert_count", 8), number("expert_used_count", 2);
        real("expert_weights_scale", 2.5f), real("final_logit_softcapping", 5);
        real("rope.scaling.yarn_log_multiplier", 0.1f);
        read_well();
        assert_true(r.hp.expert_scale == 0 && r.hp.final_softcap == 0 && !r.hp.yarn_in_scale);
        end();
    }
}

static void glm_defaults(void **state) {
    (void)state;
    begin("glm4moe");
    number("expert_count", 8), number("expert_used_count", 2), number("expert_feed_forward_length", 40);
    number("expert_shared_count", 2), number("leading_dense_block_count", 1), number("nextn_predict_layers", 1);
    read_well();
    assert_int_equal(r.hp.gating, 2); /* sigmoid unless the key says otherwise */
    assert_int_equal(r.hp.ff_shared, 80);
    assert_int_equal(r.hp.n_layer, LAYERS - 1); /* the MTP block is not run */
    assert_ptr_equal(spec_of(0).ffn, &th_block_ffn);
    assert_ptr_equal(spec_of(1).ffn, &th_block_moe);
    assert_string_equal(spec_of(1).ffn_norm, "post_attention_norm");
    end();
}

/* ---- latent attention and its relatives ---- */

static void latent(const char *arch, int rope_dims) {
    begin(arch);
    number("expert_count", 8), number("expert_used_count", 2), number("expert_feed_forward_length", 40);
    number("expert_shared_count", 2), number("leading_dense_block_count", 1);
    number("attention.kv_lora_rank", 32), number("rope.dimension_count", (uint32_t)rope_dims);
    number("attention.key_length", 32 + (uint32_t)rope_dims), number("attention.value_length", 32);
    number("attention.key_length_mla", 24), number("attention.value_length_mla", 12);
}

static void latent_numbers(void **state) {
    (void)state;
    latent("deepseek2", 8);
    read_well();
    assert_int_equal(r.hp.gating, 1);
    assert_int_equal(r.hp.ff_shared, 80);
    assert_true(r.hp.mla_latent == 32 && r.hp.mla_key == 24 && r.hp.mla_value == 12);
    assert_true(spec_of(1).attn_scale == (float)(1 / sqrt(24)));
    assert_ptr_equal(spec_of(0).mix, &th_block_mla);
    assert_ptr_equal(spec_of(0).ffn, &th_block_ffn);
    assert_ptr_equal(spec_of(1).ffn, &th_block_moe);
    end();
    latent("deepseek2", 8); /* the magnitude of YaRN lies in the scale, not in the rotation */
    gguf_writer_str(&r.w, key("rope.scaling.type"), "yarn");
    real("rope.scaling.factor", 4), real("rope.scaling.yarn_log_multiplier", 0.0625f);
    read_well();
    double mu = 1 + 0.0625 * log(4);
    assert_true(r.hp.yarn_in_scale && spec_of(1).attn_scale == (float)(mu * mu / sqrt(24)));
    end();
    begin("deepseek2"); /* an old file, dense throughout: sizes of heads where others have them */
    number("attention.kv_lora_rank", 32), number("rope.dimension_count", 8);
    number("attention.key_length", 20), number("attention.value_length", 12);
    read_well();
    assert_true(r.hp.mla_key == 20 && r.hp.mla_value == 12);
    assert_ptr_equal(spec_of(5).ffn, &th_block_ffn);
    end();
}

/* The one model whose files leave the router's kind out although it is not the default. */
static void gating_of_one_model(void **state) {
    (void)state;
    for (int blocks = 46; blocks <= 49; blocks++)
        for (int i = 0; i < 2; i++) {
            memset(&r, 0, sizeof r);
            snprintf(r.arch, sizeof r.arch, "deepseek2");
            gguf_writer_init(&r.w);
            gguf_writer_str(&r.w, "general.architecture", "deepseek2");
            number("block_count", (uint32_t)blocks), number("context_length", 256), number("embedding_length", 32);
            number("attention.head_count", 4), number("feed_forward_length", 96), number("attention.kv_lora_rank", 32);
            number("rope.dimension_count", 4), real("attention.layer_norm_rms_epsilon", 1e-6f);
            number("expert_count", 8), number("expert_used_count", 2), number("expert_feed_forward_length", 40);
            gguf_writer_tensor(&r.w, "token_embd.weight", TYPE_Q4_0, 2, (uint64_t[]){32, i ? 154880 : 154881}, NULL);
            assert_true(gguf_writer_save(&r.w, path));
            gguf_writer_free(&r.w);
            th_budget_init(&r.budget, (uint64_t)64 << 20);
            assert_true(th_gguf_open(&r.g, path, &r.budget, &r.err));
            if (!th_hparams_read(&r.hp, &r.g, &r.err)) fail_msg("%s", r.err.message);
            assert_int_equal(r.hp.gating, i && (blocks == 47 || blocks == 48) ? 2 : 1);
            end();
        }
}

static void latent_refusals(void **state) {
    (void)state;
    begin("deepseek2");
    refused(THIMBLE_E_FORMAT, "attention.kv_lora_rank is missing");
    latent("deepseek2", 24); /* nothing of a head would be left */
    refused(THIMBLE_E_FORMAT, "24 rotated dimensions");
    latent("bailingmoe3", 8);
    refused(THIMBLE_E_FORMAT, "kda.head_dim is missing");
    latent("bailingmoe3", 8);
    number("kda.head_dim", 16), number("ssm.conv_kernel", 4), real("kda.gate_lower_bound", 1);
    refused(THIMBLE_E_FORMAT, "kda.gate_lower_bound");
    latent("bailingmoe3", 8);
    number("kda.head_dim", 16), number("ssm.conv_kernel", 4), real("kda.gate_lower_bound", -5);
    gguf_writer_bool(&r.w, key("kda.safe_gate"), false);
    refused(THIMBLE_E_UNSUPPORTED, "kda.safe_gate");
}

static void keyed_layers(void **state) {
    (void)state;
    const uint32_t kv[LAYERS] = {0, 0, 1, 0, 0, 1};
    const float clamps[LAYERS] = {0, 7, 0, 0.5f, -1, 3};
    latent("bailingmoe3", 8);
    number("kda.head_dim", 16), number("ssm.conv_kernel", 4), real("kda.gate_lower_bound", -5);
    gguf_writer_array(&r.w, key("attention.head_count_kv"), GGUF_U32, kv, LAYERS);
    gguf_writer_array(&r.w, key("swiglu_clamp_exp"), GGUF_F32, clamps, LAYERS);
    real("swiglu_clamp_shexp", 2);
    number("nextn_predict_layers", 1);
    read_well();
    assert_int_equal(r.hp.n_layer, LAYERS - 1);
    assert_int_equal(r.hp.gating, 2);
    assert_int_equal(r.hp.ff_shared, 80); /* as there is no tensor to tell */
    for (int il = 0; il < r.hp.n_layer; il++) {
        assert_ptr_equal(spec_of(il).mix, kv[il] ? &th_block_mla : &th_block_kda);
        assert_true(spec_of(il).head_gate && spec_of(il).attn_scale == 0);
        assert_true(r.hp.layer[il].clamp == (clamps[il] > 0 ? clamps[il] : 0) && r.hp.layer[il].shared_clamp == 2);
    }
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures),   cmocka_unit_test(unknown_architecture), cmocka_unit_test(rotated_weights),
        cmocka_unit_test(missing_numbers), cmocka_unit_test(pattern_of_windows),   cmocka_unit_test(gemma_scale),
        cmocka_unit_test(gptoss_layers),   cmocka_unit_test(granite_scales),       cmocka_unit_test(foreign_numbers),
        cmocka_unit_test(glm_defaults),    cmocka_unit_test(latent_numbers),       cmocka_unit_test(latent_refusals),
        cmocka_unit_test(keyed_layers),    cmocka_unit_test(gating_of_one_model),
        cmocka_unit_test(attention_to_the_future),
    };
    snprintf(path, sizeof path, "/tmp/thimble-numbers-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
