/* memrate.h: how fast this machine reads memory, by reading some. */
#ifndef THIMBLE_MEMRATE_H
#define THIMBLE_MEMRATE_H

#include "os/pool.h"

/* Bytes per second that the pool's threads read together from region [bytes]: the best of four times over up to 64 MiB
 * spread over all of it (tens of milliseconds). A small region lies in a cache, and the rate is that of the cache. 0 if
 * there is nothing to read. */
double th_memory_rate(Pool *pool, const void *region, size_t bytes);

#endif
