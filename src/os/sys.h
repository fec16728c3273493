/* sys.h: memory of the machine and of this process, and the clock. */
#ifndef THIMBLE_SYS_H
#define THIMBLE_SYS_H

#include <stdint.h>

/* Bytes: VmRSS, VmHWM, RssAnon. The kernel keeps no peak of anonymous memory: peak_anon is the peak of all memory
 * without the pages of files there are now, and never less than anon. All zeros where the system does not tell. */
typedef struct SysMemory {
    uint64_t rss, peak_rss, anon, peak_anon;
} SysMemory;
void th_sys_memory(SysMemory *out); /* reads /proc without allocating */
/* Smallest of physical memory, MemAvailable and what every ancestor cgroup (v1 and v2) leaves free. */
uint64_t th_sys_available(void);
double th_sys_seconds(void); /* monotonic */

/* Seam for tests: as th_sys_available with the files below `root` (no physical memory asked when root is not ""). */
uint64_t th_sys_available_in(const char *root);

#endif
