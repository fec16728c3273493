/* memrate.c: see memrate.h. Every word is read, as a kernel would; what is summed up is thrown away. */
#include "os/memrate.h"

#include <string.h>

#include "base/base.h"
#include "os/sys.h"

enum { CHUNK = 256 * 1024, MOST_CHUNKS = 256, TIMES = 4 };

typedef struct Reading {
    const char *region;
    size_t chunk, step; /* bytes of a chunk, and from one to the next */
    uint64_t sum;       /* makes the reading observable */
} Reading;

static uint64_t read_words(const char *p, size_t bytes) {
    uint64_t sum[8] = {0}, word[8];
    for (size_t at = 0; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(word, p + at, sizeof word);
        for (int i = 0; i < 8; i++) sum[i] += word[i];
    }
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static void read_chunks(void *arg, int worker, int begin, int end) {
    Reading *r = arg;
    uint64_t sum = 0;
    (void)worker;
    for (int i = begin; i < end; i++) sum += read_words(r->region + (size_t)i * r->step, r->chunk);
    __atomic_fetch_add(&r->sum, sum, __ATOMIC_RELAXED);
}

double th_memory_rate(Pool *pool, const void *region, size_t bytes) {
    Reading r = {.region = region, .chunk = th_min_size(bytes, CHUNK)};
    if (bytes == 0) return 0;
    size_t n = th_min_size(bytes / r.chunk, MOST_CHUNKS);
    r.step = bytes / n;
    double best = 0;
    for (int i = 0; i < TIMES; i++) {
        double begin = th_sys_seconds();
        th_pool_run(pool, read_chunks, &r, (int)n);
        double seconds = th_sys_seconds() - begin, rate = seconds > 0 ? (double)(n * r.chunk) / seconds : 0;
        if (rate > best) best = rate;
    }
    return best;
}
