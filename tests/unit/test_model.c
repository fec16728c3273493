/* test_model.c: binding, planning and running a transformer: every tensor of every architecture is missed and measured,
 * the ledger keeps to the plan, a pass keeps to its scratch, and what rings and lossy options may do is counted. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_model.h"
#include "model/model.h"
#include "os/cpu.h"

static char path[] = "/tmp/thimble_model_XXXXXX";

typedef struct Run {
    Budget budget;
    Gguf gguf;
    Model model;
    ModelPlan plan;
    ModelOptions options;
    Err err;
    ThimbleLog log;
    ThimbleProgress progress;
} Run;

/* granite, granitemoe, granitehybrid, lfm2, lfm2moe, gpt-oss, glm4moe */
static void mixed_kinds(RandomModel *m, int i) {
    m->latent = m->rope_dims = m->groups = m->dense_lead = m->shared_ff = 0;
    if (i == 0 || i == 3) m->experts = 0;
    if (i == 1 || i == 2) m->shared_ff = 32, m->shared_plain = true;
    if (i >= 2 && i <= 4) m->layers = 3, m->attention_every = 2, m->taps = i == 2 ? 4 : 3;
    if (i == 2) m->mamba_heads = 4, m->mamba_head = 16, m->mamba_state = 8, m->mamba_groups = 2;
    m->qk_norm = i == 3 || i == 4;
    m->select_bias = i == 4 || i == 6;
    m->sinks = i == 5;
    m->window = i == 5 ? 5 : 0;
    if (i >= 5) m->ffn_norm = "post_attention_norm.weight";
}

static RandomModel kinds(int i) {
    RandomModel m = RANDOM_MODEL;
    m.vocab = 48;
    static const char *const archs[] = {"llama",     "qwen2",       "qwen3",   "gemma3",      "llama",
                                        "qwen2moe",  "qwen3moe",    "olmoe",   "bailingmoe2", "deepseek2",
                                        "deepseek2", "bailingmoe3", "granite", "granitemoe",  "granitehybrid",
                                        "lfm2",      "lfm2moe",     "gpt-oss", "glm4moe"};
    m.arch = archs[i];
    m.biases = i == 1 || i == 5;
    m.qk_norm = i == 2 || i == 3 || i == 6 || i == 8;
    m.qk_norm_whole = i == 7;
    m.post_norms = i == 3;
    m.window = i == 3 ? 5 : 0;
    m.tied = i == 2 || i == 3;
    if (i >= 4) m.experts = 8, m.experts_used = 2, m.expert_ff = 32;
    if (i == 5 || i == 8) m.shared_ff = 32;
    if (i == 8) m.groups = 4, m.dense_lead = 1, m.fused_qkv = m.fused_gate_up = true;
    if (i == 3) m.layers = 7;
    if (i >= 9) m.latent = 24, m.rope_dims = 8, m.dense_lead = 1, m.groups = 4, m.shared_ff = 32;
    if (i == 9) m.query_latent = 16;
    if (i == 10) m.legacy_kv_b = true;
    if (i == 11) m.latent_every = 2, m.kda_head = 8;
    if (i >= 12) mixed_kinds(&m, i - 12);
    return m;
}
enum { N_KINDS = 19 };

static void open_file(Run *r, const RandomModel *m) {
    *r = (Run){0};
    r->options = (ModelOptions){.budget = UINT64_MAX / 4, .threads = 2, .sessions = 1, .isa = th_cpu_isa()};
    r->options.weights.log = &r->log;
    r->options.weights.progress = &r->progress;
    random_model_write(m, path);
    th_budget_init(&r->budget, UINT64_MAX);
    if (!th_gguf_open(&r->gguf, path, &r->budget, &r->err)) fail_msg("%s", r->err.message);
}

static void close_all(Run *r) {
    th_model_close(&r->model);
    th_gguf_close(&r->gguf);
    assert_int_equal(r->budget.used, 0);
    th_budget_free(&r->budget);
}

static bool bind(Run *r) { return th_model_bind(&r->model, &r->gguf, &r->budget, &r->options, &r->err); }

static void load(Run *r) {
    if (!bind(r) || !th_model_plan(&r->model, 0, &r->plan, &r->err) || !r->plan.fits ||
        !th_model_load(&r->model, &r->plan, &r->err))
        fail_msg("%s", r->err.message);
}

static void eval(Run *r, SeqState *s, int T, float *logits) {
    PassRow rows[64];
    float *hidden;
    int last = T - 1;
    for (int t = 0; t < T; t++) rows[t] = (PassRow){(s->length + t) * 7 % 48, s->length + t, s};
    if (!th_model_forward(&r->model, rows, T, &hidden, &r->err) ||
        !th_model_logits(&r->model, hidden, &last, 1, logits, &r->err))
        fail_msg("%s", r->err.message);
    th_model_finish(&r->model);
    for (int i = 0; i < r->model.hp.n_vocab; i++) assert_true(isfinite(logits[i]));
}

/* ---- bind ------------------------------------------------------------------------------------------------------- */

/* Some tensors may be missing: then the head is the embedding, or a bias is none. */
static bool is_optional(const char *name) {
    return strcmp(name, "output.weight") == 0 || (strstr(name, ".bias") && !strstr(name, "ssm_dt"));
}

static void every_tensor_is_missed(void **state) {
    (void)state;
    static char names[256][96];
    for (int kind = 0; kind < N_KINDS; kind++) {
        RandomModel m = kinds(kind);
        size_t n = random_model_tensors(&m, names, 256);
        for (size_t i = 0; i < n; i++) {
            RandomModel part = m;
            Run r;
            part.omit = names[i];
            open_file(&r, &part);
            bool good = bind(&r);
            if (good != is_optional(names[i])) fail_msg("%s without %s: %s", m.arch, names[i], r.err.message);
            if (!good) assert_int_equal(r.err.code, THIMBLE_E_FORMAT);
            close_all(&r);
        }
    }
}

static void every_shape_is_measured(void **state) {
    (void)state;
    static char names[256][96];
    for (int kind = 0; kind < N_KINDS; kind++) {
        RandomModel m = kinds(kind);
        size_t n = random_model_tensors(&m, names, 256);
        for (size_t i = 0; i < n; i++) {
            RandomModel bent = m;
            Run r;
            bent.bend = names[i];
            open_file(&r, &bent);
            if (bind(&r)) fail_msg("%s with a wide %s was taken", m.arch, names[i]);
            assert_int_equal(r.err.code, THIMBLE_E_FORMAT);
            assert_non_null(strstr(r.err.message, names[i]));
            close_all(&r);
        }
    }
}

/* ---- plan ------------------------------------------------------------------------------------------------------- */

static void ledger_keeps_to_the_plan(void **state) {
    (void)state;
    for (int kind = 0; kind < N_KINDS; kind++)
        for (int step = 0; step < 3; step++) {
            RandomModel m = kinds(kind);
            Run r;
            open_file(&r, &m);
            r.options.context = 100;
            r.options.batch = step == 1 ? 7 : 0;
            if (!bind(&r) || !th_model_plan(&r.model, 0, &r.plan, &r.err)) fail_msg("%s", r.err.message);
            uint64_t floor = r.plan.floor;
            r.model.options.budget = step == 0 ? floor : step == 1 ? floor * 2 : UINT64_MAX / 4;
            if (!th_model_plan(&r.model, 0, &r.plan, &r.err)) fail_msg("%s", r.err.message);
            assert_true(r.plan.fits);
            assert_int_equal(r.plan.floor, floor);
            th_budget_limit(&r.budget, r.model.options.budget);
            if (!th_model_load(&r.model, &r.plan, &r.err)) fail_msg("%s", r.err.message);
            SeqState s;
            if (!th_state_open(&s, &r.model, &r.err)) fail_msg("%s", r.err.message);
            assert_true(r.budget.by_class[MEM_KV] <= r.plan.kv);
            assert_int_equal(r.budget.by_class[MEM_SCRATCH], r.plan.scratch);
            assert_int_equal(r.budget.by_class[MEM_METADATA], r.plan.metadata);
            float logits[48];
            while (s.length < 100) eval(&r, &s, th_min_int(th_min_int(r.model.batch, 64), 100 - s.length), logits);
            assert_true(r.model.scratch.peak <= r.model.scratch.bytes);
            assert_true(r.budget.peak <= r.model.options.budget);
            th_state_close(&s, &r.model);
            close_all(&r);
        }
}

static void floor_grows_with_what_is_asked(void **state) {
    (void)state;
    RandomModel m = kinds(4);
    Run r;
    open_file(&r, &m);
    if (!bind(&r)) fail_msg("%s", r.err.message);
    ModelOptions *o = &r.model.options;
    uint64_t last = 0;
    for (int context = 64; context <= 2048; context *= 2) {
        o->context = context;
        assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
        assert_true(r.plan.floor > last);
        last = r.plan.floor;
    }
    o->context = 512;
    assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
    uint64_t asked = r.plan.floor;
    o->context = 0;
    for (int batch = 0; batch <= 512; batch += 256) {
        o->batch = batch;
        assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
        assert_int_equal(r.plan.floor, asked); /* 512 without -c, whatever the batch */
    }
    assert_true(th_model_plan(&r.model, 12345, &r.plan, &r.err));
    assert_int_equal(r.plan.floor, asked + 12345);
    o->budget = asked - 1;
    assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
    assert_false(r.plan.fits);
    assert_in_range(r.plan.max_context, 400, 511); /* the nearest setting that fits */
    o->budget = asked;
    o->context = r.plan.max_context;
    assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
    assert_true(r.plan.fits);
    o->budget = 1000;
    assert_true(th_model_plan(&r.model, 0, &r.plan, &r.err));
    assert_int_equal(r.plan.max_context, 0);
    close_all(&r);
}

/* ---- passes ----------------------------------------------------------------------------------------------------- */

static void rows_are_checked(void **state) {
    (void)state;
    RandomModel m = kinds(0);
    Run r;
    open_file(&r, &m);
    r.options.context = 32;
    r.options.batch = 8;
    load(&r);
    SeqState s;
    float *hidden;
    assert_true(th_state_open(&s, &r.model, &r.err));
    const PassRow bad[][2] = {
        {{-1, 0, &s}, {0, 1, &s}}, {{48, 0, &s}, {0, 1, &s}}, {{0, 1, &s}, {0, 2, &s}}, {{0, 0, &s}, {0, 2, &s}}};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        r.err = (Err){0};
        assert_false(th_model_forward(&r.model, bad[i], 2, &hidden, &r.err));
        assert_int_equal(r.err.code, THIMBLE_E_ARG);
        assert_int_equal(s.length, 0);
    }
    assert_false(th_model_forward(&r.model, bad[0], 9, &hidden, &r.err));
    float logits[48];
    while (s.length < 32) eval(&r, &s, 8, logits);
    PassRow beyond = {0, 32, &s};
    assert_false(th_model_forward(&r.model, &beyond, 1, &hidden, &r.err));
    th_state_close(&s, &r.model);
    close_all(&r);
}

/* A ring of window + batch - 1 cells gives back exactly what it still holds. */
static void rings_forget(void **state) {
    (void)state;
    RandomModel m = kinds(3);
    Run r;
    open_file(&r, &m);
    r.options.context = 64;
    r.options.batch = 4; /* 8 cells for a window of 5 */
    load(&r);
    SeqState s;
    assert_true(th_state_open(&s, &r.model, &r.err));
    float logits[48], again[48];
    while (s.length < 6) eval(&r, &s, 2, logits);
    eval(&r, &s, 2, logits);
    assert_true(th_state_rewind(&s, 6)); /* nothing was overwritten yet */
    eval(&r, &s, 2, again);
    assert_memory_equal(logits, again, sizeof logits);
    while (s.length < 20) eval(&r, &s, 4, logits);
    assert_false(th_state_rewind(&s, 15)); /* row 15 sees from 11 on; 12..19 are there */
    assert_int_equal(s.length, 20);
    assert_true(th_state_rewind(&s, 16));
    eval(&r, &s, 4, again);
    assert_memory_equal(logits, again, sizeof logits);
    assert_false(th_state_rewind(&s, 15)); /* still 20 were written */
    assert_false(th_state_rewind(&s, 21));
    assert_true(th_state_rewind(&s, 0));
    assert_int_equal(s.high, 0);
    while (s.length < 20) eval(&r, &s, 4, again);
    assert_memory_equal(logits, again, sizeof logits);
    th_state_close(&s, &r.model);
    close_all(&r);
}

static void lossy_options_are_counted(void **state) {
    (void)state;
    RandomModel m = kinds(6);
    float exact[48], fewer[48], biased[48];
    for (int experts = 0; experts < 3; experts++) {
        Run r;
        open_file(&r, &m);
        r.options.experts = experts == 1 ? 1 : 0;
        r.options.route_bias = experts == 2 ? 100.0f : 0;
        r.options.context = 32;
        r.options.weights.home = experts == 2 ? THIMBLE_HOME_PAGED : THIMBLE_HOME_AUTO;
        r.options.weights.slots = experts == 2 ? 10 : 0;
        load(&r);
        SeqState s;
        assert_true(th_state_open(&s, &r.model, &r.err));
        for (int i = 0; i < 20; i++) eval(&r, &s, 1, experts == 0 ? exact : experts == 1 ? fewer : biased);
        if (experts == 0) assert_int_equal(r.model.route_stats.picks_changed, 0);
        if (experts == 1) assert_int_equal(r.model.route_stats.picks_changed, 20 * 2); /* one of two, in two layers */
        if (experts == 2) assert_true(r.model.route_stats.picks_changed > 0);
        th_state_close(&s, &r.model);
        close_all(&r);
    }
    assert_memory_not_equal(exact, fewer, sizeof exact);
    assert_memory_not_equal(exact, biased, sizeof exact);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tensor_is_missed),    cmocka_unit_test(every_shape_is_measured),
        cmocka_unit_test(ledger_keeps_to_the_plan),  cmocka_unit_test(floor_grows_with_what_is_asked),
        cmocka_unit_test(rows_are_checked),          cmocka_unit_test(rings_forget),
        cmocka_unit_test(lossy_options_are_counted),
    };
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
