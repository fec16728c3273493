/* cpu.c: instruction sets as the processor and the system both allow them, and how many threads are worth it.
 *
 * A little core or a second thread of a busy core slows every barrier down, and more threads than a CPU quota allows
 * get the whole process stopped for the rest of each period. So: one thread per physical core, of the fast class only,
 * within the quota. All of it is read from text files of the kernel, so a test can put a big.LITTLE board into a
 * folder. */
#include "os/cpu.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/cgroup.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* ---- instruction sets -------------------------------------------------------------------------------------------- */

typedef struct IsaWord {
    const char *word;
    unsigned bit, needs;
} IsaWord;

/* Ascending. `needs` holds all that the set stands on. */
static const IsaWord isa_words[] = {
    {"c", ISA_C, 0},
    {"avx2", ISA_AVX2, ISA_C},
    {"avxvnni", ISA_AVXVNNI, ISA_C | ISA_AVX2},
    {"avx512", ISA_AVX512, ISA_C | ISA_AVX2},
    {"avx512vnni", ISA_AVX512VNNI, ISA_C | ISA_AVX2 | ISA_AVX512},
    {"neon", ISA_NEON, ISA_C},
    {"dotprod", ISA_DOTPROD, ISA_C | ISA_NEON},
    {"i8mm", ISA_I8MM, ISA_C | ISA_NEON | ISA_DOTPROD},
};

/* A set without what it stands on is of no use: kernels rely on it. */
static unsigned keep_founded(unsigned mask) {
    unsigned kept = 0;
    for (size_t i = 0; i < TH_COUNT(isa_words); i++)
        if ((mask & isa_words[i].bit) != 0 && (kept & isa_words[i].needs) == isa_words[i].needs)
            kept |= isa_words[i].bit;
    return kept;
}

#if defined(__x86_64__) || defined(__i386__)
static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static bool all_set(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

unsigned th_cpu_isa(void) {
    unsigned a, b, c, d, b7, c7, d7, a71, b71, c71, d71, mask = ISA_C;
    const unsigned fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const unsigned bmi = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8;
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* F, DQ, CD, BW, VL */
    const uint64_t ymm = 0x6, zmm = 0xE6;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all_set(c, fma | osxsave | avx | f16c)) return mask;
    /* The system must save the wide registers, or the instructions fault. */
    uint64_t state = enabled_state();
    if (!all_set(state, ymm) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d7)) return mask;
    unsigned subleaves = a;
    if (all_set(b7, bmi | avx2 | bmi2)) mask |= ISA_AVX2;
    if (subleaves >= 1 && __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71) && (a71 & 1u << 4) != 0) mask |= ISA_AVXVNNI;
    if (all_set(b7, avx512) && all_set(state, zmm)) {
        mask |= ISA_AVX512;
        if ((c7 & 1u << 11) != 0) mask |= ISA_AVX512VNNI;
    }
    return keep_founded(mask);
}
#elif defined(__aarch64__)
unsigned th_cpu_isa(void) {
    unsigned mask = ISA_C | ISA_NEON; /* part of the base architecture */
#ifdef __linux__
    /* Bits of the kernel's interface, spelled out: old headers lack the second word. */
    const unsigned long atomics = 1ul << 8, asimdrdm = 1ul << 12, asimddp = 1ul << 20, i8mm = 1ul << 13;
    unsigned long has = getauxval(AT_HWCAP), has2 = getauxval(AT_HWCAP2);
    /* Files of these sets are compiled for armv8.2: the compiler may use anything of it. */
    if ((has & (atomics | asimdrdm | asimddp)) == (atomics | asimdrdm | asimddp)) {
        mask |= ISA_DOTPROD;
        if ((has2 & i8mm) != 0) mask |= ISA_I8MM;
    }
#endif
    return keep_founded(mask);
}
#else
unsigned th_cpu_isa(void) { return keep_founded(ISA_C); }
#endif

bool th_cpu_parse_isa(const char *list, unsigned *mask) {
    unsigned found = ISA_C;
    for (const char *p = list;; p++) {
        size_t len = strcspn(p, ","), i = 0;
        while (i < TH_COUNT(isa_words) && (strlen(isa_words[i].word) != len || strncmp(isa_words[i].word, p, len) != 0))
            i++;
        if (i == TH_COUNT(isa_words)) return false;
        found |= isa_words[i].bit | isa_words[i].needs;
        p += len;
        if (*p == 0) break;
    }
    *mask = found;
    return true;
}

void th_cpu_isa_names(unsigned mask, char *out, size_t cap) {
    size_t at = 0;
    if (cap) out[0] = 0;
    for (size_t i = 0; i < TH_COUNT(isa_words); i++) {
        if ((mask & isa_words[i].bit) == 0 || at >= cap) continue;
        int n = snprintf(out + at, cap - at, "%s%s", at ? "," : "", isa_words[i].word);
        if (n > 0) at += (size_t)n;
    }
}

/* ---- cores ------------------------------------------------------------------------------------------------------- */

enum { MAX_CPUS = 4096 };
typedef struct CpuSet {
    uint64_t bits[MAX_CPUS / 64];
} CpuSet;

static bool has_cpu(const CpuSet *s, unsigned cpu) {
    return cpu < MAX_CPUS && (s->bits[cpu / 64] >> cpu % 64 & 1) != 0;
}
static void add_cpu(CpuSet *s, unsigned cpu) { s->bits[cpu / 64] |= (uint64_t)1 << cpu % 64; }

static unsigned parse_cpu(const char **p) {
    unsigned n = 0;
    for (; **p >= '0' && **p <= '9'; ++*p)
        if (n < MAX_CPUS) n = n * 10 + (unsigned)(**p - '0');
    return n;
}

/* "0-3,8,10-11\n" */
static void parse_cpu_list(const char *p, CpuSet *out) {
    *out = (CpuSet){0};
    while (*p >= '0' && *p <= '9') {
        unsigned first = parse_cpu(&p), last = first;
        if (*p == '-') {
            p++;
            last = parse_cpu(&p);
        }
        for (unsigned cpu = first; cpu <= last && cpu < MAX_CPUS; cpu++) add_cpu(out, cpu);
        if (*p == ',') p++;
    }
}

/* Processors that are online and that affinity (taskset, cpuset groups) leaves us; false if nothing is told. */
static bool allowed_cpus(const char *root, CpuSet *out) {
    char text[4096];
    CpuSet online;
    const char *key = "\nCpus_allowed_list:";
    if (!th_text_read(root, "/proc/self/status", text, sizeof text)) return false;
    const char *list = strstr(text, key);
    if (!list) return false;
    list += strlen(key);
    parse_cpu_list(list + strspn(list, " \t"), out);
    if (!th_text_read(root, "/sys/devices/system/cpu/online", text, sizeof text)) return false;
    parse_cpu_list(text, &online);
    uint64_t any = 0;
    for (size_t i = 0; i < TH_COUNT(out->bits); i++) any |= out->bits[i] &= online.bits[i];
    return any != 0;
}

static int count_cpus(const CpuSet *s) {
    int n = 0;
    for (size_t i = 0; i < TH_COUNT(s->bits); i++) n += __builtin_popcountll(s->bits[i]);
    return n;
}

static bool cpu_number(const char *root, unsigned cpu, const char *file, uint64_t *out) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, file);
    return th_text_number(root, path, out);
}

/* Only the first thread of each core stays. */
static void keep_cores(const char *root, CpuSet *s) {
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++) {
        char path[128], text[512];
        CpuSet siblings;
        if (!has_cpu(s, cpu)) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        if (!th_text_read(root, path, text, sizeof text)) continue;
        parse_cpu_list(text, &siblings);
        for (size_t i = 0; i < TH_COUNT(s->bits); i++) s->bits[i] &= ~siblings.bits[i];
        add_cpu(s, cpu);
    }
}

/* Only cores near the fastest stay. Capacities tell classes apart by what they compute (a big core of 800 next to a
 * prime one of 1024 is worth its thread, a little one of 400 is not); frequencies are closer to each other than what
 * they mean. */
static void keep_fast(const char *root, CpuSet *s, const char *file, unsigned percent) {
    uint64_t best = 0, value;
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (has_cpu(s, cpu) && cpu_number(root, cpu, file, &value) && value > best) best = value;
    for (unsigned cpu = 0; cpu < MAX_CPUS; cpu++)
        if (has_cpu(s, cpu) && cpu_number(root, cpu, file, &value) && value < best / 100 * percent)
            s->bits[cpu / 64] &= ~((uint64_t)1 << cpu % 64);
}

/* Whole processors that the quota of one group pays for; the smallest counts. */
static void visit_quota(void *arg, const char *root, const char *dir, int version) {
    char path[1100], text[64];
    uint64_t quota, period;
    if (version == 2) { /* "200000 100000" or "max 100000" */
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!th_text_number(root, path, &quota) || !th_text_read(root, path, text, sizeof text)) return;
        const char *second = strchr(text, ' ');
        if (!second || !th_text_parse(second + 1, &period)) return;
    } else {
        snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", dir); /* -1 is none: no number */
        if (!th_text_number(root, path, &quota)) return;
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        if (!th_text_number(root, path, &period)) return;
    }
    int *least = arg;
    uint64_t cpus = period ? quota / period : 0;
    if (period && cpus < (uint64_t)*least) *least = cpus ? (int)cpus : 1;
}

int th_cpu_allowed_in(const char *root) {
    CpuSet s;
    if (allowed_cpus(root, &s)) return count_cpus(&s);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < MAX_CPUS ? (int)online : 1;
}

int th_cpu_threads_in(const char *root) {
    CpuSet s;
    int threads = th_cpu_allowed_in(root);
    if (allowed_cpus(root, &s)) {
        keep_cores(root, &s);
        keep_fast(root, &s, "cpu_capacity", 60);
        keep_fast(root, &s, "cpufreq/cpuinfo_max_freq", 80);
        threads = count_cpus(&s);
    }
    th_cgroup_each(root, "cpu", visit_quota, &threads);
    return threads > 1 ? threads : 1;
}

int th_cpu_threads(void) { return th_cpu_threads_in(""); }
int th_cpu_allowed(void) { return th_cpu_allowed_in(""); }
