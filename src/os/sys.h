/* sys.h: memory of the machine and of this process, and the clock. */
#ifndef THIMBLE_SYS_H
#define THIMBLE_SYS_H

#include <stdint.h>

typedef struct SysMemory {
    uint64_t rss, peak_rss, anon, peak_anon; /* bytes; VmRSS, VmHWM, RssAnon; peak_anon as far as sampled */
} SysMemory;
void th_sys_memory(SysMemory *out);
/* Smallest of physical memory, MemAvailable and what every ancestor cgroup (v1 and v2) leaves free. */
uint64_t th_sys_available(void);
double th_sys_seconds(void); /* monotonic */

#endif
