/* sys.h: memory of the machine and of this process, and the clock. */
#ifndef THIMBLE_SYS_H
#define THIMBLE_SYS_H

#include <stdint.h>

typedef struct SysMemory {
    uint64_t rss, peak_rss, anon, peak_anon; /* bytes; VmRSS, VmHWM, RssAnon; peak_anon as far as sampled */
} SysMemory;
/* Reads /proc without allocating. `m` starts zeroed and is kept between calls: peak_anon is the largest anon it saw.
 * All zeros where the system does not tell. */
void th_sys_memory(SysMemory *m);
/* Smallest of physical memory, MemAvailable and what every ancestor cgroup (v1 and v2) leaves free. */
uint64_t th_sys_available(void);
double th_sys_seconds(void); /* monotonic */

/* Seam for tests: as th_sys_available with the files below `root` (no physical memory asked when root is not ""). */
uint64_t th_sys_available_in(const char *root);

#endif
