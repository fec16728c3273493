/* aio.h: asynchronous reads. Requests are served in order of priority, then of submission, by reader threads that run
 * no kernels. The caller owns a Read until it is done; nothing is allocated per request.
 *
 *     free --submit--> queued --reader--> running --> done (ok or failed)
 *
 * Demand never waits behind speculation: speculative reads occupy at most half of the readers (at least one). Stop
 * order: th_aio_close waits for running reads and fails queued ones; files may be closed only afterwards. Any thread
 * may call any function, but one Read is one thread's business at a time. */
#ifndef THIMBLE_AIO_H
#define THIMBLE_AIO_H

#include "os/file.h"

enum { AIO_DEMAND = 0, AIO_AHEAD = 1 /* certain, later */, AIO_SPECULATIVE = 2, N_AIO_PRIORITIES = 3 };

typedef struct Read {
    const File *file;
    uint64_t offset;
    size_t bytes;
    void *buffer; /* as th_file_read_span */
    size_t skip;  /* out */
    int priority;
    Err err;   /* out: err.code != 0 if it failed */
    int state; /* private, starts 0; use th_aio_done */
    struct Read *next;
} Read;

typedef struct Aio Aio;
typedef struct AioStats {
    uint64_t reads, bytes; /* bytes asked for, not widened */
    double read_s;         /* sum of the time readers spent in reads */
    double busy_s;         /* time in which at least one read ran */
    double stall_s;        /* time callers waited in th_aio_wait */
} AioStats;

/* n_readers threads (0: 4) with small stacks. */
bool th_aio_open(Aio **out, int n_readers, Err *err);
void th_aio_close(Aio *aio); /* NULL allowed */
void th_aio_submit(Aio *aio, Read *r);
void th_aio_raise(Aio *aio, Read *r, int priority); /* moves a queued read forward; no-op otherwise */
bool th_aio_cancel(Aio *aio, Read *r);     /* takes back a read that still waits; false if it runs or is done */
bool th_aio_done(Aio *aio, const Read *r); /* finished, well or badly; acquires its memory */
void th_aio_wait(Aio *aio, const Read *r); /* until done; counts the stall */
void th_aio_stats(Aio *aio, AioStats *out);
const char *th_aio_backend(const Aio *aio);

#endif
