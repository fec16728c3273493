/* test_cpu.c: words of instruction sets; which cores count, on boards that are folders of text files (fault B59). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/scratch.h"
#include "os/cgroup.h"
#include "os/cpu.h"

/* ---- instruction sets -------------------------------------------------------------------------------------------- */

static void words_and_masks(void **state) {
    const struct {
        const char *list;
        unsigned mask;
        const char *names;
    } good[] = {{"c", ISA_C, "c"},
                {"avx2", ISA_C | ISA_AVX2, "c,avx2"},
                {"avx512vnni", ISA_C | ISA_AVX2 | ISA_AVX512 | ISA_AVX512VNNI, "c,avx2,avx512,avx512vnni"},
                {"avx512,avxvnni", ISA_C | ISA_AVX2 | ISA_AVX512 | ISA_AVXVNNI, "c,avx2,avxvnni,avx512"},
                {"i8mm", ISA_C | ISA_NEON | ISA_DOTPROD | ISA_I8MM, "c,neon,dotprod,i8mm"},
                {"neon,c,neon", ISA_C | ISA_NEON, "c,neon"}};
    const char *bad[] = {"", "avx", "avx5", "avx512 ", "AVX2", "avx2,", ",avx2", "avx2,,c", "c;avx2"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        unsigned mask = 0;
        char names[128];
        assert_true(th_cpu_parse_isa(good[i].list, &mask));
        assert_int_equal(mask, good[i].mask);
        th_cpu_isa_names(mask, names, sizeof names);
        assert_string_equal(names, good[i].names);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unsigned mask = 12345;
        if (th_cpu_parse_isa(bad[i], &mask)) fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(mask, 12345);
    }
    char small[6];
    th_cpu_isa_names(ISA_ALL, small, sizeof small); /* cut, never overrun */
    assert_string_equal(small, "c,avx");
    th_cpu_isa_names(ISA_ALL, small, 0);
}

/* Every set of this machine stands on what it needs: parsing its names gives the same mask. */
static void this_machine(void **state) {
    char names[128];
    unsigned mask = th_cpu_isa(), again = 0;
    assert_true((mask & ISA_C) != 0);
    th_cpu_isa_names(mask, names, sizeof names);
    assert_true(th_cpu_parse_isa(names, &again));
    assert_int_equal(mask, again);
    assert_true(th_cpu_threads() >= 1);
    assert_true(th_cpu_threads() <= th_cpu_allowed());
    assert_true(th_cpu_allowed() <= sysconf(_SC_NPROCESSORS_CONF));
}

/* The kernel's own list of flags says the same. Not under an emulator (RUN_UNDER of scripts/run_tests.sh), whose
 * /proc/cpuinfo is the host's. */
static void agrees_with_the_kernel(void **state) {
    static char text[16384], flags[4096];
    const struct {
        unsigned bit;
        const char *all;
    } sets[] = {
#if defined(__x86_64__)
        {ISA_AVX2, " avx2 fma f16c bmi1 bmi2 "},
        {ISA_AVXVNNI, " avx_vnni avx2 "},
        {ISA_AVX512, " avx512f avx512bw avx512dq avx512vl avx512cd "},
        {ISA_AVX512VNNI, " avx512_vnni avx512f "},
#else
        {ISA_NEON, " asimd "},
        {ISA_DOTPROD, " asimddp "},
        {ISA_I8MM, " i8mm "},
#endif
    };
    if (!th_text_read("", "/proc/cpuinfo", text, sizeof text)) skip();
#if defined(__x86_64__)
    const char *key = "\nflags";
#else
    const char *key = "\nFeatures";
#endif
    const char *line = strstr(text, key), *colon = line ? strchr(line, ':') : NULL,
               *end = colon ? strchr(colon, '\n') : NULL;
    if (!end || getenv("RUN_UNDER")) skip();
    snprintf(flags, sizeof flags, "%.*s ", (int)(end - colon - 1), colon + 1);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char words[128], *save = NULL;
        bool all = true;
        snprintf(words, sizeof words, "%s", sets[i].all);
        for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
            char spaced[40];
            snprintf(spaced, sizeof spaced, " %s ", w);
            all = all && strstr(flags, spaced) != NULL;
        }
        if (((th_cpu_isa() & sets[i].bit) != 0) != all) fail_msg("%s", sets[i].all);
    }
}

/* ---- boards ------------------------------------------------------------------------------------------------------ */

typedef struct Board {
    Scratch s;
} Board;

static void put(Board *b, const char *name, const char *text) { th_scratch_text(&b->s, name, text); }

static void put_cpu(Board *b, int cpu, const char *file, const char *text) {
    char name[128];
    snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/%s", cpu, file);
    put(b, name, text);
}

static void put_number(Board *b, int cpu, const char *file, int n) {
    char text[32];
    snprintf(text, sizeof text, "%d\n", n);
    put_cpu(b, cpu, file, text);
}

static void new_board(Board *b, const char *allowed, const char *online) {
    char text[256];
    th_scratch_open(&b->s);
    snprintf(text, sizeof text, "Name:\tthimble\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems_allowed:\t1\n",
             allowed);
    put(b, "proc/self/status", text);
    put(b, "sys/devices/system/cpu/online", online);
}

static void set_allowed(Board *b, const char *allowed) {
    char text[256];
    snprintf(text, sizeof text, "Name:\tthimble\nCpus_allowed_list:\t%s\n", allowed);
    put(b, "proc/self/status", text);
}

static void big_little(void **state) {
    Board b;
    new_board(&b, "0-7", "0-7\n"); /* 4 little, 3 big, 1 prime */
    const int capacity[8] = {324, 324, 324, 324, 800, 800, 800, 1024};
    for (int i = 0; i < 8; i++) put_number(&b, i, "cpu_capacity", capacity[i]);
    assert_int_equal(th_cpu_threads_in(b.s.dir), 4);
    assert_int_equal(th_cpu_allowed_in(b.s.dir), 8);
    set_allowed(&b, "0-3"); /* taskset to the little ones: they are the fast class then */
    assert_int_equal(th_cpu_threads_in(b.s.dir), 4);
    set_allowed(&b, "2,7");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 1);
    th_scratch_close(&b.s);
}

static void classes_by_frequency(void **state) {
    Board b;
    new_board(&b, "0-5", "0-5\n"); /* a board whose kernel tells no capacities */
    for (int i = 0; i < 6; i++) put_number(&b, i, "cpufreq/cpuinfo_max_freq", i < 4 ? 1800000 : 2400000);
    assert_int_equal(th_cpu_threads_in(b.s.dir), 2);
    th_scratch_close(&b.s);
}

static void one_thread_per_core(void **state) {
    Board b;
    new_board(&b, "0-7", "0-7\n");
    for (int i = 0; i < 8; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d,%d\n", i % 4, i % 4 + 4);
        put_cpu(&b, i, "topology/thread_siblings_list", text);
        put_number(&b, i, "cpufreq/cpuinfo_max_freq", 5000000 - i % 4 * 100000); /* favoured cores are no class */
    }
    assert_int_equal(th_cpu_threads_in(b.s.dir), 4);
    assert_int_equal(th_cpu_allowed_in(b.s.dir), 8);
    set_allowed(&b, "4-7"); /* second threads only: still four cores */
    assert_int_equal(th_cpu_threads_in(b.s.dir), 4);
    set_allowed(&b, "0,4");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 1);
    th_scratch_close(&b.s);
}

static void offline_and_odd_lists(void **state) {
    const struct {
        const char *allowed, *online;
        int n;
    } lists[] = {{"0-127", "0-3\n", 4},        {"0-3", "0,2-3\n", 3},        {"5", "0-7\n", 1},
                 {"0-4294967295", "0-1\n", 2}, {"4095-5000", "0-9999\n", 1}, {"3-1,0", "0-3\n", 1},
                 {"0-1,64-65", "0-127\n", 4}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        Board b;
        new_board(&b, lists[i].allowed, lists[i].online);
        assert_int_equal(th_cpu_threads_in(b.s.dir), lists[i].n);
        th_scratch_close(&b.s);
    }
    Board b; /* nothing readable: what the C library knows */
    th_scratch_open(&b.s);
    assert_int_equal(th_cpu_allowed_in(b.s.dir), sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(th_cpu_threads_in(b.s.dir), sysconf(_SC_NPROCESSORS_ONLN));
    th_scratch_close(&b.s);
}

static void quota_of_version_2(void **state) {
    Board b;
    new_board(&b, "0-7", "0-7\n");
    put(&b, "proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    put(&b, "proc/self/cgroup", "0::/user.slice/job\n");
    put(&b, "sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 8);
    put(&b, "sys/fs/cgroup/user.slice/cpu.max", "350000 100000\n"); /* an ancestor: three whole ones */
    assert_int_equal(th_cpu_threads_in(b.s.dir), 3);
    put(&b, "sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n"); /* half a processor: one thread */
    assert_int_equal(th_cpu_threads_in(b.s.dir), 1);
    put(&b, "sys/fs/cgroup/user.slice/job/cpu.max", "99999999999999999999999 0\n");
    put(&b, "sys/fs/cgroup/user.slice/cpu.max", "200000 0\n"); /* nonsense is no limit */
    assert_int_equal(th_cpu_threads_in(b.s.dir), 8);
    th_scratch_close(&b.s);
}

static void quota_of_version_1(void **state) {
    Board b;
    new_board(&b, "0-7", "0-7\n");
    put(&b, "proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n");
    put(&b, "proc/self/cgroup", "4:cpuset:/other\n3:cpu,cpuacct:/docker/abc\n");
    put(&b, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
    put(&b, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 8);
    put(&b, "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "200000\n");
    put(&b, "sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "100000\n");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 2);
    put(&b, "sys/fs/cgroup/cpuset/other/cpu.cfs_quota_us", "100000\n"); /* not the hierarchy of cpu */
    put(&b, "sys/fs/cgroup/cpuset/other/cpu.cfs_period_us", "100000\n");
    assert_int_equal(th_cpu_threads_in(b.s.dir), 2);
    th_scratch_close(&b.s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_masks),        cmocka_unit_test(this_machine),
        cmocka_unit_test(agrees_with_the_kernel), cmocka_unit_test(big_little),
        cmocka_unit_test(classes_by_frequency),   cmocka_unit_test(one_thread_per_core),
        cmocka_unit_test(offline_and_odd_lists),  cmocka_unit_test(quota_of_version_2),
        cmocka_unit_test(quota_of_version_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
