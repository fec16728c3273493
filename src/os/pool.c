/* pool.c: fork-join without a barrier.
 *
 *     ticket = job number (32 bits) | items not handed out yet (32 bits)      one atomic word
 *     left   = items not finished yet
 *
 * th_pool_run writes the job, publishes a ticket and takes chunks like everybody else; it returns when `left` is 0. A
 * worker that the system has put aside holds nobody up unless it has taken a chunk: whoever is awake does the work, so
 * a slow core or a wake-up that comes too late costs little. Taking a chunk is one compare-and-swap on the ticket; that
 * it succeeds proves that the job which the worker has read is still the current one, because the next job is written
 * only after this one's items have all been taken and finished.
 *
 * Who waits spins for some tens of microseconds (passes consist of hundreds of short jobs in a row), then sleeps; with
 * more threads than processors nobody spins. Sleepers count themselves before they look at the word a last time, wakers
 * change the word before they look at the count: sequentially consistent, so one of them sees the other. */
#include "os/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "os/cpu.h"
#include "os/thread.h"
#include "os/vm.h"

enum { MAX_THREADS = 256, SPIN_NS = 30 * 1000, RELAX_PER_LOOK = 32, CACHE_LINE = 128 };

typedef struct Worker {
    Pool *pool;
    int number;
    pthread_t thread;
} Worker;

struct Pool {
    TH_ALIGNED(CACHE_LINE) _Atomic uint64_t ticket;
    TH_ALIGNED(CACHE_LINE) atomic_int left;
    /* The job. Atomic although guarded by the ticket: a worker may read it while the next one is written; it then fails
     * to take a chunk and throws away what it read. */
    TH_ALIGNED(CACHE_LINE) _Atomic(PoolFn) fn;
    _Atomic(void *) arg;
    atomic_int n, grain;
    TH_ALIGNED(CACHE_LINE) atomic_int sleepers; /* workers without work */
    atomic_bool caller_sleeps, stop;
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    bool has_lock, has_work, has_finished;
    int threads, started;
    int64_t spin_ns;
    uint32_t job;
    Worker workers[MAX_THREADS];
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    /* "yield" does nothing on most cores; isb lasts about as long as x86's pause. */
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* A share of what is left: large first, small towards the end, so that all finish at about the same time. */
static uint32_t chunk_items(uint32_t remaining, uint32_t threads, uint32_t grain) {
    uint32_t items = remaining / (2 * threads);
    items = items / grain * grain;
    if (items < grain) items = grain;
    return items < remaining ? items : remaining;
}

static void wake_caller(Pool *p) {
    if (!atomic_load(&p->caller_sleeps)) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->finished);
    pthread_mutex_unlock(&p->lock);
}

/* Takes and does chunks until none is left to take. */
static void work_on(Pool *p, int worker) {
    uint64_t ticket = atomic_load(&p->ticket);
    while ((uint32_t)ticket != 0) {
        uint32_t remaining = (uint32_t)ticket;
        PoolFn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        int n = atomic_load_explicit(&p->n, memory_order_relaxed);
        int grain = atomic_load_explicit(&p->grain, memory_order_relaxed);
        uint32_t items = chunk_items(remaining, (uint32_t)p->threads, (uint32_t)grain);
        if (!atomic_compare_exchange_weak(&p->ticket, &ticket, ticket - items)) continue;
        int begin = n - (int)remaining;
        fn(arg, worker, begin, begin + (int)items);
        if (atomic_fetch_sub(&p->left, (int)items) == (int)items) wake_caller(p);
        ticket = atomic_load(&p->ticket);
    }
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static bool has_work_or_stop(Pool *p) { return (uint32_t)atomic_load(&p->ticket) != 0 || atomic_load(&p->stop); }
static bool is_finished(Pool *p) { return atomic_load(&p->left) == 0; }

static bool spin_until(Pool *p, bool (*ready)(Pool *)) {
    if (ready(p)) return true;
    if (p->spin_ns == 0) return false;
    int64_t end = now_ns() + p->spin_ns;
    do {
        for (int i = 0; i < RELAX_PER_LOOK; i++) {
            if (ready(p)) return true;
            relax();
        }
    } while (now_ns() < end);
    return false;
}

static void *worker_main(void *arg) {
    Worker *w = arg;
    Pool *p = w->pool;
    while (!atomic_load(&p->stop)) {
        if (!spin_until(p, has_work_or_stop)) {
            pthread_mutex_lock(&p->lock);
            atomic_fetch_add(&p->sleepers, 1);
            while (!has_work_or_stop(p)) pthread_cond_wait(&p->work, &p->lock);
            atomic_fetch_sub(&p->sleepers, 1);
            pthread_mutex_unlock(&p->lock);
        }
        work_on(p, w->number);
    }
    return NULL;
}

static void wake_workers(Pool *p) {
    if (atomic_load(&p->sleepers) == 0) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}

static void wait_finished(Pool *p) {
    if (spin_until(p, is_finished)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_sleeps, true);
    while (!is_finished(p)) pthread_cond_wait(&p->finished, &p->lock);
    atomic_store(&p->caller_sleeps, false);
    pthread_mutex_unlock(&p->lock);
}

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

bool th_pool_open(Pool **out, int threads, Err *err) {
    *out = NULL;
    if (threads < 1 || threads > MAX_THREADS)
        return th_fail(err, THIMBLE_E_ARG, "%d threads: must be 1 to %d", threads, MAX_THREADS);
    Pool *p = th_vm_alloc(NULL, MEM_RESERVE, sizeof *p, false, err);
    if (!p) return false;
    p->threads = threads;
    p->spin_ns = threads <= th_cpu_allowed() ? SPIN_NS : 0;
    p->has_lock = pthread_mutex_init(&p->lock, NULL) == 0;
    p->has_work = pthread_cond_init(&p->work, NULL) == 0;
    p->has_finished = pthread_cond_init(&p->finished, NULL) == 0;
    if (!p->has_lock || !p->has_work || !p->has_finished) {
        th_fail(err, THIMBLE_E_NOMEM, "cannot set up %d threads", threads);
        goto fail;
    }
    for (int i = 1; i < threads; i++) {
        p->workers[i] = (Worker){.pool = p, .number = i};
        if (!th_thread_start(&p->workers[i].thread, worker_main, &p->workers[i], "compute", err)) goto fail;
        p->started = i;
    }
    *out = p;
    return true;
fail:
    th_pool_close(p);
    return false;
}

void th_pool_close(Pool *p) {
    if (!p) return;
    if (p->started) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->stop, true);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->lock);
        for (int i = 1; i <= p->started; i++) pthread_join(p->workers[i].thread, NULL);
    }
    if (p->has_finished) pthread_cond_destroy(&p->finished);
    if (p->has_work) pthread_cond_destroy(&p->work);
    if (p->has_lock) pthread_mutex_destroy(&p->lock);
    th_vm_free(NULL, MEM_RESERVE, p, sizeof *p, false);
}

int th_pool_threads(const Pool *p) { return p->threads; }

void th_pool_run_grain(Pool *p, PoolFn fn, void *arg, int n, int grain) {
    if (n <= 0) return;
    grain = th_max_int(grain, 1);
    if (p->threads == 1 || n <= grain) {
        fn(arg, 0, 0, n);
        return;
    }
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->n, n, memory_order_relaxed);
    atomic_store_explicit(&p->grain, grain, memory_order_relaxed);
    atomic_store_explicit(&p->left, n, memory_order_relaxed);
    p->job++;
    atomic_store(&p->ticket, (uint64_t)p->job << 32 | (uint32_t)n);
    wake_workers(p);
    work_on(p, 0);
    wait_finished(p);
}

void th_pool_run(Pool *p, PoolFn fn, void *arg, int n) { th_pool_run_grain(p, fn, arg, n, 1); }
