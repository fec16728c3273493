/* test_spoilt.c: passes that fail in the middle, in a session whose recurrent memory they have begun to overwrite: what
 * follows goes on from the last checkpoint, not from the start, and has the bits of a session where nothing failed. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/random_model.h"
#include "session/snapshot.h"

enum { VOCAB = 96, LENGTH = 300, CONTEXT = 400 };

static char path[] = "/tmp/thimble_spoilt_XXXXXX";
static atomic_int reads_left;

static ptrdiff_t failing_pread(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset) {
    (void)arg;
    if (atomic_fetch_sub(&reads_left, 1) > 0) return pread(fd, buffer, bytes, (off_t)offset);
    errno = EIO;
    return -1;
}

static void open_session(Engine *e, Session *s, int checkpoints) {
    Err err = {0};
    ThimbleModelOptions o = {.struct_size = sizeof o, .context = CONTEXT, .threads = 1, .batch = 16};
    ThimblePlan p = {.struct_size = sizeof p};
    o.checkpoints = checkpoints, o.budget = (uint64_t)1 << 40;
    if (!th_engine_plan(path, &o, &p, &err)) fail_msg("%s", err.message);
    o.budget = p.floor; /* every pass reads most of the model */
    if (!th_engine_open(e, path, &o, &err) || !th_session_open(s, e, NULL, &err)) fail_msg("%s", err.message);
}

static int32_t token_at(int i) { return (int32_t)((uint32_t)(i * 7919 + i / 5 * 31) % VOCAB); }

/* What was read ahead when the device failed may be said to have failed once more. Returns how often it tried. */
static int sync_to(Session *s, int n) {
    int32_t tokens[CONTEXT];
    Err err = {0};
    for (int i = 0; i < n; i++) tokens[i] = token_at(i);
    int tries = 1;
    for (; !th_session_sync(s, tokens, (size_t)n, &err); tries++)
        if (err.code != THIMBLE_E_IO || tries == 30) fail_msg("%s", err.message);
    return tries;
}

static bool ignore_write(void *arg, const void *data, size_t bytes, Err *err) {
    (void)arg, (void)data, (void)bytes, (void)err;
    return true;
}

static void goes_on_from_a_checkpoint(void **state) {
    (void)state;
    Engine e, whole;
    Session s, reference;
    Err err = {0};
    int spoilt = 0;
    open_session(&whole, &reference, -1);
    open_session(&e, &s, 3);
    e.gguf.files[0].hook = (FileHook){.pread = failing_pread};
    atomic_store(&reads_left, INT_MAX);
    sync_to(&s, LENGTH);
    for (int k = 0; k < 20; k++) {
        int length = LENGTH + k;
        int32_t next = token_at(length);
        atomic_store(&reads_left, k);
        bool ok = th_session_eval(&s, &next, 1, &err);
        atomic_store(&reads_left, INT_MAX);
        bool intact = th_state_intact(&s.state);
        uint64_t before = s.stats.prompt_tokens;
        if (!ok) {
            assert_int_equal(err.code, THIMBLE_E_IO);
            assert_int_equal(s.length, length);
        }
        if (!intact) {
            spoilt++;
            assert_false(th_snapshot_save(&s, ignore_write, NULL, &err));
            assert_int_equal(err.code, THIMBLE_E_STATE);
        }
        int tries = sync_to(&s, length + 1);
        /* From a checkpoint each time, never from the start. */
        assert_true(s.stats.prompt_tokens - before <= (uint64_t)(length + 1 - 256) * (uint64_t)tries);
        if (k % 10 == 9) {
            sync_to(&reference, length + 1);
            assert_memory_equal(s.logits, reference.logits, VOCAB * sizeof *s.logits);
        }
    }
    assert_true(spoilt > 3); /* else nothing was tested */
    th_session_close(&s), th_engine_close(&e);
    th_session_close(&reference), th_engine_close(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on_from_a_checkpoint)};
    RandomModel m = RANDOM_MODEL;
    int fd = mkstemp(path);
    if (fd < 0) return 1;
    close(fd);
    m.arch = "bailingmoe3", m.layers = 4, m.dim = 128, m.heads = 2, m.head_size = 48, m.rope_dims = 16, m.latent = 24;
    m.latent_every = 4, m.kda_head = 16, m.experts = 4, m.experts_used = 2, m.groups = 1, m.expert_ff = 64, m.ff = 512;
    m.shared_ff = 64, m.dense_lead = 3, m.vocab = VOCAB;
    random_model_write(&m, path);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
