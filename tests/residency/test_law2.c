/* test_law2.c: the second law: bits do not depend on where bytes lie. The logits at every position are compared byte
 * for byte between runs that differ in budget, home, threads, batch, eviction and look-ahead; then between ways of
 * arriving at the same timeline. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_model.h"
#include "common/scratch.h"
#include "quant/type.h"
#include "thimble/thimble.h"

enum { MAX_TOKENS = 700 };

typedef struct Setting {
    const char *name;
    double budget; /* times the floor; 0: unlimited */
    int threads, batch, home, evict, lookahead, slots, cache_type;
} Setting;

typedef struct Subject {
    char path[512];
    int n_tokens, context, state_type;
    float *reference; /* [n_tokens][n_vocab] */
    size_t n_vocab;
} Subject;

static Scratch dir;

/* ---- running one setting ---------------------------------------------------------------------------------------- */

static ThimbleModelOptions options_for(const Subject *s, const Setting *set) {
    ThimbleModelOptions o;
    thimble_model_options_init(&o);
    o.context = s->context;
    o.threads = set->threads;
    o.batch = set->batch;
    o.home = set->home;
    o.evict = set->evict;
    o.lookahead = set->lookahead;
    o.slots = set->slots;
    o.cache_type = set->cache_type;
    o.state_type = s->state_type;
    o.sessions = 2;
    if (set->budget != 0) {
        ThimblePlan plan = {.struct_size = sizeof plan};
        ThimbleError e = {0};
        o.budget = (uint64_t)1 << 40;
        if (thimble_plan(s->path, &o, &plan, &e) != THIMBLE_OK) fail_msg("%s: plan: %s", set->name, e.message);
        o.budget = (uint64_t)((double)plan.floor * set->budget);
    }
    return o;
}

static ThimbleModel *open_model(const Subject *s, const Setting *set) {
    ThimbleModelOptions o = options_for(s, set);
    ThimbleModel *m = NULL;
    ThimbleError e = {0};
    if (thimble_model_open(&m, s->path, &o, &e) != THIMBLE_OK) fail_msg("%s: %s", set->name, e.message);
    return m;
}

static ThimbleSession *open_session(ThimbleModel *m) {
    ThimbleSession *session = NULL;
    ThimbleError e = {0};
    if (thimble_session_open(&session, m, NULL, &e) != THIMBLE_OK) fail_msg("session: %s", e.message);
    return session;
}

static int32_t token_at(const Subject *s, int i) {
    return (int32_t)((uint32_t)(i * 7919 + i / 5 * 31) % (uint32_t)s->n_vocab);
}

typedef struct Taking {
    Subject *s;
    float *to;
} Taking;
static int take_logits(void *arg, size_t index, const float *logits, size_t n_vocab) {
    Taking *t = arg;
    memcpy(t->to + index * n_vocab, logits, n_vocab * sizeof *logits);
    return 0;
}

/* All rows' logits of one setting. */
static float *score(Subject *s, const Setting *set) {
    ThimbleModel *m = open_model(s, set);
    ThimbleSession *session = open_session(m);
    ThimbleError e = {0};
    int32_t tokens[MAX_TOKENS];
    s->n_vocab = (size_t)thimble_model_info(m)->n_vocab;
    for (int i = 0; i < s->n_tokens; i++) tokens[i] = token_at(s, i);
    float *all = calloc((size_t)s->n_tokens * s->n_vocab, sizeof *all);
    assert_non_null(all);
    Taking t = {s, all};
    if (thimble_session_score(session, tokens, (size_t)s->n_tokens, take_logits, &t, &e) != THIMBLE_OK)
        fail_msg("%s: %s", set->name, e.message);
    ThimbleStats stats = {.struct_size = sizeof stats};
    thimble_session_stats(session, &stats);
    assert_int_equal(stats.nonfinite_logits, 0);
    thimble_session_close(session);
    thimble_model_close(m);
    return all;
}

static void compare_row(const Subject *s, const char *name, int row, const float *got) {
    const float *want = s->reference + (size_t)row * s->n_vocab;
    if (memcmp(want, got, s->n_vocab * sizeof *got) == 0) return;
    for (size_t i = 0; i < s->n_vocab; i++)
        if (memcmp(&want[i], &got[i], sizeof *got) != 0)
            fail_msg("%s: row %d, id %zu: %.9g instead of %.9g", name, row, i, (double)got[i], (double)want[i]);
}

static void compare_settings(Subject *s, const Setting *settings, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float *all = score(s, &settings[i]);
        if (i == 0) {
            s->reference = all;
            /* A model that says the same everywhere would prove nothing. */
            assert_memory_not_equal(all, all + (size_t)(s->n_tokens - 1) * s->n_vocab, s->n_vocab * sizeof *all);
            continue;
        }
        for (int row = 0; row < s->n_tokens; row++)
            compare_row(s, settings[i].name, row, all + (size_t)row * s->n_vocab);
        free(all);
    }
}

/* ---- other ways to the same timeline ---------------------------------------------------------------------------- */

static void eval(ThimbleSession *session, const Subject *s, int from, int to) {
    int32_t tokens[MAX_TOKENS];
    ThimbleError e = {0};
    for (int i = from; i < to; i++) tokens[i - from] = token_at(s, i);
    if (thimble_session_eval(session, tokens, (size_t)(to - from), &e) != THIMBLE_OK) fail_msg("eval: %s", e.message);
}

static void check_logits(ThimbleSession *session, const Subject *s, const char *name) {
    size_t n_vocab;
    const float *logits = thimble_session_logits(session, &n_vocab);
    assert_non_null(logits);
    compare_row(s, name, (int)thimble_session_length(session) - 1, logits);
}

static void arrive_otherwise(const Subject *s) {
    Setting set = {.name = "other ways", .budget = 1, .threads = 2};
    ThimbleModel *m = open_model(s, &set);
    ThimbleSession *a = open_session(m), *b = open_session(m);
    ThimbleError e = {0};
    int middle = s->n_tokens / 2;
    eval(a, s, 0, middle);
    check_logits(a, s, "first half in one call");
    /* A detour, forgotten again: token by token behind it. */
    int32_t wrong[2] = {1, 2};
    assert_int_equal(thimble_session_eval(a, wrong, 2, &e), THIMBLE_OK);
    if (thimble_session_rewind(a, (size_t)middle, &e) != THIMBLE_OK) { /* a recurrent memory, or a ring that went on */
        assert_int_equal(e.code, THIMBLE_E_STATE);
        assert_int_equal(thimble_session_length(a), middle + 2);
        int32_t half[MAX_TOKENS];
        for (int i = 0; i < middle; i++) half[i] = token_at(s, i);
        assert_int_equal(thimble_session_sync(a, half, (size_t)middle, &e), THIMBLE_OK);
        check_logits(a, s, "first half anew");
    }
    for (int i = middle; i < middle + 4; i++) {
        eval(a, s, i, i + 1);
        check_logits(a, s, "token by token after a rewind");
    }
    /* Two sessions at different places in one pass. */
    eval(b, s, 0, 3);
    int32_t next[2] = {token_at(s, middle + 4), token_at(s, 3)};
    ThimbleSession *both[2] = {a, b};
    assert_int_equal(thimble_eval_batch(both, next, 2, &e), THIMBLE_OK);
    check_logits(a, s, "first session of a shared pass");
    check_logits(b, s, "second session of a shared pass");
    /* sync from a common prefix, and from nothing. */
    int32_t tokens[MAX_TOKENS];
    for (int i = 0; i < s->n_tokens; i++) tokens[i] = token_at(s, i);
    assert_int_equal(thimble_session_sync(a, tokens, (size_t)s->n_tokens, &e), THIMBLE_OK);
    check_logits(a, s, "sync");
    assert_int_equal(thimble_session_sync(b, wrong, 2, &e), THIMBLE_OK);
    assert_int_equal(thimble_session_sync(b, tokens, (size_t)s->n_tokens, &e), THIMBLE_OK);
    check_logits(b, s, "sync after another text");
    thimble_session_close(a);
    thimble_session_close(b);
    thimble_model_close(m);
}

/* ---- the subjects ----------------------------------------------------------------------------------------------- */

static void write_subject(Subject *s, const RandomModel *m, const char *name, int n_tokens) {
    snprintf(s->path, sizeof s->path, "%s", th_scratch_path(&dir, name));
    s->n_tokens = n_tokens;
    s->context = n_tokens + 8;
    random_model_write(m, s->path);
}

static const Setting dense_settings[] = {
    {.name = "one thread, all in memory", .threads = 1},
    {.name = "two threads", .threads = 2},
    {.name = "three threads, batch 1", .threads = 3, .batch = 1},
    {.name = "batch 7", .threads = 2, .batch = 7},
    {.name = "floor", .budget = 1, .threads = 1},
    {.name = "floor, two threads, batch 7", .budget = 1, .threads = 2, .batch = 7},
    {.name = "floor, batch 512", .budget = 1, .threads = 2, .batch = 512},
    {.name = "twice the floor", .budget = 2, .threads = 2},
    {.name = "1.3 times the floor, batch 1", .budget = 1.3, .threads = 1, .batch = 1},
    {.name = "resident", .threads = 2, .home = THIMBLE_HOME_RESIDENT},
    {.name = "mapped", .threads = 2, .home = THIMBLE_HOME_MAPPED},
    {.name = "stream", .threads = 2, .home = THIMBLE_HOME_STREAM, .batch = 7},
    {.name = "paged", .threads = 2, .home = THIMBLE_HOME_PAGED},
};

static void several_parts_stream(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen3", m.qk_norm = true, m.tied = true, m.type = TYPE_Q8_0;
    m.layers = 3, m.dim = 512, m.heads = 8, m.head_size = 64, m.ff = 2560, m.vocab = 3000;
    Subject s = {0};
    write_subject(&s, &m, "dense.gguf", 40);
    compare_settings(&s, dense_settings, sizeof dense_settings / sizeof dense_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

/* Past the length of several attention ranges: one row hands ranges out to threads, many rows walk them. */
static void long_past(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "llama", m.heads = 4, m.heads_kv = 1, m.type = TYPE_F32, m.vocab = 64;
    Subject s = {0};
    write_subject(&s, &m, "long.gguf", MAX_TOKENS);
    compare_settings(&s, dense_settings, 4); /* in memory: at the floor each of 700 tokens would read the file */
    arrive_otherwise(&s);
    free(s.reference);
}

static void sliding_windows(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "gemma3", m.layers = 7, m.qk_norm = m.post_norms = m.tied = true, m.window = 24, m.type = TYPE_F16;
    m.vocab = 96;
    Subject s = {0};
    write_subject(&s, &m, "window.gguf", 160);
    compare_settings(&s, dense_settings, 9);
    arrive_otherwise(&s);
    free(s.reference);
}

static const Setting moe_settings[] = {
    {.name = "one thread, all in memory", .threads = 1},
    {.name = "two threads, batch 1", .threads = 2, .batch = 1},
    {.name = "batch 7", .threads = 2, .batch = 7},
    {.name = "batch 3", .threads = 2, .batch = 3},
    {.name = "floor, batch 1", .budget = 1, .threads = 1, .batch = 1},
    {.name = "floor, batch 512", .budget = 1, .threads = 2, .batch = 512},
    {.name = "floor, LRU", .budget = 1, .threads = 2, .batch = 7, .evict = THIMBLE_EVICT_LRU, .lookahead = THIMBLE_OFF},
    {.name = "floor, LFU, looking ahead",
     .budget = 1,
     .threads = 2,
     .batch = 1,
     .evict = THIMBLE_EVICT_LFU,
     .lookahead = THIMBLE_ON},
    {.name = "twice the floor", .budget = 2, .threads = 2},
    {.name = "paged", .threads = 2, .home = THIMBLE_HOME_PAGED, .batch = 1, .lookahead = THIMBLE_ON},
    {.name = "paged, few slots", .threads = 2, .home = THIMBLE_HOME_PAGED, .slots = 24},
    {.name = "stream", .threads = 2, .home = THIMBLE_HOME_STREAM, .batch = 7},
    {.name = "mapped", .threads = 2, .home = THIMBLE_HOME_MAPPED},
    {.name = "resident", .threads = 3, .home = THIMBLE_HOME_RESIDENT, .batch = 512},
};

static void paged_experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen2moe", m.layers = 4, m.dim = 256, m.heads = 4, m.head_size = 64, m.biases = true, m.type = TYPE_Q8_0;
    m.experts = 24, m.experts_used = 4, m.expert_ff = 256, m.shared_ff = 256, m.vocab = 1024;
    m.expert_type = TYPE_Q4_K, m.down_type = TYPE_Q8_0;
    Subject s = {0};
    write_subject(&s, &m, "moe.gguf", 60);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

static void grouped_experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe2", m.layers = 3, m.dim = 128, m.head_size = 32,
    m.fused_qkv = m.qk_norm = m.fused_gate_up = true;
    m.experts = 32, m.experts_used = 8, m.groups = 8, m.expert_ff = 64, m.shared_ff = 64, m.dense_lead = 1,
    m.vocab = 200;
    Subject s = {0};
    write_subject(&s, &m, "groups.gguf", 50);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

/* Mamba-2, two groups, heads of 48 values (a block of columns that is not full), experts of two sizes. */
static void mamba2_layers(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "granitehybrid", m.layers = 4, m.dim = 256, m.head_size = 64, m.type = TYPE_Q8_0, m.vocab = 512;
    m.attention_every = 3, m.taps = 4, m.mamba_heads = 6, m.mamba_head = 48, m.mamba_state = 64, m.mamba_groups = 2;
    m.experts = 24, m.experts_used = 4, m.expert_ff = 256, m.shared_ff = 256, m.shared_plain = true;
    m.expert_type = TYPE_Q4_K, m.down_type = TYPE_Q8_0;
    Subject s = {0};
    write_subject(&s, &m, "mamba.gguf", 70);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

static void short_convolutions(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "lfm2", m.layers = 5, m.dim = 512, m.heads = 8, m.head_size = 64, m.ff = 1024, m.vocab = 400;
    m.type = TYPE_Q8_0, m.qk_norm = m.tied = true, m.attention_every = 2, m.taps = 3, m.window = 20;
    Subject s = {0};
    write_subject(&s, &m, "conv.gguf", 100);
    compare_settings(&s, dense_settings, sizeof dense_settings / sizeof dense_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
    m.arch = "lfm2moe", m.dim = 128, m.experts = 16, m.experts_used = 4, m.expert_ff = 96, m.dense_lead = 2;
    m.select_bias = true, m.window = 0, m.type = TYPE_F16, m.expert_type = m.down_type = TYPE_Q8_0;
    write_subject(&s, &m, "conv_moe.gguf", 40);
    compare_settings(&s, moe_settings, 10);
    free(s.reference);
}

/* Sinks with windows that wrap, biases of everything, MXFP4. */
static void sinks_and_windows(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "gpt-oss", m.layers = 4, m.dim = 128, m.heads = 8, m.head_size = 32, m.vocab = 300, m.type = TYPE_Q8_0;
    m.sinks = m.biases = m.companions = true, m.window = 24, m.ffn_norm = "post_attention_norm.weight";
    m.experts = 16, m.experts_used = 4, m.expert_ff = 96, m.expert_type = m.down_type = TYPE_MXFP4;
    Subject s = {0};
    write_subject(&s, &m, "sinks.gguf", 300);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

/* More heads than go together in one piece of attention; parts that end within a head. */
static void latent_attention(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "deepseek2", m.layers = 3, m.dim = 256, m.heads = 40, m.head_size = 96, m.rope_dims = 32, m.latent = 224;
    m.query_latent = 128, m.ff = 512, m.dense_lead = 1, m.type = TYPE_Q8_0, m.expert_type = TYPE_Q8_0,
    m.down_type = TYPE_F16;
    m.experts = 16, m.experts_used = 4, m.groups = 4, m.expert_ff = 64, m.shared_ff = 64, m.vocab = 400;
    m.companions = true, m.scales = 1;
    Subject s = {0};
    write_subject(&s, &m, "latent.gguf", 290);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

static void delta_attention_of_keys(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 4, m.dim = 128, m.heads = 4, m.head_size = 48, m.rope_dims = 16, m.latent = 48;
    m.latent_every = 4, m.kda_head = 40, m.type = TYPE_F16, m.expert_type = TYPE_F16, m.down_type = TYPE_Q8_0;
    m.experts = 16, m.experts_used = 4, m.groups = 2, m.expert_ff = 64, m.shared_ff = 64, m.dense_lead = 1,
    m.vocab = 200;
    Subject s = {0};
    write_subject(&s, &m, "kda.gguf", 60);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
}

static void latent_attention_of_old_files(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "deepseek2", m.layers = 2, m.dim = 128, m.heads = 24, m.head_size = 160, m.rope_dims = 32, m.latent = 224;
    m.legacy_kv_b = true, m.type = TYPE_Q8_0, m.vocab = 200;
    Subject s = {0};
    write_subject(&s, &m, "legacy.gguf", 70);
    compare_settings(&s, dense_settings, sizeof dense_settings / sizeof dense_settings[0]);
    arrive_otherwise(&s);
    Setting settings[4];
    for (int i = 0; i < 4; i++) {
        settings[i] = dense_settings[i];
        settings[i].cache_type = THIMBLE_CACHE_Q8_0;
    }
    free(s.reference);
    compare_settings(&s, settings, 4);
    free(s.reference);
}

/* Recurrent layers: their memory is carried through every cut of the tokens, every thread count and shared passes. Keys
 * of 48 columns leave a block of columns that is not full. */
static void recurrent_layers(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen35", m.layers = 5, m.dim = 256, m.heads = 4, m.head_size = 64, m.ff = 512, m.vocab = 300,
    m.tied = true;
    m.qk_norm = true, m.type = TYPE_Q8_0;
    m.ssm_state = 64, m.ssm_key_heads = 2, m.ssm_value_heads = 6, m.mtp = 1;
    Subject s = {0};
    write_subject(&s, &m, "hybrid.gguf", 150);
    compare_settings(&s, dense_settings, sizeof dense_settings / sizeof dense_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
    m.type = TYPE_F32, m.ssm_state = 48, m.interval = 2, m.packing = 3;
    write_subject(&s, &m, "hybrid48.gguf", 50);
    compare_settings(&s, dense_settings, 6);
    arrive_otherwise(&s);
    free(s.reference);
}

static void recurrent_layers_with_experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen35moe", m.layers = 4, m.dim = 256, m.heads = 4, m.head_size = 64, m.type = TYPE_Q8_0, m.vocab = 512;
    m.qk_norm = true, m.ssm_state = 32, m.ssm_key_heads = 4, m.ssm_value_heads = 8;
    m.experts = 24, m.experts_used = 4, m.expert_ff = 256, m.shared_ff = 256, m.fused_gate_up = true;
    m.expert_type = TYPE_Q4_K, m.down_type = TYPE_Q8_0;
    Subject s = {0};
    write_subject(&s, &m, "hybrid_moe.gguf", 60);
    compare_settings(&s, moe_settings, sizeof moe_settings / sizeof moe_settings[0]);
    arrive_otherwise(&s);
    free(s.reference);
    m.arch = "qwen3next", m.packing = 1, m.fused_gate_up = false;
    write_subject(&s, &m, "next.gguf", 40);
    compare_settings(&s, moe_settings, 6);
    arrive_otherwise(&s);
    free(s.reference);
    m.packing = 2;
    write_subject(&s, &m, "next_legacy.gguf", 40);
    compare_settings(&s, moe_settings, 6);
    free(s.reference);
}

/* Memories that are rounded after each token: no cut of the tokens may show where a pass ended. Blocks of columns that
 * are not full in two of them. */
static void half_memories(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen35", m.layers = 4, m.dim = 128, m.heads = 2, m.head_size = 64, m.ff = 256, m.vocab = 200;
    m.qk_norm = true, m.ssm_state = 48, m.ssm_key_heads = 2, m.ssm_value_heads = 4, m.type = TYPE_Q8_0;
    Subject s = {.state_type = THIMBLE_STATE_F16};
    write_subject(&s, &m, "half_delta.gguf", 90);
    compare_settings(&s, dense_settings, 7);
    arrive_otherwise(&s);
    free(s.reference);
    m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 4, m.dim = 128, m.heads = 4, m.head_size = 48, m.rope_dims = 16, m.latent = 48;
    m.latent_every = 4, m.kda_head = 40, m.experts = 16, m.experts_used = 4, m.groups = 2, m.expert_ff = 64;
    m.shared_ff = 64, m.dense_lead = 1, m.vocab = 200;
    write_subject(&s, &m, "half_kda.gguf", 50);
    compare_settings(&s, moe_settings, 6);
    arrive_otherwise(&s);
    free(s.reference);
    m = RANDOM_MODEL;
    m.arch = "granitehybrid", m.layers = 3, m.dim = 128, m.head_size = 32, m.vocab = 200, m.attention_every = 3;
    m.taps = 4, m.mamba_heads = 4, m.mamba_head = 64, m.mamba_state = 32, m.mamba_groups = 2;
    write_subject(&s, &m, "half_mamba.gguf", 50);
    compare_settings(&s, dense_settings, 7);
    arrive_otherwise(&s);
    free(s.reference);
}

/* A tensor for each expert, as the first Mixtral files had: dense matrices to the store. */
static void separate_experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "llama", m.experts = 6, m.experts_used = 2, m.expert_ff = 96, m.separate_experts = true, m.vocab = 100;
    m.expert_type = TYPE_Q8_0;
    Subject s = {0};
    write_subject(&s, &m, "separate.gguf", 40);
    compare_settings(&s, dense_settings, 8);
    arrive_otherwise(&s);
    free(s.reference);
}

/* A quantised cache rounds more, but as much for every split. */
static void quantised_cache(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "llama", m.head_size = 32, m.heads = 4, m.vocab = 64;
    Setting settings[4];
    for (int i = 0; i < 4; i++) {
        settings[i] = dense_settings[i];
        settings[i].cache_type = THIMBLE_CACHE_Q8_0;
    }
    Subject s = {0};
    write_subject(&s, &m, "cache.gguf", 64);
    compare_settings(&s, settings, 4);
    free(s.reference);
    m.head_size = 40, m.value_size = 17; /* blocks that are not full, rows of an odd length */
    write_subject(&s, &m, "odd.gguf", 64);
    compare_settings(&s, settings, 4);
    free(s.reference);
}

/* ---- all combinations ------------------------------------------------------------------------------------------- */

static int digit(int *number, int base) {
    int d = *number % base;
    *number /= base;
    return d;
}

/* Number `at` of the combinations of budget, threads, batch and home, with experts of eviction and look-ahead too.
 * False: past the last one. */
static bool combine(int at, bool experts, Setting *set) {
    static const int batches[] = {1, 7, 512}, evicts[] = {THIMBLE_EVICT_AUTO, THIMBLE_EVICT_LRU, THIMBLE_EVICT_LFU},
                     ahead[] = {THIMBLE_AUTO, THIMBLE_ON, THIMBLE_OFF};
    static char name[120];
    *set = (Setting){.name = name, .threads = 1 + digit(&at, 2), .batch = batches[digit(&at, 3)]};
    set->budget = digit(&at, 3); /* unlimited, the floor, twice the floor */
    if (experts) set->evict = evicts[digit(&at, 3)], set->lookahead = ahead[digit(&at, 3)];
    set->home = digit(&at, THIMBLE_HOME_PAGED + 1);
    snprintf(name, sizeof name, "%g floors, %d threads, batch %d, home %d, evict %d, lookahead %d", set->budget,
             set->threads, set->batch, set->home, set->evict, set->lookahead);
    return at == 0;
}

static void cross(Subject *s, bool experts) {
    Setting set;
    int n = 0;
    for (int at = 0; combine(at, experts, &set); at++) {
        if (set.home == THIMBLE_HOME_MAPPED && set.budget > 0) continue; /* the page cache keeps no budget */
        float *all = score(s, &set);
        if (!s->reference) s->reference = all;
        for (int row = 0; row < s->n_tokens; row++) compare_row(s, set.name, row, all + (size_t)row * s->n_vocab);
        if (all != s->reference) free(all);
        n++;
    }
    assert_int_equal(n, (experts ? 9 : 1) * (5 * 18 - 12));
    free(s->reference);
}

static void crossed_dense(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen3", m.layers = 3, m.dim = 128, m.heads = 4, m.head_size = 32, m.ff = 512, m.qk_norm = true;
    m.type = TYPE_Q8_0, m.vocab = 200;
    Subject s = {0};
    write_subject(&s, &m, "crossed.gguf", 20);
    cross(&s, false);
}

static void crossed_paging(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen2moe", m.layers = 3, m.dim = 128, m.heads = 4, m.head_size = 32, m.biases = true, m.type = TYPE_Q8_0;
    m.experts = 16, m.experts_used = 3, m.expert_ff = 128, m.shared_ff = 128, m.vocab = 200;
    m.expert_type = m.down_type = TYPE_Q8_0;
    Subject s = {0};
    write_subject(&s, &m, "crossed_moe.gguf", 20);
    cross(&s, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_parts_stream), cmocka_unit_test(long_past),       cmocka_unit_test(sliding_windows),
        cmocka_unit_test(recurrent_layers),     cmocka_unit_test(recurrent_layers_with_experts),
        cmocka_unit_test(mamba2_layers),
        cmocka_unit_test(half_memories),
        cmocka_unit_test(short_convolutions),
        cmocka_unit_test(sinks_and_windows),
        cmocka_unit_test(paged_experts),        cmocka_unit_test(grouped_experts), cmocka_unit_test(separate_experts),
        cmocka_unit_test(quantised_cache),
        cmocka_unit_test(latent_attention),     cmocka_unit_test(latent_attention_of_old_files),
        cmocka_unit_test(delta_attention_of_keys), cmocka_unit_test(crossed_dense),
        cmocka_unit_test(crossed_paging),
    };
    cmocka_set_test_filter(getenv("LAW2_FILTER")); /* sanitizers have no time for all of it */
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
