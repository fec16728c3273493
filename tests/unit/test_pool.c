/* test_pool.c: every item exactly once, whatever the number of threads; nothing is left behind between jobs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/limits.h"
#include "os/pool.h"

enum { MOST = 5000 };

typedef struct Job {
    int threads, n, grain;
    unsigned char seen[MOST]; /* written by exactly one worker each: TSan tells if not */
    uint64_t product[MOST];
    atomic_int calls, bad;
} Job;

static void count_items(void *arg, int worker, int begin, int end) {
    Job *j = arg;
    atomic_fetch_add(&j->calls, 1);
    bool good = worker >= 0 && worker < j->threads && begin >= 0 && begin < end && end <= j->n;
    /* Chunks begin at multiples of the grain, and only the last one is shorter. */
    good = good && begin % j->grain == 0 && (end - begin >= j->grain || end == j->n);
    if (!good) {
        atomic_fetch_add(&j->bad, 1);
        return;
    }
    for (int i = begin; i < end; i++) {
        j->seen[i]++;
        j->product[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
    }
}

static void run_job(Pool *p, Job *j, int threads, int n, int grain) {
    j->threads = threads;
    j->n = n;
    j->grain = grain;
    memset(j->seen, 0, sizeof j->seen);
    if (grain == 1)
        th_pool_run(p, count_items, j, n);
    else
        th_pool_run_grain(p, count_items, j, n, grain);
    assert_int_equal(j->bad, 0);
    for (int i = 0; i < MOST; i++) assert_int_equal(j->seen[i], i < n);
}

static void each_item_once(void **state) {
    static Job j;
    const int threads[] = {1, 2, 3, 4, 9}, sizes[] = {0, 1, 2, 3, 7, 64, 1000, MOST}, grains[] = {1, 2, 7, 64, 9999};
    for (size_t t = 0; t < TH_COUNT(threads); t++) {
        Pool *p;
        Err err = {0};
        assert_true(th_pool_open(&p, threads[t], &err));
        assert_int_equal(th_pool_threads(p), threads[t]);
        for (size_t s = 0; s < TH_COUNT(sizes); s++)
            for (size_t g = 0; g < TH_COUNT(grains); g++) run_job(p, &j, threads[t], sizes[s], grains[g]);
        th_pool_close(p);
    }
    th_pool_close(NULL);
}

static void many_short_jobs(void **state) {
    static Job j;
    for (int threads = 2; threads <= 6; threads += 2) {
        Pool *p;
        Err err = {0};
        assert_true(th_pool_open(&p, threads, &err));
        j.threads = threads;
        j.grain = 1;
        for (int round = 0; round < 3000; round++) {
            j.n = 1 + round % 37;
            memset(j.seen, 0, (size_t)j.n);
            th_pool_run(p, count_items, &j, j.n);
            for (int i = 0; i < j.n; i++) assert_int_equal(j.seen[i], 1);
        }
        assert_int_equal(j.bad, 0);
        th_pool_close(p);
    }
}

/* Workers go to sleep between the jobs and have to be woken. */
static void jobs_with_pauses(void **state) {
    static Job j;
    Pool *p;
    Err err = {0};
    assert_true(th_pool_open(&p, 3, &err));
    for (int round = 0; round < 50; round++) {
        struct timespec t = {0, 1000L * 20 * (round % 20)};
        nanosleep(&t, NULL);
        run_job(p, &j, 3, 100 + round, 1);
    }
    th_pool_close(p);
}

typedef struct Meeting {
    atomic_int arrived;
    int expected;
} Meeting;

static void wait_for_all(void *arg, int worker, int begin, int end) {
    Meeting *m = arg;
    atomic_fetch_add(&m->arrived, end - begin);
    struct timespec t = {0, 100000};
    for (int tries = 0; tries < 100000 && atomic_load(&m->arrived) < m->expected; tries++) nanosleep(&t, NULL);
}

/* As many items as threads, each waiting for all others: proves that they really run at the same time. */
static void all_threads_take_part(void **state) {
    Pool *p;
    Err err = {0};
    assert_true(th_pool_open(&p, 4, &err));
    for (int round = 0; round < 20; round++) {
        Meeting m = {.expected = 4};
        th_pool_run(p, wait_for_all, &m, 4);
        assert_int_equal(m.arrived, 4);
    }
    th_pool_close(p);
}

static void slow_item(void *arg, int worker, int begin, int end) {
    struct timespec t = {0, 3000000};
    if (worker != 0) nanosleep(&t, NULL);
    atomic_fetch_add((atomic_int *)arg, end - begin);
}

/* The caller runs out of items while others still work: it must wait for them, asleep. */
static void caller_waits_for_the_last(void **state) {
    Pool *p;
    Err err = {0};
    assert_true(th_pool_open(&p, 2, &err));
    for (int round = 0; round < 20; round++) {
        atomic_int done = 0;
        th_pool_run(p, slow_item, &done, 8);
        assert_int_equal(done, 8);
    }
    th_pool_close(p);
}

static void results_do_not_depend_on_threads(void **state) {
    static Job one, many;
    for (int threads = 1; threads <= 5; threads++) {
        Pool *p;
        Err err = {0};
        Job *j = threads == 1 ? &one : &many;
        assert_true(th_pool_open(&p, threads, &err));
        run_job(p, j, threads, MOST, 3);
        th_pool_close(p);
        assert_memory_equal(one.product, j->product, sizeof one.product);
    }
}

/* The system gives some threads and refuses the rest: nothing is left behind, and it works again afterwards. */
static void threads_refused(void **state) {
    struct rlimit before;
    Pool *p;
    Err err = {0};
    if (!th_limit_address_space(1300 * TH_KIB, &before)) skip();
    bool opened = th_pool_open(&p, 60, &err);
    (void)setrlimit(RLIMIT_AS, &before);
    assert_false(opened);
    assert_null(p);
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    assert_non_null(strstr(err.message, "cannot start a compute thread"));
    assert_true(th_pool_open(&p, 3, &err));
    th_pool_close(p);
}

static void bad_numbers(void **state) {
    Pool *p;
    Err err = {0};
    const int bad[] = {0, -1, 257, 1 << 30};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        assert_false(th_pool_open(&p, bad[i], &err));
        assert_null(p);
        assert_int_equal(err.code, THIMBLE_E_ARG);
    }
    assert_true(th_pool_open(&p, 2, &err));
    static Job j;
    run_job(p, &j, 2, -5, 1);
    th_pool_close(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_once),
        cmocka_unit_test(many_short_jobs),
        cmocka_unit_test(jobs_with_pauses),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(caller_waits_for_the_last),
        cmocka_unit_test(results_do_not_depend_on_threads),
        cmocka_unit_test(threads_refused),
        cmocka_unit_test(bad_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
