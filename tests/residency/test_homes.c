/* test_homes.c: whatever the home and the budget, pinned bytes equal the file's, what is taken equals the plan to the
 * byte, and reads that go wrong end in a sentence. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/rng.h"
#include "common/toy_store.h"

static Toy moe, dense, tied;

static void check_pass(Toy *t, uint64_t seed) {
    Err err = {0};
    t->why[0] = 0;
    if (!toy_pass(t, seed, &err)) fail_msg("pass %d: %s%s", (int)seed, err.message, t->why);
}

static void open_toy(Toy *t, const WeightsOptions *o, int k, WeightsNeed *need) {
    Err err = {0};
    if (!toy_open(t, o, k, &err)) fail_msg("open: %s", err.message);
    th_weights_need(t->ws, k, need);
}

static void load_toy(Toy *t, uint64_t bytes) {
    Err err = {0};
    if (!toy_load(t, bytes, &err)) fail_msg("load: %s", err.message);
    uint64_t planned = t->plan.resident + t->plan.ring + t->plan.slots + t->plan.io;
    assert_true(planned <= bytes);
    assert_int_equal(t->budget.used - t->planned_from, planned);
    assert_int_equal(t->budget.by_class[MEM_RESIDENT], t->plan.resident);
    assert_int_equal(t->budget.by_class[MEM_RING], t->plan.ring);
    assert_int_equal(t->budget.by_class[MEM_SLOTS], t->plan.slots);
    assert_int_equal(t->budget.by_class[MEM_IO], t->plan.io);
}

static void close_toy(Toy *t) {
    th_weights_close(t->ws);
    t->ws = NULL;
    for (int c = 0; c < N_MEM_CLASSES; c++)
        if (c != MEM_METADATA) assert_int_equal(t->budget.by_class[c], 0);
    toy_close(t);
}

/* Until nothing is being read ahead. */
static void wait_for_ring(Toy *t) {
    uint64_t last = 0;
    for (int same = 0; same < 20; same++) {
        WeightsStats stats;
        th_weights_stats(t->ws, &stats);
        if (stats.io_bytes != last) same = 0;
        last = stats.io_bytes;
        usleep(2000);
    }
}

/* From the floor to plenty, in steps. */
static void run_budgets(Toy *t, WeightsOptions o, int k, int steps) {
    for (int step = 0; step < steps; step++) {
        WeightsNeed need;
        open_toy(t, &o, k, &need);
        uint64_t spare = need.all > need.floor ? need.all - need.floor : 0;
        load_toy(t, step == steps - 1 ? UINT64_MAX : need.floor + spare / (uint64_t)steps * (uint64_t)step);
        for (uint64_t pass = 0; pass < 3; pass++) check_pass(t, pass);
        WeightsStats stats;
        th_weights_stats(t->ws, &stats);
        if (t->plan.slots) assert_int_equal(stats.hits + stats.misses + stats.guess_used, 3 * t->shape.layers * k);
        close_toy(t);
    }
}

static void every_home_pins_the_file(void **state) {
    (void)state;
    const int homes[] = {THIMBLE_HOME_AUTO, THIMBLE_HOME_RESIDENT, THIMBLE_HOME_MAPPED, THIMBLE_HOME_STREAM,
                         THIMBLE_HOME_PAGED};
    for (size_t i = 0; i < TH_COUNT(homes); i++) {
        run_budgets(&moe, (WeightsOptions){.home = homes[i], .lookahead = THIMBLE_ON}, 3, 5);
        run_budgets(&dense, (WeightsOptions){.home = homes[i]}, 0, 5);
        run_budgets(&tied, (WeightsOptions){.home = homes[i]}, 0, 4);
    }
}

static void every_policy_pins_the_file(void **state) {
    (void)state;
    for (int evict = THIMBLE_EVICT_AUTO; evict <= THIMBLE_EVICT_LFU; evict++)
        for (int lookahead = THIMBLE_AUTO; lookahead <= THIMBLE_OFF; lookahead++) {
            run_budgets(&moe, (WeightsOptions){.evict = evict, .lookahead = lookahead, .slots = 22}, 4, 1);
            run_budgets(&moe, (WeightsOptions){.evict = evict, .lookahead = lookahead}, 1, 2);
        }
}

/* At the floor, with a file that answers badly but in the end fully. */
static void weak_reads_are_mended(void **state) {
    (void)state;
    const Fault faults[] = {FAULT_SHORT_BY_ONE, FAULT_EINTR, FAULT_EIO_ONCE, FAULT_DELAY, FAULT_EINVAL_DIRECT};
    Toy *toys[] = {&moe, &tied};
    for (size_t i = 0; i < TH_COUNT(faults) * 2; i++) {
        Toy *t = toys[i % 2];
        WeightsNeed need;
        open_toy(t, &(WeightsOptions){.lookahead = THIMBLE_ON}, 3, &need);
        Faulty faulty = {.fault = faults[i / 2], .delay_us = 300, .buffered_fd = t->gguf.files[0].fd};
        t->gguf.files[0].hook = th_faulty_hook(&faulty);
        load_toy(t, need.floor);
        for (uint64_t pass = 0; pass < 2; pass++) check_pass(t, pass);
        assert_true(atomic_load(&faulty.hits) > 0);
        close_toy(t);
    }
}

/* A device that loses one tensor, and may find it again. */
typedef struct Broken {
    uint64_t from, to;
    atomic_bool broken;
} Broken;

static ptrdiff_t broken_pread(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset) {
    Broken *b = arg;
    if (offset < b->to && offset + bytes > b->from && atomic_load(&b->broken)) {
        errno = EIO;
        return -1;
    }
    return pread(fd, buffer, bytes, (off_t)offset);
}

static void dead_reads_are_said_and_never_used(void **state) {
    (void)state;
    const char *lost[] = {"blk.2.ffn_up_exps.weight", "blk.1.ffn_up.weight", "token_embd.weight", "output.weight"};
    for (size_t i = 0; i < TH_COUNT(lost); i++) {
        Err err = {0};
        WeightsNeed need;
        open_toy(&moe, &(WeightsOptions){.lookahead = THIMBLE_ON}, 3, &need);
        const GgufTensor *tensor = th_gguf_tensor(&moe.gguf, lost[i]);
        Broken broken = {.from = tensor->offset + 5000, .to = tensor->offset + tensor->bytes - 5000, .broken = true};
        moe.gguf.files[0].hook = (FileHook){.pread = broken_pread, .arg = &broken};
        load_toy(&moe, need.floor);
        int failed = 0;
        for (uint64_t pass = 0; pass < 2; pass++) {
            moe.why[0] = 0;
            bool ok = toy_pass(&moe, pass, &err);
            assert_string_equal(moe.why, "");
            if (ok) continue;
            failed++;
            assert_int_equal(err.code, THIMBLE_E_IO);
            assert_non_null(strstr(err.message, moe.path));
        }
        assert_true(failed > 0);
        atomic_store(&broken.broken, false);
        /* What was read ahead meanwhile may have failed, too; it is said once more at most. */
        moe.why[0] = 0;
        for (int again = 0; again < 8 && !toy_pass(&moe, 5, &err); again++) assert_string_equal(moe.why, "");
        for (uint64_t pass = 6; pass < 9; pass++) check_pass(&moe, pass);
        close_toy(&moe);
    }
}

/* Parts in any order, several pins, the head again and again. */
static void odd_orders_are_right(void **state) {
    (void)state;
    Err err = {0};
    WeightsNeed need;
    open_toy(&dense, &(WeightsOptions){.home = THIMBLE_HOME_STREAM}, 0, &need);
    load_toy(&dense, need.floor);
    const Weight *all[] = {dense.head, dense.head,    dense.q[2], dense.up[0],
                           dense.head, dense.down[3], dense.q[0], dense.q[1]};
    for (size_t i = 0; i < TH_COUNT(all); i++)
        if (!toy_dense(&dense, all[i], &err)) fail_msg("%s%s", err.message, dense.why);
    for (int part = th_weights_parts(dense.head) - 1; part >= 0; part--) {
        View a, b;
        assert_true(th_weights_pin(dense.ws, dense.head, part, &a, &err));
        assert_true(th_weights_pin(dense.ws, dense.up[part % 4], 0, &b, &err));
        assert_true(toy_view_equals(&dense, &a) && toy_view_equals(&dense, &b));
        th_weights_unpin(dense.ws, &a);
        th_weights_unpin(dense.ws, &b);
    }
    View v[4];
    for (int i = 0; i < 3; i++) assert_true(th_weights_pin(dense.ws, dense.q[i], 0, &v[i], &err));
    assert_false(th_weights_pin(dense.ws, dense.q[3], 0, &v[3], &err)); /* said, not waited for */
    assert_int_equal(err.code, THIMBLE_E_STATE);
    for (int i = 0; i < 3; i++) th_weights_unpin(dense.ws, &v[i]);
    check_pass(&dense, 3);
    close_toy(&dense);
}

/* All slots pinned, claims beyond the slots, claims that nobody uses. */
static void slots_run_out_with_a_sentence(void **state) {
    (void)state;
    Err err = {0};
    WeightsNeed need;
    View v[16];
    int all[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    open_toy(&moe, &(WeightsOptions){.home = THIMBLE_HOME_PAGED}, 3, &need);
    load_toy(&moe, need.floor);
    int slots = moe.plan.slot_class[0].count;
    assert_int_equal(slots, 7);
    int most = th_weights_max_pins(moe.ws, moe.bundle[0]);
    assert_true(most >= 3 && most <= slots);
    th_weights_want(moe.ws, moe.bundle[0], all, 12);
    th_weights_want(moe.ws, moe.bundle[2], all, 12);
    for (int i = 0; i < slots; i++)
        if (!th_weights_pin(moe.ws, moe.bundle[2], 11 - i, &v[i], &err)) fail_msg("%s", err.message);
    assert_false(th_weights_pin(moe.ws, moe.bundle[2], 0, &v[slots], &err));
    assert_int_equal(err.code, THIMBLE_E_STATE);
    for (int i = 0; i < slots; i++) {
        assert_true(toy_view_equals(&moe, &v[i]));
        th_weights_unpin(moe.ws, &v[i]);
    }
    check_pass(&moe, 3);
    close_toy(&moe);
}

/* A prompt uses all experts of every layer, again and again. Of the 40 slots for 48 experts most stay full of what they
 * had; last-used-goes-last would find nothing at all. */
static void scans_do_not_flush(void **state) {
    (void)state;
    Err err = {0};
    WeightsNeed need;
    open_toy(&moe, &(WeightsOptions){.slots = 40, .evict = THIMBLE_EVICT_LRU, .lookahead = THIMBLE_OFF}, 1, &need);
    load_toy(&moe, UINT64_MAX);
    for (int pass = 0; pass < 6; pass++)
        for (int il = 0; il < 4; il++)
            for (int e = 0; e < 12; e++)
                if (!toy_experts(&moe, moe.bundle[il], &e, 1, &err)) fail_msg("%s%s", err.message, moe.why);
    WeightsStats stats;
    th_weights_stats(moe.ws, &stats);
    assert_int_equal(stats.hits + stats.misses, 6 * 48);
    assert_true(stats.hits > 5 * 48 / 2);
    close_toy(&moe);
}

/* B46: what a pass reads is the matrices less what stays, and the embedding's rows; nothing twice. */
static void a_pass_reads_what_does_not_stay(void **state) {
    (void)state;
    WeightsNeed need;
    WeightsStats before, after;
    Toy *toys[] = {&dense, &tied};
    for (int i = 0; i < 2; i++) {
        Toy *t = toys[i];
        open_toy(t, &(WeightsOptions){0}, 0, &need);
        load_toy(t, need.floor + (need.all - need.floor) / 3);
        assert_true(t->plan.streamed_per_pass > 0 && t->plan.streamed_per_pass < need.dense - TH_MIB);
        check_pass(t, 0);
        wait_for_ring(t);
        th_weights_stats(t->ws, &before);
        for (uint64_t pass = 0; pass < 5; pass++) check_pass(t, pass);
        wait_for_ring(t);
        th_weights_stats(t->ws, &after);
        uint64_t rows = 20 * th_weight_row_bytes(t->embd), bytes = after.io_bytes - before.io_bytes;
        assert_true(bytes >= 5 * t->plan.streamed_per_pass && bytes <= 5 * (t->plan.streamed_per_pass + rows));
        close_toy(t);
    }
}

/* B45: guesses that are no better than chance, many slots too few: never more than 2 % of additional bytes. */
static void wrong_guesses_cost_little(void **state) {
    (void)state;
    Err err = {0};
    uint64_t bytes[2];
    for (int on = 0; on < 2; on++) {
        WeightsNeed need;
        open_toy(&moe, &(WeightsOptions){.slots = 30, .lookahead = on ? THIMBLE_AUTO : THIMBLE_OFF}, 2, &need);
        load_toy(&moe, UINT64_MAX);
        uint64_t rng[4];
        th_rng_seed(rng, 5);
        for (int step = 0; step < 8000; step++) {
            int il = step % 4, next = (il + 1) % 4, e = (int)(th_rng_next(rng) % 6);
            int ids[2] = {e, e + 1 + (int)(th_rng_next(rng) % 5)}, wild[2] = {(e * 5) % 12, (e * 7 + 3) % 12};
            if (!toy_experts(&moe, moe.bundle[il], ids, 2, &err)) fail_msg("%s%s", err.message, moe.why);
            if (th_weights_lookahead(moe.ws)) th_weights_guess(moe.ws, moe.bundle[next], wild, 2);
        }
        WeightsStats stats;
        th_weights_stats(moe.ws, &stats);
        assert_int_equal(stats.hits + stats.misses + stats.guess_used, 16000);
        if (on) assert_true(stats.guess_used + stats.guess_wasted > 0);
        bytes[on] = stats.expert_bytes;
        close_toy(&moe);
    }
    assert_true(bytes[1] <= bytes[0] + bytes[0] / 50);
}

static void wait_until_ready(Toy *t, const Weight *w, int part) {
    for (int i = 0; i < 5000 && !th_weights_ready(t->ws, w, part); i++) usleep(1000);
    assert_true(th_weights_ready(t->ws, w, part));
}

/* While one part is in use the next ones come in; what was wanted comes in while something else is in use. */
static void reading_overlaps_with_computing(void **state) {
    (void)state;
    Err err = {0};
    WeightsNeed need;
    View v;
    open_toy(&moe, &(WeightsOptions){.home = THIMBLE_HOME_STREAM, .lookahead = THIMBLE_ON}, 3, &need);
    load_toy(&moe, need.floor);
    assert_true(th_weights_pin(moe.ws, moe.q[0], 0, &v, &err));
    wait_until_ready(&moe, moe.up[0], 0);
    th_weights_want(moe.ws, moe.bundle[0], (int[]){3, 4, 5}, 3);
    for (int e = 3; e < 6; e++) wait_until_ready(&moe, moe.bundle[0], e);
    th_weights_unpin(moe.ws, &v);
    assert_true(th_weights_pin(moe.ws, moe.bundle[0], 3, &v, &err));
    th_weights_guess(moe.ws, moe.bundle[1], (int[]){7}, 1);
    wait_until_ready(&moe, moe.bundle[1], 7);
    th_weights_unpin(moe.ws, &v);
    assert_true(toy_experts(&moe, moe.bundle[1], (int[]){7}, 1, &err));
    WeightsStats stats;
    th_weights_stats(moe.ws, &stats);
    assert_int_equal(stats.guess_used, 1);
    assert_int_equal(stats.misses, 1);
    close_toy(&moe);
}

static void a_file_cut_short_is_said(void **state) {
    (void)state;
    Toy t;
    Err err = {0};
    WeightsNeed need;
    ToyShape shape = TOY_SHAPE;
    toy_write(&t, &shape);
    open_toy(&t, &(WeightsOptions){0}, 3, &need);
    load_toy(&t, need.floor);
    check_pass(&t, 1);
    assert_true(th_weights_check(t.ws, &err));
    assert_int_equal(truncate(t.path, (off_t)(t.len / 3)), 0);
    assert_false(th_weights_check(t.ws, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    err = (Err){0};
    assert_false(toy_pass(&t, 2, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_string_equal(t.why, "");
    close_toy(&t);
    toy_remove(&t);
}

static int cancel_at_once(void *arg, int phase, uint64_t done, uint64_t total) {
    (void)arg;
    return phase == THIMBLE_PHASE_LOAD && done <= total;
}

static void loading_can_be_cancelled(void **state) {
    (void)state;
    Err err = {0};
    WeightsNeed need;
    ThimbleProgress progress = {.fn = cancel_at_once};
    open_toy(&dense, &(WeightsOptions){.progress = &progress}, 0, &need);
    assert_false(toy_load(&dense, UINT64_MAX, &err));
    assert_int_equal(err.code, THIMBLE_E_CANCELLED);
    close_toy(&dense);
}

static int write_toys(void **state) {
    (void)state;
    ToyShape shape = TOY_SHAPE;
    toy_write(&moe, &shape);
    shape.experts = 0;
    toy_write(&dense, &shape);
    shape.tied = true;
    toy_write(&tied, &shape);
    return 0;
}

static int remove_toys(void **state) {
    (void)state;
    toy_remove(&moe);
    toy_remove(&dense);
    toy_remove(&tied);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_home_pins_the_file),
        cmocka_unit_test(every_policy_pins_the_file),
        cmocka_unit_test(weak_reads_are_mended),
        cmocka_unit_test(dead_reads_are_said_and_never_used),
        cmocka_unit_test(odd_orders_are_right),
        cmocka_unit_test(slots_run_out_with_a_sentence),
        cmocka_unit_test(scans_do_not_flush),
        cmocka_unit_test(a_pass_reads_what_does_not_stay),
        cmocka_unit_test(wrong_guesses_cost_little),
        cmocka_unit_test(reading_overlaps_with_computing),
        cmocka_unit_test(a_file_cut_short_is_said),
        cmocka_unit_test(loading_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, write_toys, remove_toys);
}
