/* test_hparam_ranges.c: numbers of a model: what each architecture makes of its keys, and that no number a file may
 * hold gets past its range. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "common/gguf_writer.h"
#include "common/scratch.h"
#include "model/hparams.h"

static Scratch dir;

/* A key that is written instead of the usual one, or left out. */
typedef struct Change {
    const char *key; /* without the prefix, or full if it begins with "general." */
    enum { LEAVE_OUT, INTEGER, REAL, TEXT, INTEGERS } kind;
    double number;
    const char *text;
    int32_t values[4];
    size_t n_values;
} Change;

typedef struct Reading {
    Budget budget;
    Gguf gguf;
    Hparams hp;
    Err err;
    bool good;
} Reading;

static const struct {
    const char *key;
    double number;
    bool real;
} usual[] = {
    {"block_count", 4, false},           {"context_length", 256, false},
    {"embedding_length", 64, false},     {"feed_forward_length", 96, false},
    {"attention.head_count", 4, false},  {"attention.head_count_kv", 2, false},
    {"attention.layer_norm_rms_epsilon", 1e-6, true},
};
static const struct {
    const char *key;
    int number;
} usual_experts[] = {{"expert_count", 16}, {"expert_used_count", 4}};

static void write_change(GgufWriter *w, const char *key, const Change *c) {
    if (c->kind == INTEGER) gguf_writer_i64(w, key, (int64_t)c->number);
    if (c->kind == REAL) gguf_writer_f64(w, key, c->number);
    if (c->kind == TEXT) gguf_writer_str(w, key, c->text);
    if (c->kind == INTEGERS) gguf_writer_array(w, key, GGUF_I32, c->values, c->n_values);
}

static const Change *change_of(const Change *changes, size_t n, const char *key) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(changes[i].key, key) == 0) return &changes[i];
    return NULL;
}

static void put_int(GgufWriter *w, const char *arch, const char *key, double number, bool real, const Change *c,
                    size_t n) {
    char full[96];
    if (change_of(c, n, key)) return;
    snprintf(full, sizeof full, "%s.%s", arch, key);
    if (real) gguf_writer_f32(w, full, (float)number);
    else gguf_writer_u32(w, full, (uint32_t)number);
}

static void read_model(Reading *r, const char *arch, bool experts, const Change *changes, size_t n) {
    static float embd[64 * 10];
    GgufWriter w;
    char full[96];
    gguf_writer_init(&w);
    if (!change_of(changes, n, "general.architecture")) gguf_writer_str(&w, "general.architecture", arch);
    for (size_t i = 0; i < TH_COUNT(usual); i++)
        put_int(&w, arch, usual[i].key, usual[i].number, usual[i].real, changes, n);
    for (size_t i = 0; experts && i < TH_COUNT(usual_experts); i++)
        put_int(&w, arch, usual_experts[i].key, usual_experts[i].number, false, changes, n);
    for (size_t i = 0; i < n; i++) {
        bool whole = strncmp(changes[i].key, "general.", 8) == 0;
        snprintf(full, sizeof full, "%s%s%s", whole ? "" : arch, whole ? "" : ".", changes[i].key);
        write_change(&w, full, &changes[i]);
    }
    gguf_writer_tensor(&w, "token_embd.weight", TYPE_F32, 2, (uint64_t[]){64, 10}, embd);
    const char *path = th_scratch_path(&dir, "model.gguf");
    assert_true(gguf_writer_save(&w, path));
    gguf_writer_free(&w);
    *r = (Reading){0};
    th_budget_init(&r->budget, UINT64_MAX);
    if (!th_gguf_open(&r->gguf, path, &r->budget, &r->err)) fail_msg("%s", r->err.message);
    r->good = th_hparams_read(&r->hp, &r->gguf, &r->err);
}

static void done(Reading *r) {
    th_gguf_close(&r->gguf);
    assert_int_equal(r->budget.used, 0);
    th_budget_free(&r->budget);
}

static void good(Reading *r, const char *arch, bool experts, const Change *changes, size_t n) {
    read_model(r, arch, experts, changes, n);
    if (!r->good) fail_msg("%s: %s", arch, r->err.message);
}

static void refused(const char *arch, bool experts, const Change *changes, size_t n, int code, const char *word) {
    Reading r;
    read_model(&r, arch, experts, changes, n);
    if (r.good) fail_msg("%s with %s: not refused", arch, changes[0].key);
    if (r.err.code != code || !strstr(r.err.message, word))
        fail_msg("%s with %s: expected code %d and \"%s\", got %d: %s", arch, changes[0].key, code, word, r.err.code,
                 r.err.message);
    done(&r);
}

static void defaults(void **state) {
    (void)state;
    Reading r;
    good(&r, "llama", false, NULL, 0);
    assert_int_equal(r.hp.n_layer, 4);
    assert_int_equal(r.hp.n_vocab, 10);
    assert_int_equal(r.hp.D, 16);
    assert_int_equal(r.hp.Dv, 16);
    assert_int_equal(r.hp.n_rot, 16);
    assert_int_equal(r.hp.layer[3].H, 4);
    assert_int_equal(r.hp.layer[3].Hk, 2);
    assert_int_equal(r.hp.layer[0].ff, 96);
    assert_float_equal((float)r.hp.freq_base, 10000, 0);
    assert_float_equal((float)r.hp.rope_factor, 1, 0);
    assert_int_equal(r.hp.n_expert, 0);
    done(&r);
    Change lone = {.key = "attention.head_count_kv", .kind = LEAVE_OUT};
    good(&r, "qwen2", false, &lone, 1);
    assert_int_equal(r.hp.layer[1].Hk, 4);
    done(&r);
}

static void experts_by_architecture(void **state) {
    (void)state;
    static const struct {
        const char *arch;
        int width, gating, shared;
        bool norm;
    } want[] = {{"llama", 96, 1, 0, true},    {"qwen2moe", 24, 1, 96, false}, {"qwen3moe", 24, 1, 0, true},
                {"olmoe", 96, 1, 0, false},   {"bailingmoe2", 24, 2, 0, false}};
    for (size_t i = 0; i < TH_COUNT(want); i++) {
        Reading r;
        good(&r, want[i].arch, true, NULL, 0);
        assert_int_equal(r.hp.ff_expert, want[i].width);
        assert_int_equal(r.hp.gating, want[i].gating);
        assert_int_equal(r.hp.ff_shared, want[i].shared);
        assert_int_equal(r.hp.expert_norm, want[i].norm);
        done(&r);
        refused(want[i].arch, true, &(Change){.key = "expert_used_count", .kind = INTEGER, .number = 17}, 1,
                THIMBLE_E_FORMAT, "17 of 16");
        refused(want[i].arch, true, &(Change){.key = "expert_used_count", .kind = INTEGER, .number = 0}, 1,
                THIMBLE_E_FORMAT, "0 of 16");
    }
    Change shared[] = {{.key = "expert_shared_count", .kind = INTEGER, .number = 2},
                       {.key = "expert_shared_feed_forward_length", .kind = INTEGER, .number = 32}};
    Reading r;
    good(&r, "bailingmoe2", true, shared, 2);
    assert_int_equal(r.hp.ff_shared, 64);
    done(&r);
    Change groups[] = {{.key = "expert_group_count", .kind = INTEGER, .number = 3},
                       {.key = "expert_group_used_count", .kind = INTEGER, .number = 1}};
    refused("bailingmoe2", true, groups, 2, THIMBLE_E_FORMAT, "groups");
    groups[0].number = 8; /* one group of two experts cannot give four */
    refused("bailingmoe2", true, groups, 2, THIMBLE_E_FORMAT, "groups");
}

static void per_layer_arrays(void **state) {
    (void)state;
    Reading r;
    Change c = {.key = "feed_forward_length", .kind = INTEGERS, .values = {96, 32, 96, 64}, .n_values = 4};
    good(&r, "llama", false, &c, 1);
    assert_int_equal(r.hp.layer[1].ff, 32);
    assert_int_equal(r.hp.layer[3].ff, 64);
    done(&r);
    c.n_values = 3;
    refused("llama", false, &c, 1, THIMBLE_E_FORMAT, "feed_forward_length");
    /* One block less runs when the file has an MTP block; its arrays may or may not count it. */
    Change mtp[] = {c, {.key = "nextn_predict_layers", .kind = INTEGER, .number = 1}};
    good(&r, "qwen3", false, mtp, 2);
    assert_int_equal(r.hp.n_layer, 3);
    done(&r);
    mtp[0].n_values = 4;
    good(&r, "qwen3", false, mtp, 2);
    assert_int_equal(r.hp.n_layer, 3);
    done(&r);
    mtp[1].number = 4;
    refused("qwen3", false, mtp, 2, THIMBLE_E_FORMAT, "nextn_predict_layers");
}

static void windows_of_gemma(void **state) {
    (void)state;
    Reading r;
    Change c[] = {{.key = "attention.sliding_window", .kind = INTEGER, .number = 8},
                  {.key = "attention.sliding_window_pattern", .kind = INTEGER, .number = 2}};
    good(&r, "gemma3", false, c, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(r.hp.layer[i].sliding, i % 2 == 0);
    done(&r);
    c[1] = (Change){.key = "attention.sliding_window_pattern", .kind = INTEGERS, .values = {0, 1, 1, 0}, .n_values = 4};
    good(&r, "gemma3", false, c, 2);
    for (int i = 0; i < 4; i++) assert_int_equal(r.hp.layer[i].sliding, i == 1 || i == 2);
    done(&r);
    good(&r, "gemma3", false, c, 1);
    for (int i = 0; i < 4; i++) assert_true(r.hp.layer[i].sliding); /* of every six, the last is full */
    assert_float_equal(r.hp.embd_scale, 8, 0);
    done(&r);
}

static void hostile_numbers(void **state) {
    (void)state;
    static const struct {
        const char *key;
        double number;
        bool real;
        const char *word;
    } bad[] = {
        {"block_count", 0, false, "block_count"},
        {"block_count", 1e6, false, "block_count"},
        {"block_count", -1, false, "block_count"},
        {"embedding_length", 0, false, "embedding_length"},
        {"embedding_length", 65, false, "token_embd"},
        {"embedding_length", 4294967296.0, false, "embedding_length"},
        {"context_length", 0, false, "context_length"},
        {"attention.head_count", 5, false, "cannot share"},
        {"attention.head_count", 4294967295.0, false, "head_count"},
        {"attention.head_count_kv", 3, false, "cannot share"},
        {"attention.head_count_kv", 8, false, "cannot share"},
        {"attention.key_length", 0, false, "key_length"},
        {"attention.key_length", 1e9, false, "key_length"},
        {"attention.value_length", -2, false, "value_length"},
        {"rope.dimension_count", 15, false, "odd"},
        {"rope.dimension_count", 18, false, "18"},
        {"feed_forward_length", -1, false, "feed_forward_length"},
        {"attention.sliding_window", -5, false, "sliding_window"},
        {"rope.freq_base", 0, true, "freq_base"},
        {"rope.freq_base", -1e4, true, "freq_base"},
        {"rope.scaling.factor", -1, true, "factor"},
        {"rope.scaling.original_context_length", 0, false, "original_context"},
        {"attention.layer_norm_rms_epsilon", (double)__builtin_nanf(""), true, "epsilon"},
        {"attention.layer_norm_rms_epsilon", -1, true, "epsilon"},
        {"attention.layer_norm_rms_epsilon", (double)__builtin_inff(), true, "epsilon"},
        {"expert_count", 1e9, false, "expert_count"},
    };
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        Change c = {.key = bad[i].key, .kind = bad[i].real ? REAL : INTEGER, .number = bad[i].number};
        refused("llama", false, &c, 1, THIMBLE_E_FORMAT, bad[i].word);
    }
    static const char *const required[] = {"block_count", "embedding_length", "context_length",
                                           "attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < TH_COUNT(required); i++)
        refused("llama", false, &(Change){.key = required[i], .kind = LEAVE_OUT}, 1, THIMBLE_E_FORMAT, required[i]);
    refused("qwen3moe", false, &(Change){.key = "block_count", .kind = INTEGER, .number = 4}, 1, THIMBLE_E_FORMAT,
            "expert_count");
}

static void unknown_names(void **state) {
    (void)state;
    refused("llama", false, &(Change){.key = "general.architecture", .kind = TEXT, .text = "parrot\033[31m"}, 1,
            THIMBLE_E_UNSUPPORTED, "bailingmoe2");
    refused("llama", false, &(Change){.key = "general.architecture", .kind = LEAVE_OUT}, 1, THIMBLE_E_FORMAT,
            "missing");
    refused("llama", false, &(Change){.key = "rope.scaling.type", .kind = TEXT, .text = "spiral"}, 1,
            THIMBLE_E_UNSUPPORTED, "spiral");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),         cmocka_unit_test(experts_by_architecture),
        cmocka_unit_test(per_layer_arrays), cmocka_unit_test(windows_of_gemma),
        cmocka_unit_test(hostile_numbers),  cmocka_unit_test(unknown_names),
    };
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
