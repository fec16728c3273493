/* test_recurrent.c: recurrent memory on trial: going back after rejected drafts, checkpoints, and passes that fail in
 * the middle. Whatever happened, what follows must have the bits of a run without it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "common/random_model.h"
#include "model/model.h"
#include "os/cpu.h"
#include "quant/type.h"

enum { LENGTH = 40, CONTEXT = 64, VOCAB = 200 };

static char path[64]; /* one file, written anew */
static int state_type; /* THIMBLE_STATE_*: everything is tried with both */

typedef struct Subject {
    Budget budget;
    Gguf gguf;
    Model m;
    ModelPlan plan;
} Subject;

/* A device that fails from some read on. */
static _Atomic int reads_left = 1 << 30; /* several readers count */
static ptrdiff_t failing_pread(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset) {
    (void)arg;
    if (reads_left-- > 0) return pread(fd, buffer, bytes, (off_t)offset);
    errno = EIO;
    return -1;
}

static void open_subject(Subject *s, int draft_rows, bool at_floor) {
    Err err = {0};
    *s = (Subject){0};
    ModelOptions o = {.budget = (uint64_t)1 << 40,
                      .threads = 2,
                      .context = CONTEXT,
                      .sessions = 2,
                      .batch = 16,
                      .cache_type = THIMBLE_CACHE_F32,
                      .state_type = state_type,
                      .checkpoints = 2,
                      .draft_rows = draft_rows,
                      .isa = th_cpu_isa()};
    for (int turn = at_floor ? 0 : 1; turn < 2; turn++) {
        th_budget_init(&s->budget, o.budget);
        if (!th_gguf_open(&s->gguf, path, &s->budget, &err) || !th_model_bind(&s->m, &s->gguf, &s->budget, &o, &err) ||
            !th_model_plan(&s->m, 0, &s->plan, &err))
            fail_msg("%s", err.message);
        if (turn == 1) break;
        o.budget = s->plan.floor;
        o.batch = 4;
        th_model_close(&s->m);
        th_gguf_close(&s->gguf);
    }
    assert_true(s->plan.fits);
    s->gguf.files[0].hook = (FileHook){.pread = failing_pread}; /* before there are readers */
    if (!th_model_load(&s->m, &s->plan, &err)) fail_msg("%s", err.message);
}

static void close_subject(Subject *s) {
    th_model_close(&s->m);
    th_gguf_close(&s->gguf);
    th_budget_free(&s->budget);
}

static void open_state(SeqState *state, Subject *s) {
    Err err = {0};
    uint64_t before = s->budget.used;
    if (!th_state_open(state, &s->m, &err)) fail_msg("%s", err.message);
    assert_int_equal(s->budget.used - before, th_state_bytes(&s->m, s->m.context, s->m.batch));
}

static int32_t token_at(int i) { return (int32_t)((uint32_t)(i * 7919 + i / 5 * 31) % VOCAB); }

/* Feeds T tokens; the last row's logits come back in logits (NULL: not wanted). hold: of a trial so many rows are kept;
 * -1: no trial. */
static bool feed_holding(Subject *s, SeqState *state, const int32_t *tokens, int T, int hold, float *logits, Err *err) {
    PassRow rows[16];
    float *hidden;
    for (int t = 0; t < T; t++) rows[t] = (PassRow){.token = tokens[t], .position = state->length + t, .seq = state};
    int begin = state->length;
    bool ok = (hold < 0 ? th_model_forward : th_model_try)(&s->m, rows, T, &hidden, err);
    int pick = T - 1;
    if (ok && logits) ok = th_model_logits(&s->m, hidden, &pick, 1, logits, err);
    if (hold >= 0) th_state_settle(state, ok ? begin + hold : begin);
    th_model_finish(&s->m);
    return ok;
}
static bool feed(Subject *s, SeqState *state, const int32_t *tokens, int T, float *logits, Err *err) {
    return feed_holding(s, state, tokens, T, -1, logits, err);
}

/* The text itself from the state's length up to `to`, in passes of T. What was read ahead when a device failed may be
 * said to have failed once more: again, then, and from the start if the memory is spoilt. */
static void feed_text(Subject *s, SeqState *state, int to, int T, float *logits) {
    int32_t tokens[LENGTH];
    for (int i = 0; i < LENGTH; i++) tokens[i] = token_at(i);
    for (int failed = 0; state->length < to;) {
        Err err = {0};
        int n = th_min_int(T, to - state->length);
        if (feed(s, state, tokens + state->length, n, logits, &err)) continue;
        if (err.code != THIMBLE_E_IO || ++failed > 20) fail_msg("%s", err.message);
        if (!th_state_intact(state)) assert_true(th_state_rewind(state, 0));
    }
}

static void write_model(const char *arch) {
    RandomModel m = RANDOM_MODEL;
    m.arch = arch, m.layers = 4, m.dim = 128, m.heads = 2, m.head_size = 64, m.ff = 256, m.vocab = VOCAB,
    m.qk_norm = true;
    m.ssm_state = 32, m.ssm_key_heads = 2, m.ssm_value_heads = 4, m.type = TYPE_Q8_0;
    random_model_write(&m, path);
}

static float reference[LENGTH][VOCAB];

static int make_reference(void **unused) {
    (void)unused;
    Subject s;
    SeqState state;
    write_model("qwen35");
    open_subject(&s, 0, false);
    open_state(&state, &s);
    for (int i = 0; i < LENGTH; i++) feed_text(&s, &state, i + 1, 1, reference[i]);
    th_state_close(&state, &s.m);
    close_subject(&s);
    return 0;
}

static void check_last(const SeqState *state, const float *logits) {
    assert_memory_equal(logits, reference[state->length - 1], sizeof reference[0]);
}

/* Text, then a draft of `wrong` tokens of which only `right` are the text's, back to those, and on. */
static void go_back(int wrong, int right, int batch) {
    Subject s;
    SeqState state;
    Err err = {0};
    float logits[VOCAB];
    open_subject(&s, wrong, false);
    open_state(&state, &s);
    while (state.length + th_max_int(wrong, right + batch) <= LENGTH) {
        int begin = state.length;
        int32_t draft[16];
        for (int i = 0; i < wrong; i++) draft[i] = i < right ? token_at(begin + i) : (token_at(begin + i) + 1) % VOCAB;
        if (!feed_holding(&s, &state, draft, wrong, right, NULL, &err)) fail_msg("%s", err.message);
        assert_int_equal(state.length, begin + right);
        assert_true(th_state_intact(&state) && th_state_rewind(&state, begin + right));
        assert_int_equal(th_state_can_rewind(&state, begin + right - 1), begin + right - 1 == 0);
        feed_text(&s, &state, begin + right + batch, batch, logits);
        check_last(&state, logits);
    }
    assert_true(s.m.scratch.peak <= s.m.scratch.bytes);
    th_state_close(&state, &s.m);
    close_subject(&s);
}

static void rejected_drafts_leave_no_trace(void **unused) {
    (void)unused;
    go_back(3, 1, 5);
    go_back(2, 1, 1);
    go_back(5, 1, 1);
    go_back(5, 3, 2);
    go_back(7, 3, 9);
    go_back(7, 7, 1);
    go_back(4, 0, 4); /* back to where the draft began */
    go_back(9, 0, 3);
    go_back(16, 2, 1);
}

/* Trials need no copy of a memory, only a journal, in scratch that prompts use as well. */
static void trials_are_planned_for(void **unused) {
    (void)unused;
    Subject a, b;
    open_subject(&a, 0, true);
    open_subject(&b, 6, true);
    SeqState state;
    open_state(&state, &b);
    assert_true(state.slot_bytes > 0 && state.slot_bytes % 64 == 0);
    assert_int_equal(a.plan.kv, b.plan.kv);
    size_t work = th_model_scan_work_floats(&b.m), journal = th_model_journal_bytes(&b.m, 6);
    assert_true(journal > 0 && work > 0 && journal < 2 * state.slot_bytes);
    assert_true(b.plan.scratch > a.plan.scratch);
    th_state_close(&state, &b.m);
    close_subject(&a);
    close_subject(&b);
}

/* The model's matrices: 3 layers of 4 heads, 32 x 32; the rest of the memory, a convolution's rows, stays as it is. */
static void half_memories_take_half(void **unused) {
    (void)unused;
    enum { VALUES = 3 * 4 * 32 * 32 };
    Subject a, b;
    SeqState whole, half;
    int before = state_type;
    state_type = THIMBLE_STATE_F32;
    open_subject(&a, 0, true);
    open_state(&whole, &a);
    state_type = THIMBLE_STATE_F16;
    open_subject(&b, 0, true);
    open_state(&half, &b);
    state_type = before;
    assert_int_equal(whole.slot_bytes - half.slot_bytes, 2 * VALUES);
    assert_true(half.slot_bytes > 2 * VALUES);
    assert_int_equal(th_state_checkpoint_bytes(&a.m) - th_state_checkpoint_bytes(&b.m), 2 * VALUES);
    assert_int_equal(b.plan.checkpoints, 2);
    assert_true(b.plan.kv < a.plan.kv && b.plan.floor < a.plan.floor);
    assert_true(b.plan.scratch >= a.plan.scratch); /* a block for each thread */
    th_state_close(&whole, &a.m);
    th_state_close(&half, &b.m);
    close_subject(&a);
    close_subject(&b);
}

/* 33 columns: two blocks. Two tokens each add k v; what goes beyond binary16 stays at its end, and no further. */
static void halves_do_not_become_infinite(void **unused) {
    (void)unused;
    enum { KEYS = 3, COLS = 33 };
    Subject s;
    open_subject(&s, 0, false);
    ScanSpec spec = {.rule = SCAN_RULE_ADD, .heads = 1, .keys = KEYS, .values = COLS, .key_heads = 1};
    uint16_t memory[128] = {0};
    float k[2][KEYS] = {{1, -1, 0.5f}, {1, -1, 0}}, v[2][COLS], one[2] = {1, 1}, o[2][COLS], work[2][KEYS * 32];
    assert_true(th_scan_bytes(&spec, THIMBLE_STATE_F16) <= sizeof memory * 2);
    for (int i = 0; i < COLS; i++) v[0][i] = v[1][i] = i == COLS - 1 ? 1e30f : 60000;
    v[1][0] = NAN;
    Pass p = {.pool = s.m.pool, .k = &s.m.kernels, .T = 2};
    ScanRun run = {
        .n = 2, .memory = (char *)memory, .state_type = THIMBLE_STATE_F16, .work = work[0], .work_floats = KEYS * 32};
    ScanRows rows = {.q = k[0], .k = k[0], .v = v[0], .a = one, .beta = one, .o = o[0]};
    rows.q_stride = rows.k_stride = KEYS, rows.v_stride = rows.o_stride = COLS;
    rows.a_stride = rows.beta_stride = 1;
    th_scan(&p, &spec, &run, 1, &rows);
    static const float want[KEYS] = {65504, -65504, 30000};
    for (int key = 0; key < KEYS; key++)
        for (int col = 0; col < COLS; col++) {
            float got = th_f16_to_f32(memory[th_scan_index(&spec, 0, key, col)]);
            if (col == 0)
                assert_true(isnan(got));
            else
                assert_true(got == (key == 2 && col == COLS - 1 ? 65504 : want[key]));
        }
    close_subject(&s);
}

static void checkpoints_bring_back_a_prefix(void **unused) {
    (void)unused;
    Subject s;
    SeqState state;
    float logits[VOCAB];
    for (int rows = 0; rows < 4; rows += 3) {
        open_subject(&s, rows, false);
        open_state(&state, &s);
        char *saved = malloc(state.slot_bytes), *empty = malloc(state.slot_bytes);
        assert_true(saved && empty);
        th_state_save_recurrent(&state, empty);
        feed_text(&s, &state, 17, 4, NULL);
        th_state_save_recurrent(&state, saved);
        feed_text(&s, &state, LENGTH, 16, NULL);
        assert_false(th_state_load_recurrent(&state, saved, LENGTH + 1));
        assert_true(th_state_load_recurrent(&state, saved, 17));
        assert_false(th_state_rewind(&state, 16));
        feed_text(&s, &state, LENGTH, 3, logits);
        check_last(&state, logits);
        assert_true(th_state_load_recurrent(&state, empty, 0));
        feed_text(&s, &state, 9, 2, logits);
        check_last(&state, logits);
        free(saved);
        free(empty);
        th_state_close(&state, &s.m);
        close_subject(&s);
    }
}

/* Weights stream, so every pass reads; it fails after ever more reads, until it gets through. */
static void failed_passes_are_never_built_on(void **unused) {
    (void)unused;
    for (int trial = 0; trial < 2; trial++) {
        Subject s;
        SeqState state;
        open_subject(&s, trial ? 4 : 0, true);
        open_state(&state, &s);
        bool ok = false;
        int failed = 0, T = th_min_int(3, s.m.batch);
        for (int reads = 0; !ok && reads < 1000; reads += 1 + reads / 2) {
            Err err = {0};
            float logits[VOCAB];
            int32_t next[16];
            reads_left = 1 << 30;
            feed_text(&s, &state, 11, T, NULL);
            for (int i = 0; i < T; i++) next[i] = token_at(11 + i);
            reads_left = reads;
            ok = feed_holding(&s, &state, next, T, trial ? T : -1, NULL, &err);
            reads_left = 1 << 30;
            if (ok) break;
            failed++;
            assert_int_equal(err.code, THIMBLE_E_IO);
            assert_int_equal(state.length, 11);
            assert_int_equal(th_state_intact(&state), trial); /* the memory before it was not overwritten */
            err = (Err){0};
            if (!th_state_intact(&state)) {
                assert_false(feed(&s, &state, next, T, NULL, &err));
                assert_int_equal(err.code, THIMBLE_E_STATE);
                assert_false(th_state_rewind(&state, 11));
                assert_true(th_state_rewind(&state, 0));
            } else {
                assert_true(th_state_rewind(&state, 11));
            }
            feed_text(&s, &state, 14, T, logits);
            check_last(&state, logits);
            assert_true(th_state_rewind(&state, 0));
        }
        assert_true(ok && failed > 0);
        th_state_close(&state, &s.m);
        close_subject(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rejected_drafts_leave_no_trace),  cmocka_unit_test(trials_are_planned_for),
        cmocka_unit_test(half_memories_take_half),         cmocka_unit_test(halves_do_not_become_infinite),
        cmocka_unit_test(checkpoints_bring_back_a_prefix), cmocka_unit_test(failed_passes_are_never_built_on),
    };
    snprintf(path, sizeof path, "/tmp/thimble-recurrent-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    int failed = cmocka_run_group_tests_name("memory of f32", tests, make_reference, NULL);
    state_type = THIMBLE_STATE_F16;
    failed += cmocka_run_group_tests_name("memory of f16", tests, make_reference, NULL);
    unlink(path);
    return failed;
}
