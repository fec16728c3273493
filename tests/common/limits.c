/* limits.c: see limits.h. */
#include "common/limits.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t address_space_now(void) {
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return 0;
    if (fscanf(f, "%llu", &pages) != 1) pages = 0;
    fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool th_limit_address_space(uint64_t more, struct rlimit *before) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)more, (void)before, (void)address_space_now;
    return false;
#else
    uint64_t now = address_space_now();
    if (now == 0 || getrlimit(RLIMIT_AS, before) != 0) return false;
    struct rlimit tight = *before;
    tight.rlim_cur = now + more;
    if (setrlimit(RLIMIT_AS, &tight) != 0) return false;
    /* Some emulators accept the limit and ignore it. */
    void *p = mmap(NULL, more + (1 << 20), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return true;
    munmap(p, more + (1 << 20));
    (void)setrlimit(RLIMIT_AS, before);
    return false;
#endif
}
