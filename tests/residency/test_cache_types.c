/* test_cache_types.c: what a rounded KV cache costs, for every head size that models have, and a rounded recurrent
 * memory.
 *
 * Quantised caches have been silently wrong elsewhere for heads whose size is no power of two, whose keys and values
 * differ in size, or that share one KV head. Here the logits of tiny random models with f16 and q8_0 caches are held
 * to those with an f32 cache. `--table` prints what docs/MEASURING.md shows. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "common/random_model.h"
#include "common/scratch.h"
#include "thimble/thimble.h"

enum { N_TOKENS = 300, N_VOCAB = 256 };
/* Root mean square of the logits' errors against that of the logits, and the largest divergence of a row in nats: what
 * is promised. */
static const double state_error = 1e-3, state_divergence = 1e-5;
static const double f16_error = 1e-3, q8_error = 2e-2, f16_divergence = 1e-5, q8_divergence = 1e-3;

static Scratch dir;
static bool table;
static float rows[3][N_TOKENS][N_VOCAB];

typedef struct Loss {
    double error, divergence;
} Loss;

static int take(void *arg, size_t index, const float *logits, size_t n_vocab) {
    float(*to)[N_VOCAB] = arg;
    if (n_vocab != N_VOCAB) return 1;
    memcpy(to[index], logits, sizeof *to);
    return 0;
}

static void score(const char *path, int cache_type, int state_type, float (*to)[N_VOCAB]) {
    ThimbleModelOptions o;
    ThimbleModel *m = NULL;
    ThimbleSession *s = NULL;
    ThimbleError e = {0};
    int32_t tokens[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 7919 + i / 5 * 31) % N_VOCAB;
    thimble_model_options_init(&o);
    o.context = N_TOKENS, o.threads = 2, o.cache_type = cache_type;
    o.state_type = state_type;
    if (thimble_model_open(&m, path, &o, &e) != THIMBLE_OK || thimble_session_open(&s, m, NULL, &e) != THIMBLE_OK ||
        thimble_session_score(s, tokens, N_TOKENS, take, to, &e) != THIMBLE_OK)
        fail_msg("%s: %s", path, e.message);
    thimble_session_close(s);
    thimble_model_close(m);
}

static double log_sum(const float *x) {
    double sum = 0, most = -INFINITY;
    for (int i = 0; i < N_VOCAB; i++) most = (double)x[i] > most ? (double)x[i] : most;
    for (int i = 0; i < N_VOCAB; i++) sum += exp((double)x[i] - most);
    return most + log(sum);
}

static Loss compare(float (*want)[N_VOCAB], float (*got)[N_VOCAB]) {
    double errors = 0, squares = 0, worst = 0;
    for (int t = 0; t < N_TOKENS; t++) {
        double p = log_sum(want[t]), q = log_sum(got[t]), divergence = 0;
        for (int i = 0; i < N_VOCAB; i++) {
            double a = (double)want[t][i], b = (double)got[t][i];
            assert_true(isfinite(a) && isfinite(b));
            errors += (a - b) * (a - b), squares += a * a;
            divergence += exp(a - p) * ((a - p) - (b - q));
        }
        worst = divergence > worst ? divergence : worst;
    }
    return (Loss){sqrt(errors / squares), worst};
}

static void check(RandomModel *m, const char *what) {
    const char *path = th_scratch_path(&dir, "cache.gguf");
    random_model_write(m, path);
    score(path, THIMBLE_CACHE_F32, THIMBLE_STATE_F32, rows[0]);
    score(path, THIMBLE_CACHE_F16, THIMBLE_STATE_F32, rows[1]);
    score(path, THIMBLE_CACHE_Q8_0, THIMBLE_STATE_F32, rows[2]);
    Loss f16 = compare(rows[0], rows[1]), q8 = compare(rows[0], rows[2]);
    if (table)
        printf("| %s | %.1e | %.1e | %.1e | %.1e |\n", what, f16.error, f16.divergence, q8.error, q8.divergence);
    /* A cache that rounds nothing was not used. */
    assert_true(f16.error > 0 && q8.error > f16.error);
    bool f16_holds = f16.error <= f16_error && f16.divergence <= f16_divergence;
    bool q8_holds = q8.error <= q8_error && q8.divergence <= q8_divergence;
    if (!f16_holds || !q8_holds)
        fail_msg("%s: f16 %.3g (%.3g nats), q8_0 %.3g (%.3g nats)", what, f16.error, f16.divergence, q8.error,
                 q8.divergence);
}

static RandomModel model_of(int heads_kv, int key, int value) {
    RandomModel m = RANDOM_MODEL;
    m.heads = 4, m.heads_kv = heads_kv, m.head_size = key, m.value_size = value, m.vocab = N_VOCAB;
    m.context = N_TOKENS, m.seed = (uint64_t)(key * 1000 + value);
    return m;
}

/* B38, and the two below. */
static void every_head_size(void **state) {
    (void)state;
    static const int sizes[] = {32, 64, 80, 96, 128, 192, 256, 8, 100};
    for (size_t i = 0; i < TH_COUNT(sizes); i++)
        for (int kv = 1; kv <= 2; kv++) {
            char what[64];
            RandomModel m = model_of(kv, sizes[i], sizes[i]);
            snprintf(what, sizeof what, "%d, %d KV head%s", sizes[i], kv, kv > 1 ? "s" : "");
            check(&m, what);
        }
}

static void keys_and_values_of_unequal_size(void **state) {
    (void)state;
    static const int sizes[][2] = {{192, 128}, {128, 192}, {80, 64}, {64, 80}, {96, 50}, {256, 32}};
    for (size_t i = 0; i < TH_COUNT(sizes); i++) {
        char what[64];
        RandomModel m = model_of(1, sizes[i][0], sizes[i][1]);
        snprintf(what, sizeof what, "K %d, V %d, 1 KV head", sizes[i][0], sizes[i][1]);
        check(&m, what);
    }
}

static void windows_and_latents(void **state) {
    (void)state;
    RandomModel m = model_of(1, 80, 80);
    m.arch = "gemma3", m.layers = 7, m.qk_norm = m.post_norms = m.tied = true, m.window = 24;
    check(&m, "80, rings of a window");
    m = model_of(1, 56, 0);
    m.arch = "deepseek2", m.rope_dims = 24, m.latent = 76;
    check(&m, "latent of 76 + 24");
}

/* A memory carries its roundings along, one for each token it has not yet forgotten. */
static void check_state(RandomModel *m, const char *what) {
    const char *path = th_scratch_path(&dir, "state.gguf");
    m->vocab = N_VOCAB, m->context = N_TOKENS;
    random_model_write(m, path);
    score(path, THIMBLE_CACHE_F32, THIMBLE_STATE_F32, rows[0]);
    score(path, THIMBLE_CACHE_F32, THIMBLE_STATE_F16, rows[1]);
    Loss loss = compare(rows[0], rows[1]);
    if (table) printf("| %s | %.1e | %.1e |\n", what, loss.error, loss.divergence);
    assert_true(loss.error > 0);
    if (loss.error > state_error || loss.divergence > state_divergence)
        fail_msg("%s: %.3g (%.3g nats)", what, loss.error, loss.divergence);
}

static void recurrent_memories(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen35", m.layers = 4, m.dim = 128, m.heads = 2, m.head_size = 64, m.ff = 256, m.qk_norm = true;
    m.ssm_state = 128, m.ssm_key_heads = 2, m.ssm_value_heads = 4;
    check_state(&m, "Gated DeltaNet, heads of 128 (qwen35)");
    m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 4, m.dim = 64, m.heads = 4, m.head_size = 48, m.rope_dims = 16, m.latent = 48;
    m.latent_every = 4, m.kda_head = 64, m.experts = 8, m.experts_used = 2, m.groups = 2, m.expert_ff = 64;
    m.shared_ff = 64, m.dense_lead = 1;
    check_state(&m, "KDA, heads of 64 (bailingmoe3)");
    m = RANDOM_MODEL;
    m.arch = "granitehybrid", m.layers = 4, m.dim = 128, m.head_size = 32, m.attention_every = 4;
    m.taps = 4, m.mamba_heads = 4, m.mamba_head = 64, m.mamba_state = 128, m.mamba_groups = 1;
    check_state(&m, "Mamba-2, heads of 64 x 128 (granitehybrid)");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_head_size),
                                       cmocka_unit_test(keys_and_values_of_unequal_size),
                                       cmocka_unit_test(windows_and_latents), cmocka_unit_test(recurrent_memories)};
    table = argc > 1 && !strcmp(argv[1], "--table");
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
