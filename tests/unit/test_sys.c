/* test_sys.c: memory of this process as the kernel counts it; what control groups leave, read from folders of a test.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "common/scratch.h"
#include "os/sys.h"
#include "os/vm.h"

static void memory_of_this_process(void **state) {
    SysMemory m, before;
    const size_t bytes = 48 * TH_MIB;
    th_sys_memory(&m);
    if (m.rss == 0) skip();
    assert_true(m.peak_rss >= m.rss && m.rss >= m.anon && m.anon > 0);
    assert_true(m.peak_anon >= m.anon && m.peak_anon <= m.peak_rss);
    before = m;
    char *p = th_vm_alloc(NULL, MEM_IO, bytes, false, NULL);
    assert_non_null(p);
    memset(p, 1, bytes);
    th_sys_memory(&m);
    assert_true(m.anon >= before.anon + bytes - TH_MIB);
    assert_true(m.rss >= before.rss + bytes - TH_MIB);
    th_vm_free(NULL, MEM_IO, p, bytes, false);
    uint64_t high = m.anon;
    th_sys_memory(&m);
    assert_true(m.anon + bytes / 2 < high);
    assert_true(m.peak_anon >= high - TH_MIB && m.peak_anon <= m.peak_rss);
    assert_true(m.peak_rss >= before.rss + bytes - TH_MIB);
}

static void asking_allocates_nothing(void **state) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    SysMemory m;
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 10; i++) {
        th_sys_memory(&m);
        (void)th_sys_available();
    }
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(before.uordblks, after.uordblks);
    assert_int_equal(before.arena, after.arena);
    assert_int_equal(before.hblks, after.hblks);
#else
    skip();
#endif
}

static void clock_runs_forward(void **state) {
    double last = th_sys_seconds(), first = last;
    for (int i = 0; i < 100000; i++) {
        double now = th_sys_seconds();
        assert_true(now >= last);
        last = now;
    }
    assert_true(last > first);
}

static void this_machine(void **state) {
    uint64_t n = th_sys_available();
    assert_true(n > 0 && n < (uint64_t)1 << 50);
}

/* ---- machines that are folders ----------------------------------------------------------------------------------- */

#define MEMINFO                                                                                                        \
    "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\nCached: 5000 kB\n"
#define V2 "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 master:1 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1 "36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
enum { MIB = 1 << 20 };

static void expect(Scratch *s, uint64_t want) { assert_int_equal(th_sys_available_in(s->dir), want); }

static void put_mib(Scratch *s, const char *name, int mib) {
    char text[64];
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)mib * MIB);
    th_scratch_text(s, name, text);
}

static void no_groups(void **state) {
    Scratch s;
    th_scratch_open(&s);
    expect(&s, UINT64_MAX); /* nothing is told */
    th_scratch_text(&s, "proc/meminfo", MEMINFO);
    expect(&s, (uint64_t)8000000 * 1024);
    th_scratch_text(&s, "proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1000000 kB\nBuffers: 7 kB\nCached: 5000 kB\n");
    expect(&s, (uint64_t)1005000 * 1024); /* an old kernel */
    th_scratch_text(&s, "proc/meminfo", "MemAvailable: 99999999999999999999999 kB\nMemFree: x\n");
    expect(&s, UINT64_MAX);
    th_scratch_close(&s);
}

static void version_2_with_ancestors(void **state) {
    Scratch s;
    th_scratch_open(&s);
    th_scratch_text(&s, "proc/meminfo", MEMINFO);
    th_scratch_text(&s, "proc/self/mountinfo", V2);
    th_scratch_text(&s, "proc/self/cgroup", "0::/a/b/c\n");
    th_scratch_text(&s, "sys/fs/cgroup/a/b/c/memory.max", "max\n");
    th_scratch_text(&s, "sys/fs/cgroup/a/b/c/memory.high", "max\n");
    put_mib(&s, "sys/fs/cgroup/a/memory.max", 1000); /* the grandparent */
    put_mib(&s, "sys/fs/cgroup/a/memory.current", 300);
    expect(&s, (uint64_t)700 * MIB);
    th_scratch_text(
        &s, "sys/fs/cgroup/a/memory.stat",
        "anon 1000\nfile 2000\nworkingset_inactive_file 9\ninactive_file 104857600\nactive_file 52428800\n");
    expect(&s, (uint64_t)850 * MIB); /* cache can be given up */
    put_mib(&s, "sys/fs/cgroup/a/b/c/memory.high", 400);
    put_mib(&s, "sys/fs/cgroup/a/b/c/memory.current", 150);
    expect(&s, (uint64_t)250 * MIB);
    put_mib(&s, "sys/fs/cgroup/a/b/memory.max", 100);
    put_mib(&s, "sys/fs/cgroup/a/b/memory.current", 130); /* over its limit */
    expect(&s, 0);
    th_scratch_close(&s);
}

static void version_1_with_ancestors(void **state) {
    Scratch s;
    th_scratch_open(&s);
    th_scratch_text(&s, "proc/meminfo", MEMINFO);
    th_scratch_text(&s, "proc/self/mountinfo", "35 25 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n" V1);
    th_scratch_text(&s, "proc/self/cgroup", "5:blkio:/x\n4:memory:/jobs/one\n0::/\n");
    th_scratch_text(&s, "sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put_mib(&s, "sys/fs/cgroup/memory/jobs/one/memory.usage_in_bytes", 5);
    expect(&s, (uint64_t)8000000 * 1024);
    put_mib(&s, "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", 512);
    put_mib(&s, "sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", 100);
    th_scratch_text(
        &s, "sys/fs/cgroup/memory/jobs/memory.stat",
        "cache 77\ninactive_file 1\ntotal_cache 5\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
    expect(&s, (uint64_t)414 * MIB);
    put_mib(&s, "sys/fs/cgroup/blkio/x/memory.limit_in_bytes", 1); /* not the hierarchy of memory */
    expect(&s, (uint64_t)414 * MIB);
    th_scratch_close(&s);
}

static void containers(void **state) {
    Scratch s;
    th_scratch_open(&s);
    th_scratch_text(&s, "proc/meminfo", MEMINFO);
    /* Our own folder is what is mounted, at a path with a space. */
    th_scratch_text(&s, "proc/self/mountinfo",
                    "36 25 0:31 /docker/abc /sys/fs/c\\040group ro - cgroup cgroup rw,memory\n");
    th_scratch_text(&s, "proc/self/cgroup", "4:memory:/docker/abc/sub\n");
    put_mib(&s, "sys/fs/c group/memory.limit_in_bytes", 64);
    expect(&s, (uint64_t)64 * MIB);
    put_mib(&s, "sys/fs/c group/sub/memory.limit_in_bytes", 32);
    expect(&s, (uint64_t)32 * MIB);
    /* Our path lies outside of what is mounted: the mount point speaks for us. */
    th_scratch_text(&s, "proc/self/cgroup", "4:memory:/docker/abcdef\n");
    expect(&s, (uint64_t)64 * MIB);
    th_scratch_text(&s, "proc/self/cgroup", "4:memory:/../../else\n");
    expect(&s, (uint64_t)64 * MIB);
    th_scratch_text(&s, "proc/self/cgroup", "nonsense\n4:memory\n::\n");
    expect(&s, (uint64_t)64 * MIB);
    th_scratch_close(&s);
}

static void hostile_tables(void **state) {
    Scratch s;
    static char text[40000];
    th_scratch_open(&s);
    th_scratch_text(&s, "proc/meminfo", MEMINFO);
    th_scratch_text(&s, "proc/self/cgroup", "0::/a\n");
    put_mib(&s, "sys/fs/cgroup/a/memory.max", 10);
    /* Hundreds of other mounts, one of them with a line longer than any buffer, then ours without a line end. */
    size_t at = 0;
    for (int i = 0; i < 200; i++)
        at += (size_t)snprintf(text + at, 128, "%d 23 0:2 / /m%d rw - ext4 /dev/x rw\n", i, i);
    memset(text + at, 'x', 9000);
    at += 9000;
    at += (size_t)snprintf(text + at, 256, " - cgroup2 y rw\n - - -\n\n%.*s", (int)(sizeof V2 - 2), V2);
    th_scratch_write(&s, "proc/self/mountinfo", text, at);
    expect(&s, (uint64_t)10 * MIB);
    /* A path of our group beyond any length. */
    memset(text, 'y', 5000);
    memcpy(text, "0::/", 4);
    text[5000] = '\n';
    th_scratch_write(&s, "proc/self/cgroup", text, 5001);
    th_scratch_text(&s, "sys/fs/cgroup/memory.max", "\n");
    expect(&s, (uint64_t)8000000 * 1024);
    th_scratch_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_this_process),
        cmocka_unit_test(asking_allocates_nothing),
        cmocka_unit_test(clock_runs_forward),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(no_groups),
        cmocka_unit_test(version_2_with_ancestors),
        cmocka_unit_test(version_1_with_ancestors),
        cmocka_unit_test(containers),
        cmocka_unit_test(hostile_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
