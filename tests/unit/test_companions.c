/* test_companions.c: second-level scales of matrices (specification 1.4). A power of two changes no digit: a model with
 * scales must give the very bits of the model whose weights were multiplied by them, at every place a scale may stand.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_model.h"
#include "common/scratch.h"
#include "thimble/thimble.h"

enum { N_TOKENS = 9 };

static Scratch dir;

static int take(void *arg, size_t index, const float *logits, size_t n_vocab) {
    memcpy((float *)arg + index * n_vocab, logits, n_vocab * sizeof *logits);
    return 0;
}

/* All rows' logits, in one pass; sums up to some bits that no two models share. */
static float *run(RandomModel m, int scales, const char *name) {
    m.scales = scales;
    const char *path = th_scratch_path(&dir, name);
    random_model_write(&m, path);
    ThimbleModelOptions o;
    thimble_model_options_init(&o);
    o.context = 32, o.threads = 2, o.cache_type = THIMBLE_CACHE_F32;
    ThimbleModel *model = NULL;
    ThimbleSession *session = NULL;
    ThimbleError e = {0};
    if (thimble_model_open(&model, path, &o, &e) != THIMBLE_OK) fail_msg("%s: %s", name, e.message);
    assert_int_equal(thimble_session_open(&session, model, NULL, &e), THIMBLE_OK);
    int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 37 + 5) % m.vocab;
    float *all = calloc((size_t)N_TOKENS * (size_t)m.vocab, sizeof *all);
    assert_non_null(all);
    assert_int_equal(thimble_session_score(session, tokens, N_TOKENS, take, all, &e), THIMBLE_OK);
    thimble_session_close(session);
    thimble_model_close(model);
    return all;
}

static void compare(const RandomModel *m) {
    size_t bytes = (size_t)N_TOKENS * (size_t)m->vocab * sizeof(float);
    float *plain = run(*m, 0, "plain.gguf"), *scaled = run(*m, 1, "scaled.gguf"), *folded = run(*m, 2, "folded.gguf");
    assert_memory_not_equal(plain, scaled, bytes);
    assert_memory_equal(scaled, folded, bytes);
    free(plain), free(scaled), free(folded);
}

/* seed 1: one scale per expert and head; seed 2: one for all of a tensor. */
static void dense_and_tied(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen3", m.qk_norm = m.tied = true;
    compare(&m);
}

static void experts(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        RandomModel m = RANDOM_MODEL;
        m.arch = "qwen2moe", m.biases = true, m.seed = seed;
        m.experts = 6, m.experts_used = 2, m.expert_ff = 32, m.shared_ff = 32;
        compare(&m);
        m.fused_gate_up = true;
        compare(&m);
    }
}

/* A gate that a bias holds open is 1 whatever else is said, so two such biases cannot be told apart. */
static void shared_gate(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen2moe", m.biases = true, m.experts = 6, m.experts_used = 2, m.expert_ff = 32, m.shared_ff = 32;
    size_t bytes = (size_t)N_TOKENS * (size_t)m.vocab * sizeof(float);
    float *plain = run(m, 0, "plain.gguf");
    m.shared_gate_bias = 300;
    float *open = run(m, 0, "open.gguf");
    m.shared_gate_bias = 900;
    float *wide_open = run(m, 0, "wide_open.gguf");
    assert_memory_not_equal(plain, open, bytes);
    assert_memory_equal(open, wide_open, bytes);
    free(plain), free(open), free(wide_open);
}

static void latent(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        RandomModel m = RANDOM_MODEL;
        m.arch = "deepseek2", m.head_size = 24, m.rope_dims = 8, m.latent = 32, m.query_latent = 24, m.seed = seed;
        m.experts = 8, m.experts_used = 2, m.groups = 4, m.expert_ff = 32, m.shared_ff = 32, m.dense_lead = 1;
        m.companions = true;
        compare(&m);
        m.legacy_kv_b = true;
        compare(&m);
    }
}

static void keyed_memories(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.head_size = 24, m.rope_dims = 8, m.latent = 32, m.latent_every = 2, m.kda_head = 16;
    m.experts = 8, m.experts_used = 2, m.groups = 2, m.expert_ff = 32, m.shared_ff = 32, m.dense_lead = 1;
    compare(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(dense_and_tied), cmocka_unit_test(experts),
                                       cmocka_unit_test(shared_gate), cmocka_unit_test(latent),
                                       cmocka_unit_test(keyed_memories)};
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
