/* pool.h: fork-join on a fixed set of threads; the caller is worker 0. Work is cut by the caller into n items; which
 * worker takes which item never influences a result. Items are handed out in guided chunks (B59); waiting workers spin
 * briefly, then park. With one thread everything runs inline. Not reentrant: one th_pool_run at a time per pool. */
#ifndef THIMBLE_POOL_H
#define THIMBLE_POOL_H

#include "base/err.h"

typedef struct Pool Pool;
/* Processes items [begin, end) as worker `worker` (0 .. threads-1). Cannot fail; record failures in arg. */
typedef void (*PoolFn)(void *arg, int worker, int begin, int end);

bool th_pool_open(Pool **out, int threads, Err *err);
void th_pool_close(Pool *p); /* NULL allowed */
int th_pool_threads(const Pool *p);
void th_pool_run(Pool *p, PoolFn fn, void *arg, int n); /* returns when all n items are done */
/* As above, but no chunk is smaller than `grain` items (except the last). */
void th_pool_run_grain(Pool *p, PoolFn fn, void *arg, int n, int grain);

#endif
