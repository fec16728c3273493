/* aio_threads.c: reads by a few threads that do nothing else; works wherever files can be read.
 *
 *     queue[demand]       -> r -> r
 *     queue[ahead]        -> r            a free reader takes the first of the first queue that has one
 *     queue[speculative]  -> r -> r -> r  but at most half of the readers are busy with these
 *
 * One lock guards the queues and is never held across a read. A Read is published as done with a release store while
 * the lock is held, and not touched afterwards: its owner may reuse it at once. */
#include "os/aio.h"

#include <pthread.h>

#include "os/sys.h"
#include "os/thread.h"
#include "os/vm.h"

enum { READERS_USUAL = 4, MAX_READERS = 64 };
enum { READ_FREE = 0, READ_QUEUED, READ_RUNNING, READ_DONE };

typedef struct ReadQueue {
    Read *first, *last;
} ReadQueue;

struct Aio {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool has_lock, has_work, has_done;
    ReadQueue queue[N_AIO_PRIORITIES];
    int n_readers, started, waiters, speculating, max_speculating, running;
    double busy_since; /* if any are running */
    bool stop;
    AioStats stats;
    pthread_t readers[MAX_READERS];
};

static int state_of(const Read *r) { return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE); }
static void set_state(Read *r, int state) { __atomic_store_n(&r->state, state, __ATOMIC_RELEASE); }

/* ---- queues: the lock is held ------------------------------------------------------------------------------------ */

static int clamp_priority(int priority) { return th_max_int(0, th_min_int(priority, N_AIO_PRIORITIES - 1)); }

static void append(Aio *aio, Read *r) {
    ReadQueue *q = &aio->queue[r->priority];
    r->next = NULL;
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
}

static void unlink_read(Aio *aio, Read *r) {
    ReadQueue *q = &aio->queue[r->priority];
    Read *before = NULL;
    for (Read *at = q->first; at != r; at = at->next) before = at;
    if (before)
        before->next = r->next;
    else
        q->first = r->next;
    if (q->last == r) q->last = before;
    r->next = NULL;
}

static Read *take_next(Aio *aio) {
    for (int priority = 0; priority < N_AIO_PRIORITIES; priority++) {
        Read *r = aio->queue[priority].first;
        if (!r || (priority == AIO_SPECULATIVE && aio->speculating >= aio->max_speculating)) continue;
        unlink_read(aio, r);
        return r;
    }
    return NULL;
}

static void finish(Aio *aio, Read *r) {
    set_state(r, READ_DONE);
    if (aio->waiters) pthread_cond_broadcast(&aio->done);
}

/* ---- readers ----------------------------------------------------------------------------------------------------- */

static void count_start(Aio *aio) {
    if (aio->running++ == 0) aio->busy_since = th_sys_seconds();
}

static void count_end(Aio *aio) {
    if (--aio->running == 0) aio->stats.busy_s += th_sys_seconds() - aio->busy_since;
}

static void *reader_main(void *arg) {
    Aio *aio = arg;
    pthread_mutex_lock(&aio->lock);
    while (!aio->stop) {
        Read *r = take_next(aio);
        if (!r) {
            pthread_cond_wait(&aio->work, &aio->lock);
            continue;
        }
        bool speculative = r->priority == AIO_SPECULATIVE;
        size_t bytes = r->bytes;
        set_state(r, READ_RUNNING);
        aio->speculating += speculative;
        count_start(aio);
        pthread_mutex_unlock(&aio->lock);

        double begin = th_sys_seconds();
        (void)th_file_read_span(r->file, r->buffer, r->bytes, r->offset, &r->skip, &r->err);
        double seconds = th_sys_seconds() - begin;

        pthread_mutex_lock(&aio->lock);
        aio->speculating -= speculative;
        count_end(aio);
        aio->stats.reads++;
        aio->stats.bytes += bytes;
        aio->stats.read_s += seconds;
        finish(aio, r);
        /* A speculative read may wait for this one's place while all others sleep: this reader looks again itself. */
    }
    pthread_mutex_unlock(&aio->lock);
    return NULL;
}

/* ---- for callers ------------------------------------------------------------------------------------------------- */

bool th_aio_open(Aio **out, int n_readers, Err *err) {
    *out = NULL;
    if (n_readers < 0 || n_readers > MAX_READERS)
        return th_fail(err, THIMBLE_E_ARG, "%d reader threads: must be 0 to %d", n_readers, MAX_READERS);
    Aio *aio = th_vm_alloc(NULL, MEM_IO, sizeof *aio, false, err);
    if (!aio) return false;
    aio->n_readers = n_readers ? n_readers : READERS_USUAL;
    aio->max_speculating = th_max_int(1, aio->n_readers / 2);
    aio->has_lock = pthread_mutex_init(&aio->lock, NULL) == 0;
    aio->has_work = pthread_cond_init(&aio->work, NULL) == 0;
    aio->has_done = pthread_cond_init(&aio->done, NULL) == 0;
    if (!aio->has_lock || !aio->has_work || !aio->has_done) {
        th_fail(err, THIMBLE_E_NOMEM, "cannot set up %d reader threads", aio->n_readers);
        goto fail;
    }
    for (; aio->started < aio->n_readers; aio->started++)
        if (!th_thread_start(&aio->readers[aio->started], reader_main, aio, "reader", err)) goto fail;
    *out = aio;
    return true;
fail:
    th_aio_close(aio);
    return false;
}

void th_aio_close(Aio *aio) {
    if (!aio) return;
    if (aio->has_lock) {
        pthread_mutex_lock(&aio->lock);
        aio->stop = true;
        for (int priority = 0; priority < N_AIO_PRIORITIES; priority++) {
            for (Read *r; (r = aio->queue[priority].first) != NULL;) {
                unlink_read(aio, r);
                th_fail(&r->err, THIMBLE_E_CANCELLED, "%s: closed before it was read", r->file->path);
                finish(aio, r);
            }
        }
        if (aio->started) pthread_cond_broadcast(&aio->work);
        pthread_mutex_unlock(&aio->lock);
    }
    for (int i = 0; i < aio->started; i++) pthread_join(aio->readers[i], NULL);
    if (aio->has_done) pthread_cond_destroy(&aio->done);
    if (aio->has_work) pthread_cond_destroy(&aio->work);
    if (aio->has_lock) pthread_mutex_destroy(&aio->lock);
    th_vm_free(NULL, MEM_IO, aio, sizeof *aio, false);
}

void th_aio_submit(Aio *aio, Read *r) {
    r->priority = clamp_priority(r->priority);
    r->err.code = 0;
    r->skip = 0;
    pthread_mutex_lock(&aio->lock);
    set_state(r, READ_QUEUED);
    append(aio, r);
    pthread_cond_signal(&aio->work);
    pthread_mutex_unlock(&aio->lock);
}

void th_aio_raise(Aio *aio, Read *r, int priority) {
    priority = clamp_priority(priority);
    pthread_mutex_lock(&aio->lock);
    if (state_of(r) == READ_QUEUED && priority < r->priority) {
        unlink_read(aio, r);
        r->priority = priority;
        append(aio, r);
        /* It may have been held back as speculation while readers sleep. */
        pthread_cond_signal(&aio->work);
    }
    pthread_mutex_unlock(&aio->lock);
}

bool th_aio_cancel(Aio *aio, Read *r) {
    pthread_mutex_lock(&aio->lock);
    bool queued = state_of(r) == READ_QUEUED;
    if (queued) {
        unlink_read(aio, r);
        set_state(r, READ_FREE);
    }
    pthread_mutex_unlock(&aio->lock);
    return queued;
}

bool th_aio_done(Aio *aio, const Read *r) {
    (void)aio;
    return state_of(r) == READ_DONE;
}

void th_aio_wait(Aio *aio, const Read *r) {
    if (state_of(r) == READ_DONE) return;
    double begin = th_sys_seconds();
    pthread_mutex_lock(&aio->lock);
    aio->waiters++;
    while (state_of(r) != READ_DONE) pthread_cond_wait(&aio->done, &aio->lock);
    aio->waiters--;
    aio->stats.stall_s += th_sys_seconds() - begin;
    pthread_mutex_unlock(&aio->lock);
}

void th_aio_stats(Aio *aio, AioStats *out) {
    pthread_mutex_lock(&aio->lock);
    *out = aio->stats;
    if (aio->running) out->busy_s += th_sys_seconds() - aio->busy_since;
    pthread_mutex_unlock(&aio->lock);
}

const char *th_aio_backend(const Aio *aio) {
    (void)aio;
    return "threads";
}
