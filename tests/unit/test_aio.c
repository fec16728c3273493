/* test_aio.c: reads arrive whole, in order of priority; failures stay with their read; closing leaves nothing behind.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/faulty.h"
#include "common/limits.h"
#include "common/scratch.h"
#include "os/aio.h"

enum { FILE_BYTES = 1 << 20, PIECE = 4096 };

static Scratch scratch;

/* A hook that holds every read until the test lets it go, and notes in which order they came. */
typedef struct Gate {
    pthread_mutex_t lock;
    pthread_cond_t change;
    int arrived, tickets; /* reads that came, and how many of them may pass */
    uint64_t order[64];
} Gate;

static ptrdiff_t gate_pread(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset) {
    Gate *g = arg;
    pthread_mutex_lock(&g->lock);
    int mine = g->arrived++;
    g->order[mine] = offset / PIECE;
    pthread_cond_broadcast(&g->change);
    while (g->tickets <= mine) pthread_cond_wait(&g->change, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return pread(fd, buffer, bytes, (off_t)offset);
}

static void gate_pass(Gate *g, int tickets) {
    pthread_mutex_lock(&g->lock);
    g->tickets = tickets;
    pthread_cond_broadcast(&g->change);
    pthread_mutex_unlock(&g->lock);
}

static void gate_wait_arrived(Gate *g, int n) {
    pthread_mutex_lock(&g->lock);
    while (g->arrived < n) pthread_cond_wait(&g->change, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static int gate_arrived(Gate *g) {
    pthread_mutex_lock(&g->lock);
    int n = g->arrived;
    pthread_mutex_unlock(&g->lock);
    return n;
}

static void open_file(File *f, FileHook hook) {
    Err err = {0};
    assert_true(th_file_open(f, th_scratch_pattern(&scratch, "pattern", FILE_BYTES), &err));
    f->hook = hook;
}

static Read *new_reads(const File *f, int n, size_t bytes) {
    Read *r = calloc((size_t)n, sizeof *r);
    for (int i = 0; i < n; i++) {
        r[i] = (Read){.file = f, .offset = (uint64_t)i * PIECE % (FILE_BYTES - bytes), .bytes = bytes};
        assert_int_equal(posix_memalign(&r[i].buffer, f->align, th_file_span(f, 0, bytes)), 0);
    }
    return r;
}

static void free_reads(Read *r, int n) {
    for (int i = 0; i < n; i++) free(r[i].buffer);
    free(r);
}

static void check_bytes(const Read *r) {
    assert_int_equal(r->err.code, 0);
    const unsigned char *p = (const unsigned char *)r->buffer + r->skip;
    for (size_t i = 0; i < r->bytes; i++)
        if (p[i] != th_scratch_byte(r->offset + i))
            fail_msg("byte %zu of the read at %llu", i, (unsigned long long)r->offset);
}

static void reads_arrive(void **state) {
    enum { N = 200 };
    for (int readers = 0; readers <= 5; readers++) {
        File f;
        Aio *aio;
        AioStats stats;
        Err err = {0};
        open_file(&f, (FileHook){0});
        (void)th_file_probe_direct(&f);
        assert_true(th_aio_open(&aio, readers, &err));
        Read *r = new_reads(&f, N, 12345);
        for (int i = 0; i < N; i++) {
            r[i].priority = i % 4 - 1; /* odd numbers are clamped */
            r[i].offset += (uint64_t)i;
            th_aio_submit(aio, &r[i]);
        }
        for (int i = N - 1; i >= 0; i--) {
            th_aio_wait(aio, &r[i]);
            assert_true(th_aio_done(aio, &r[i]));
            check_bytes(&r[i]);
        }
        th_aio_stats(aio, &stats);
        assert_int_equal(stats.reads, N);
        assert_int_equal(stats.bytes, N * 12345);
        assert_true(stats.read_s > 0);
        assert_non_null(th_aio_backend(aio));
        th_aio_close(aio);
        free_reads(r, N);
        th_file_close(&f);
    }
    th_aio_close(NULL);
}

/* One reader, held at read 0: the others are served by priority, then in the order of submission. */
static void order_of_service(void **state) {
    Gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    File f;
    Aio *aio;
    Err err = {0};
    open_file(&f, (FileHook){gate_pread, &gate});
    assert_true(th_aio_open(&aio, 1, &err));
    Read *r = new_reads(&f, 9, 100);
    const int priority[9] = {AIO_DEMAND, AIO_SPECULATIVE, AIO_AHEAD, AIO_DEMAND,     AIO_SPECULATIVE,
                             AIO_DEMAND, AIO_AHEAD,       AIO_AHEAD, AIO_SPECULATIVE};
    th_aio_submit(aio, &r[0]);
    gate_wait_arrived(&gate, 1);
    for (int i = 1; i < 9; i++) {
        r[i].priority = priority[i];
        th_aio_submit(aio, &r[i]);
        assert_false(th_aio_done(aio, &r[i]));
    }
    th_aio_raise(aio, &r[4], AIO_DEMAND);      /* behind 3 and 5 */
    th_aio_raise(aio, &r[3], AIO_SPECULATIVE); /* never backwards */
    th_aio_raise(aio, &r[0], AIO_DEMAND);      /* runs already    */
    assert_true(th_aio_cancel(aio, &r[7]));
    assert_false(th_aio_cancel(aio, &r[7]));
    assert_false(th_aio_cancel(aio, &r[0]));
    gate_pass(&gate, 100);
    for (int i = 0; i < 9; i++)
        if (i != 7) th_aio_wait(aio, &r[i]);
    const uint64_t want[8] = {0, 3, 5, 4, 2, 6, 1, 8};
    assert_int_equal(gate.arrived, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(gate.order[i], want[i]);
    assert_false(th_aio_done(aio, &r[7]));
    th_aio_raise(aio, &r[8], AIO_DEMAND); /* done: nothing to move */

    th_aio_submit(aio, &r[7]); /* what was taken back may be asked again */
    th_aio_wait(aio, &r[7]);
    check_bytes(&r[7]);
    th_aio_close(aio);
    free_reads(r, 9);
    th_file_close(&f);
}

static void demand_finds_a_reader_free(void **state) {
    Gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    File f;
    Aio *aio;
    Err err = {0};
    open_file(&f, (FileHook){gate_pread, &gate});
    assert_true(th_aio_open(&aio, 4, &err));
    Read *r = new_reads(&f, 10, 100);
    for (int i = 0; i < 8; i++) {
        r[i].priority = AIO_SPECULATIVE;
        th_aio_submit(aio, &r[i]);
    }
    gate_wait_arrived(&gate, 2);
    th_aio_submit(aio, &r[8]);
    th_aio_submit(aio, &r[9]);
    gate_wait_arrived(&gate, 4); /* would wait for ever if speculation held all readers */
    assert_int_equal(gate_arrived(&gate), 4);
    bool demand[2] = {false, false};
    for (int i = 0; i < 4; i++)
        if (gate.order[i] >= 8) demand[gate.order[i] - 8] = true;
    assert_true(demand[0] && demand[1]);
    gate_pass(&gate, 100);
    for (int i = 0; i < 10; i++) th_aio_wait(aio, &r[i]);
    for (int i = 0; i < 10; i++) check_bytes(&r[i]);
    th_aio_close(aio);
    free_reads(r, 10);
    th_file_close(&f);
}

static void failures_stay_with_their_read(void **state) {
    File f;
    Aio *aio;
    Err err = {0};
    Faulty faulty = {.fault = FAULT_EIO_ALWAYS, .from = 2 * PIECE, .to = 2 * PIECE + 1};
    open_file(&f, th_faulty_hook(&faulty));
    assert_true(th_aio_open(&aio, 2, &err));
    Read *r = new_reads(&f, 4, 100);
    for (int i = 0; i < 4; i++) th_aio_submit(aio, &r[i]);
    for (int i = 0; i < 4; i++) th_aio_wait(aio, &r[i]);
    for (int i = 0; i < 4; i++) {
        if (i != 2) check_bytes(&r[i]);
    }
    assert_int_equal(r[2].err.code, THIMBLE_E_IO);
    assert_non_null(strstr(r[2].err.message, "reading 100 bytes at offset 8192 got 0: Input/output error"));

    faulty.fault = FAULT_NONE; /* the stick is back: the same Read works again */
    th_aio_submit(aio, &r[2]);
    th_aio_wait(aio, &r[2]);
    check_bytes(&r[2]);

    r[0].offset = FILE_BYTES - 50;
    th_aio_submit(aio, &r[0]);
    th_aio_wait(aio, &r[0]);
    assert_int_equal(r[0].err.code, THIMBLE_E_IO);
    th_aio_close(aio);
    free_reads(r, 4);
    th_file_close(&f);
}

static void *open_gate_later(void *arg) {
    struct timespec t = {0, 20 * 1000000};
    nanosleep(&t, NULL);
    gate_pass(arg, 100);
    return NULL;
}

/* Closing waits for what runs and fails what waits; all reads are done afterwards. */
static void closing_finishes_all(void **state) {
    Gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    File f;
    Aio *aio;
    Err err = {0};
    pthread_t later;
    open_file(&f, (FileHook){gate_pread, &gate});
    assert_true(th_aio_open(&aio, 2, &err));
    Read *r = new_reads(&f, 6, 100);
    for (int i = 0; i < 6; i++) {
        r[i].priority = i % 3;
        th_aio_submit(aio, &r[i]);
    }
    gate_wait_arrived(&gate, 2);
    assert_int_equal(pthread_create(&later, NULL, open_gate_later, &gate), 0);
    th_aio_close(aio);
    pthread_join(later, NULL);
    int good = 0, cancelled = 0;
    for (int i = 0; i < 6; i++) {
        assert_true(th_aio_done(NULL, &r[i]));
        good += r[i].err.code == 0;
        cancelled += r[i].err.code == THIMBLE_E_CANCELLED;
        if (r[i].err.code == 0) check_bytes(&r[i]);
    }
    assert_int_equal(good, 2);
    assert_int_equal(cancelled, 4);
    free_reads(r, 6);
    th_file_close(&f);
}

typedef struct Client {
    Aio *aio;
    const File *file;
    unsigned seed;
    atomic_int bad;
} Client;

static void *client_main(void *arg) {
    Client *c = arg;
    enum { N = 8 };
    Read *r = new_reads(c->file, N, 700);
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < N; i++) {
            c->seed = c->seed * 1664525u + 1013904223u;
            r[i].offset = (c->seed >> 8) % (FILE_BYTES - 700);
            r[i].priority = (int)(c->seed >> 4 & 3);
            th_aio_submit(c->aio, &r[i]);
        }
        th_aio_raise(c->aio, &r[N - 1], AIO_DEMAND);
        bool back = th_aio_cancel(c->aio, &r[N / 2]);
        for (int i = 0; i < N; i++) {
            if (i == N / 2 && back) continue;
            if (i % 2 == 0)
                while (!th_aio_done(c->aio, &r[i])) sched_yield();
            th_aio_wait(c->aio, &r[i]);
            const unsigned char *p = (const unsigned char *)r[i].buffer + r[i].skip;
            bool good = r[i].err.code == 0 && p[0] == th_scratch_byte(r[i].offset) &&
                        p[699] == th_scratch_byte(r[i].offset + 699);
            if (!good) atomic_fetch_add(&c->bad, 1);
            r[i].skip = 0;
        }
    }
    free_reads(r, N);
    return NULL;
}

static void several_threads_ask(void **state) {
    File f;
    Aio *aio;
    Err err = {0};
    Client c[3];
    pthread_t t[3];
    open_file(&f, (FileHook){0});
    (void)th_file_probe_direct(&f);
    assert_true(th_aio_open(&aio, 3, &err));
    for (int i = 0; i < 3; i++) {
        c[i] = (Client){.aio = aio, .file = &f, .seed = (unsigned)i + 1};
        assert_int_equal(pthread_create(&t[i], NULL, client_main, &c[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(c[i].bad, 0);
    th_aio_close(aio);
    th_file_close(&f);
}

static void waiting_is_counted(void **state) {
    File f;
    Aio *aio;
    AioStats stats;
    Err err = {0};
    Faulty faulty = {.fault = FAULT_DELAY, .delay_us = 20000};
    open_file(&f, th_faulty_hook(&faulty));
    assert_true(th_aio_open(&aio, 1, &err));
    Read *r = new_reads(&f, 1, 100);
    th_aio_submit(aio, r);
    th_aio_wait(aio, r);
    th_aio_wait(aio, r); /* done: costs nothing */
    th_aio_stats(aio, &stats);
    assert_true(stats.read_s >= 0.02);
    assert_true(stats.busy_s >= 0.02);
    assert_true(stats.stall_s > 0);
    th_aio_close(aio);
    free_reads(r, 1);
    th_file_close(&f);
}

/* The system gives some threads and refuses the rest: nothing is left behind, and it works again afterwards. */
static void threads_refused(void **state) {
    struct rlimit before;
    Aio *p;
    Err err = {0};
    if (!th_limit_address_space(1300 * TH_KIB, &before)) skip();
    bool opened = th_aio_open(&p, 60, &err);
    (void)setrlimit(RLIMIT_AS, &before);
    assert_false(opened);
    assert_null(p);
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    assert_non_null(strstr(err.message, "cannot start a reader thread"));
    assert_true(th_aio_open(&p, 3, &err));
    th_aio_close(p);
}

static void bad_numbers(void **state) {
    Aio *aio;
    Err err = {0};
    assert_false(th_aio_open(&aio, -1, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    assert_null(aio);
    assert_false(th_aio_open(&aio, 65, &err));
}

static int setup(void **state) {
    th_scratch_open(&scratch);
    return 0;
}
static int teardown(void **state) {
    th_scratch_close(&scratch);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_arrive),
        cmocka_unit_test(order_of_service),
        cmocka_unit_test(demand_finds_a_reader_free),
        cmocka_unit_test(failures_stay_with_their_read),
        cmocka_unit_test(closing_finishes_all),
        cmocka_unit_test(several_threads_ask),
        cmocka_unit_test(waiting_is_counted),
        cmocka_unit_test(threads_refused),
        cmocka_unit_test(bad_numbers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
