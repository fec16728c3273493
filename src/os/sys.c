/* sys.c: numbers out of /proc and the control groups; nothing is allocated, so asking does not change the answer. */
#include "os/sys.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "os/cgroup.h"

double th_sys_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The number behind "\nKey" in `text`; false if there is none. */
static bool find_number(const char *text, const char *key, uint64_t *out) {
    size_t n = strlen(key);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        if (*p == '\n') p++;
        if (strncmp(p, key, n) != 0) continue;
        p += n;
        return th_text_parse(p + strspn(p, " \t"), out);
    }
    return false;
}

static uint64_t find_kib(const char *text, const char *key) {
    uint64_t n = 0;
    if (!find_number(text, key, &n) || !th_size_mul(n, 1024, &n)) return 0;
    return n;
}

void th_sys_memory(SysMemory *out) {
    char text[4096];
    *out = (SysMemory){0};
    if (!th_text_read("", "/proc/self/status", text, sizeof text)) return;
    out->rss = find_kib(text, "VmRSS:");
    out->peak_rss = find_kib(text, "VmHWM:");
    out->anon = find_kib(text, "RssAnon:"); /* absent before Linux 4.5 */
    uint64_t files = find_kib(text, "RssFile:") + find_kib(text, "RssShmem:");
    out->peak_anon = out->anon;
    if (out->anon && out->peak_rss > files && out->peak_rss - files > out->anon) out->peak_anon = out->peak_rss - files;
}

/* Clean pages of files count as used although the kernel gives them up on demand. */
static uint64_t reclaimable(const char *root, const char *dir, int version) {
    char path[1100], text[8192];
    uint64_t inactive = 0, active = 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    if (!th_text_read(root, path, text, sizeof text)) return 0;
    (void)find_number(text, version == 1 ? "total_inactive_file " : "inactive_file ", &inactive);
    (void)find_number(text, version == 1 ? "total_active_file " : "active_file ", &active);
    return inactive + active < inactive ? 0 : inactive + active;
}

static void consider_limit(uint64_t *least, const char *root, const char *dir, int version, const char *file) {
    char path[1100];
    uint64_t limit, used = 0;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (!th_text_number(root, path, &limit)) return;
    /* Version 1 writes "no limit" as the largest multiple of the page. */
    if (limit >= UINT64_MAX / 4) return;
    snprintf(path, sizeof path, "%s/%s", dir, version == 1 ? "memory.usage_in_bytes" : "memory.current");
    (void)th_text_number(root, path, &used);
    uint64_t cache = reclaimable(root, dir, version);
    used -= cache < used ? cache : used;
    uint64_t left = used < limit ? limit - used : 0;
    if (left < *least) *least = left;
}

static void visit_group(void *arg, const char *root, const char *dir, int version) {
    if (version == 1) {
        consider_limit(arg, root, dir, 1, "memory.limit_in_bytes");
    } else {
        consider_limit(arg, root, dir, 2, "memory.max");
        consider_limit(arg, root, dir, 2, "memory.high");
    }
}

uint64_t th_sys_available_in(const char *root) {
    char text[4096];
    uint64_t least = UINT64_MAX, available = 0;
    if (root[0] == 0) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        uint64_t physical;
        if (pages > 0 && page > 0 && th_size_mul((uint64_t)pages, (uint64_t)page, &physical)) least = physical;
    }
    if (th_text_read(root, "/proc/meminfo", text, sizeof text)) {
        available = find_kib(text, "MemAvailable:");
        /* Before Linux 3.14: what is free and what can be given up. */
        if (available == 0) available = find_kib(text, "MemFree:") + find_kib(text, "Cached:");
        if (available != 0 && available < least) least = available;
    }
    th_cgroup_each(root, "memory", visit_group, &least);
    return least;
}

uint64_t th_sys_available(void) { return th_sys_available_in(""); }
