/* test_checkpoints.c: going back in a session with recurrent memory: how much is computed again, and that the bits are
 * those of a session that never left. Subjects: hybrids of several kinds, and a window's ring beside them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/random_model.h"
#include "common/scratch.h"
#include "quant/type.h"
#include "thimble/thimble.h"

enum { CONTEXT = 3000, VOCAB = 96 };

static Scratch dir;
static char hybrid[512], windows[512];

static void write_models(void) {
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 2, m.dim = 32, m.heads = 2, m.head_size = 16, m.rope_dims = 8, m.latent = 16;
    m.latent_every = 2, m.kda_head = 8, m.experts = 4, m.experts_used = 2, m.groups = 1, m.expert_ff = 32, m.ff = 32;
    m.shared_ff = 32, m.dense_lead = 1, m.vocab = VOCAB, m.context = CONTEXT;
    snprintf(hybrid, sizeof hybrid, "%s", th_scratch_path(&dir, "hybrid.gguf"));
    random_model_write(&m, hybrid);
    m = RANDOM_MODEL;
    m.arch = "gemma3", m.layers = 6, m.dim = 32, m.heads = 2, m.heads_kv = 1, m.ff = 32, m.vocab = VOCAB;
    m.qk_norm = m.post_norms = m.tied = true, m.window = 40, m.context = CONTEXT;
    snprintf(windows, sizeof windows, "%s", th_scratch_path(&dir, "windows.gguf"));
    random_model_write(&m, windows);
}

typedef struct Talk {
    ThimbleModel *m;
    ThimbleSession *s;
} Talk;

static Talk open_talk(const char *path, int checkpoints, int batch, uint64_t budget) {
    Talk t = {0};
    ThimbleModelOptions o;
    ThimbleError e = {0};
    thimble_model_options_init(&o);
    o.context = CONTEXT, o.threads = 1, o.batch = batch, o.checkpoints = checkpoints, o.budget = budget;
    o.cache_type = THIMBLE_CACHE_F32;
    if (thimble_model_open(&t.m, path, &o, &e) != THIMBLE_OK || thimble_session_open(&t.s, t.m, NULL, &e) != THIMBLE_OK)
        fail_msg("%s", e.message);
    return t;
}

static void close_talk(Talk *t) {
    thimble_session_close(t->s);
    thimble_model_close(t->m);
}

static ThimbleStats stats_of(const Talk *t) {
    ThimbleStats stats = {.struct_size = sizeof stats};
    thimble_session_stats(t->s, &stats);
    return stats;
}

/* A text of n tokens that goes its own way from `parting` on. */
static void make_text(int32_t *tokens, int n, int parting, int variant) {
    for (int i = 0; i < n; i++) {
        uint32_t x = (uint32_t)(i * 7919 + i / 5 * 31 + (i >= parting ? variant * 17 + 1 : 0));
        tokens[i] = (int32_t)(x % VOCAB);
    }
}

/* Syncs and says how many tokens were evaluated; cached_tokens must agree. */
static int sync(Talk *t, const int32_t *tokens, int n) {
    ThimbleError e = {0};
    ThimbleStats before = stats_of(t), after;
    if (thimble_session_sync(t->s, tokens, (size_t)n, &e) != THIMBLE_OK) fail_msg("sync: %s", e.message);
    after = stats_of(t);
    int evaluated =
        (int)(after.prompt_tokens + after.generated_tokens - before.prompt_tokens - before.generated_tokens);
    assert_int_equal(after.cached_tokens - before.cached_tokens, n - evaluated);
    assert_int_equal(thimble_session_length(t->s), n);
    return evaluated;
}

static void eval(Talk *t, int32_t token) {
    ThimbleError e = {0};
    if (thimble_session_eval(t->s, &token, 1, &e) != THIMBLE_OK) fail_msg("eval: %s", e.message);
}

/* The session's logits are those of one that heard only this. */
static void check_against_fresh(const char *path, const Talk *t, const int32_t *tokens, int n) {
    Talk fresh = open_talk(path, -1, 7, 0);
    size_t n_vocab;
    sync(&fresh, tokens, n);
    const float *got = thimble_session_logits(t->s, &n_vocab), *want = thimble_session_logits(fresh.s, &n_vocab);
    assert_non_null(got);
    assert_memory_equal(got, want, n_vocab * sizeof *got);
    close_talk(&fresh);
}

/* ---- what it costs --------------------------------------------------------------------------------------------------
 */

static void returning_costs_one_step(void **state) {
    (void)state;
    static int32_t text[CONTEXT];
    for (int n = 2; n <= 12; n += 5) {
        Talk t = open_talk(hybrid, n, 64, 0);
        int slots = n - (n + 2) / 3, step = 256;
        while (2200 / step > slots) step *= 2;
        make_text(text, 2200, CONTEXT, 0);
        assert_int_equal(sync(&t, text, 2200), 2200);
        make_text(text, 2050, 2000, 1); /* back to a prefix of 2,000 and on from there */
        int evaluated = sync(&t, text, 2050);
        if (evaluated > step + 50) fail_msg("%d slots: %d tokens for 50, a step is %d", n, evaluated, step);
        check_against_fresh(hybrid, &t, text, 2050);
        /* Now it is known that prompts part there. */
        make_text(text, 2050, 2000, 2);
        if (n >= 4) assert_int_equal(sync(&t, text, 2050), 50);
        close_talk(&t);
    }
}

/* A chat: a prompt, an answer token by token, the same prompt again, then one that goes on without the answer. */
static void answers_can_be_taken_back(void **state) {
    (void)state;
    static int32_t text[CONTEXT];
    Talk t = open_talk(hybrid, 6, 0, 0);
    make_text(text, 300, CONTEXT, 0);
    sync(&t, text, 300);
    for (int i = 0; i < 40; i++) eval(&t, i % VOCAB);
    assert_int_equal(sync(&t, text, 300), 0); /* the logits were kept */
    check_against_fresh(hybrid, &t, text, 300);
    for (int i = 0; i < 40; i++) eval(&t, i % VOCAB);
    make_text(text, 330, 300, 3);
    assert_int_equal(sync(&t, text, 330), 30);
    check_against_fresh(hybrid, &t, text, 330);
    make_text(text, 330, 12, 3); /* before every checkpoint: from the start */
    assert_int_equal(sync(&t, text, 330), 330);
    check_against_fresh(hybrid, &t, text, 330);
    close_talk(&t);
}

static void rewinding_evaluates_the_gap(void **state) {
    (void)state;
    static int32_t text[CONTEXT];
    ThimbleError e = {0};
    Talk t = open_talk(hybrid, 6, 32, 0);
    make_text(text, 700, CONTEXT, 0);
    sync(&t, text, 700);
    uint64_t before = stats_of(&t).prompt_tokens;
    assert_int_equal(thimble_session_rewind(t.s, 600, &e), THIMBLE_OK);
    assert_int_equal(stats_of(&t).prompt_tokens - before, 600 - 512);
    assert_int_equal(thimble_session_length(t.s), 600);
    eval(&t, text[600]);
    check_against_fresh(hybrid, &t, text, 601);
    assert_int_equal(thimble_session_rewind(t.s, 512, &e), THIMBLE_OK); /* exactly there */
    assert_int_equal(thimble_session_rewind(t.s, 100, &e), THIMBLE_E_STATE);
    assert_int_equal(thimble_session_length(t.s), 512);
    close_talk(&t);
    t = open_talk(hybrid, -1, 32, 0);
    sync(&t, text, 700);
    assert_int_equal(thimble_session_rewind(t.s, 600, &e), THIMBLE_E_STATE);
    assert_int_equal(sync(&t, text, 650), 650); /* nothing is kept: all of it */
    close_talk(&t);
}

static void rings_start_over_beyond_their_reach(void **state) {
    (void)state;
    static int32_t text[CONTEXT];
    ThimbleError e = {0};
    Talk t = open_talk(windows, 8, 16, 0);
    make_text(text, 400, CONTEXT, 0);
    sync(&t, text, 400);
    make_text(text, 400, 390, 1);
    assert_int_equal(sync(&t, text, 400), 10); /* batch - 1 tokens are still there */
    check_against_fresh(windows, &t, text, 400);
    assert_int_equal(thimble_session_rewind(t.s, 300, &e), THIMBLE_E_STATE);
    make_text(text, 400, 300, 2);
    assert_int_equal(sync(&t, text, 400), 400);
    check_against_fresh(windows, &t, text, 400);
    close_talk(&t);
}

/* ---- whatever comes -------------------------------------------------------------------------------------------------
 */

/* Random turns, steps back and answers under several settings: never more than asked for, always the right bits. */
static void any_order_of_turns(void **state) {
    (void)state;
    static int32_t text[CONTEXT], now[CONTEXT];
    for (int round = 0; round < 6; round++) {
        uint32_t random = 77u + (uint32_t)round;
        int length = 0;
        Talk t = open_talk(hybrid, round == 0 ? -1 : 1 + 2 * round, 1 + 50 * round, 0);
        for (int i = 0; i < 25; i++) {
            random = random * 1664525u + 1013904223u;
            int keep = length > 0 ? (int)((random >> 8) % (uint32_t)(length + 1)) : 0,
                more = 1 + (int)(random >> 20) % 400;
            if (i % 3 != 0) keep = length; /* most turns go on */
            int n = keep + more < CONTEXT - 50 ? keep + more : CONTEXT - 50;
            make_text(text, n, 0, i);
            memcpy(text, now, (size_t)keep * sizeof *now);
            sync(&t, text, n);
            memcpy(now, text, (size_t)n * sizeof *now);
            length = n;
            for (int k = 0; k < i % 4; k++, length++) eval(&t, now[length] = (int32_t)((random >> k) % VOCAB));
            if (i % 6 == 5) check_against_fresh(hybrid, &t, now, length);
        }
        check_against_fresh(hybrid, &t, now, length);
        close_talk(&t);
    }
}

static void the_plan_counts_them(void **state) {
    (void)state;
    ThimbleModelOptions o;
    ThimbleError e = {0};
    ThimblePlan p = {.struct_size = sizeof p}, none = p;
    thimble_model_options_init(&o);
    o.context = CONTEXT, o.threads = 1, o.sessions = 2, o.budget = (uint64_t)1 << 40;
    assert_int_equal(thimble_plan(hybrid, &o, &p, &e), THIMBLE_OK);
    assert_in_range(p.checkpoints, 3 + CONTEXT / 256, 16);
    o.budget = p.floor;
    assert_int_equal(thimble_plan(hybrid, &o, &none, &e), THIMBLE_OK);
    assert_true(none.fits);
    assert_int_equal(none.checkpoints, 0); /* none at the floor, unless asked for */
    o.checkpoints = 5;
    assert_int_equal(thimble_plan(hybrid, &o, &p, &e), THIMBLE_OK);
    assert_false(p.fits);
    assert_int_equal(p.checkpoints, 5);
    assert_true(p.floor > none.floor);
    o.checkpoints = 257;
    assert_int_equal(thimble_plan(hybrid, &o, &p, &e), THIMBLE_E_ARG);
    o.checkpoints = 5, o.budget = 0;
    assert_int_equal(thimble_plan(windows, &o, &p, &e), THIMBLE_OK);
    assert_int_equal(p.checkpoints, 0); /* nothing recurrent: nothing to keep */
    /* What was planned is what is taken, at the floor of what was asked for. */
    static int32_t text[CONTEXT];
    o = (ThimbleModelOptions){.struct_size = sizeof o, .context = CONTEXT, .threads = 1, .checkpoints = 5};
    o.budget = (uint64_t)1 << 40;
    assert_int_equal(thimble_plan(hybrid, &o, &p, &e), THIMBLE_OK);
    Talk t = open_talk(hybrid, 5, 0, p.floor + 1500 * 1024 /* its cache is of f32 */);
    make_text(text, 900, CONTEXT, 0);
    sync(&t, text, 900);
    make_text(text, 900, 880, 1);
    assert_true(sync(&t, text, 900) < 900);
    ThimbleStats stats = stats_of(&t);
    assert_true(stats.planned <= stats.budget);
    close_talk(&t);
}

/* ---- test_checkpoints --measure MODEL: what going back and starting again cost a hybrid after 2,000 tokens --------
 */

typedef struct Cost {
    uint64_t tokens; /* evaluated */
    double seconds;
} Cost;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static Talk open_measured(const char *path) {
    Talk t = {0};
    ThimbleModelOptions o;
    ThimbleError e = {0};
    thimble_model_options_init(&o);
    o.context = CONTEXT;
    if (thimble_model_open(&t.m, path, &o, &e) != THIMBLE_OK || thimble_session_open(&t.s, t.m, NULL, &e) != THIMBLE_OK)
        fprintf(stderr, "%s\n", e.message), exit(1);
    return t;
}

static Cost sync_measured(Talk *t, const int32_t *text, size_t n) {
    ThimbleError e = {0};
    double begin = now();
    uint64_t kept = stats_of(t).cached_tokens;
    if (thimble_session_sync(t->s, text, n, &e) != THIMBLE_OK) fprintf(stderr, "%s\n", e.message), exit(1);
    return (Cost){n - (stats_of(t).cached_tokens - kept), now() - begin};
}

static void show(const char *what, Cost c, const Cost *prefill) {
    printf("%-58s %4d tokens evaluated, %7.3f s, %5.2f %%\n", what, (int)c.tokens, c.seconds,
           100 * c.seconds / prefill->seconds);
}

static int measure(const char *path) {
    enum { PREFIX = 2000, ANSWER = 200 };
    static int32_t text[PREFIX + ANSWER], other[PREFIX + ANSWER];
    ThimbleError e = {0};
    const char *snapshot = th_scratch_path(&dir, "measured.snapshot");
    make_text(text, PREFIX + ANSWER, PREFIX, 1);
    make_text(other, PREFIX + ANSWER, PREFIX, 2);
    Talk t = open_measured(path);
    Cost prefill = sync_measured(&t, text, PREFIX);
    show("prefill of the prefix", prefill, &prefill);
    if (thimble_session_save_file(t.s, snapshot, &e) != THIMBLE_OK) fprintf(stderr, "%s\n", e.message), exit(1);
    for (int i = 0; i < ANSWER; i++)
        if (thimble_session_eval(t.s, text + PREFIX + i, 1, &e) != THIMBLE_OK)
            fprintf(stderr, "%s\n", e.message), exit(1);
    show("back to the prefix after 200 further tokens", sync_measured(&t, text, PREFIX), &prefill);
    show("the prefix and 20 tokens of another turn", sync_measured(&t, other, PREFIX + 20), &prefill);
    make_text(other, PREFIX, 1700, 3);
    show("a text that parts at token 1,700: 300 new tokens", sync_measured(&t, other, PREFIX), &prefill);
    close_talk(&t);
    double begin = now();
    t = open_measured(path);
    double opened = now();
    if (thimble_session_load_file(t.s, snapshot, &e) != THIMBLE_OK) fprintf(stderr, "%s\n", e.message), exit(1);
    Cost again = sync_measured(&t, text, PREFIX);
    ThimbleSampler sampler;
    int32_t token;
    thimble_sampler_init(&sampler);
    if (thimble_sample(t.s, &sampler, &token, &e) != THIMBLE_OK) fprintf(stderr, "%s\n", e.message), exit(1);
    double end = now();
    show("snapshot to first token, in a model that is open", (Cost){again.tokens, end - opened}, &prefill);
    show("the same with opening the model", (Cost){again.tokens, end - begin}, &prefill);
    close_talk(&t);
    return 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(returning_costs_one_step),    cmocka_unit_test(answers_can_be_taken_back),
        cmocka_unit_test(rewinding_evaluates_the_gap), cmocka_unit_test(rings_start_over_beyond_their_reach),
        cmocka_unit_test(any_order_of_turns),          cmocka_unit_test(the_plan_counts_them),
    };
    th_scratch_open(&dir);
    if (argc == 3 && !strcmp(argv[1], "--measure")) {
        int code = measure(argv[2]);
        th_scratch_close(&dir);
        return code;
    }
    write_models();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
