/* check.c: see check.h. The C kernel is compared with binary64 arithmetic on dequantised weights, all others with C bit
 * by bit. */
#include "kernel/check.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/rng.h"
#include "os/cpu.h"

/* ---- small things ------------------------------------------------------------------------------------------------ */

static char now_running[200]; /* for the signal handler */

void check_now(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(now_running, sizeof now_running, format, args);
    va_end(args);
}

static void on_fault(int number) {
    static const char words[] = "not ok - touched memory outside of its arguments: ";
    (void)number;
    if (write(1, words, sizeof words - 1) < 0 || write(1, now_running, strlen(now_running)) < 0) _exit(2);
    _exit(write(1, "\n", 1) == 1 ? 1 : 2);
}

static size_t slack; /* bytes between an argument and its red zone: 0 wherever processors are real */

/* One float at the end of a page as the memory operand of a scalar FMA: qemu before 8 reads 16 bytes there. A child
 * tries, for it may die of it. */
static bool scalar_fma_reads_beyond(void) {
    bool dies = false;
#ifdef __x86_64__
    if (!(th_cpu_isa() & ISA_AVX2)) return false;
    Guarded g = guarded_alloc(sizeof(float), true);
    float *at = g.data, sum = 1, two = 2;
    *at = 3;
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        __asm__ volatile("vfmadd231ss %1, %2, %0" : "+x"(sum) : "m"(*at), "x"(two));
        _exit(sum == 7 ? 0 : 1);
    }
    dies = child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
    guarded_free(&g);
#endif
    return dies;
}

void check_trap(Tap *tap) {
    if (scalar_fma_reads_beyond()) {
        slack = 12;
        printf("ok %d - # SKIP reads up to %zu bytes beyond an argument: the scalar FMA of this emulator reads 16\n",
               ++tap->n, slack);
    }
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

void tap_result(Tap *t, bool good, const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("%s %d - ", good ? "ok" : "not ok", ++t->n);
    vprintf(format, args);
    putchar('\n');
    fflush(stdout);
    va_end(args);
    if (!good) t->failed++;
}

bool check_same_bits(float a, float b) { return th_f32_bits(a) == th_f32_bits(b) || (isnan(a) && isnan(b)); }

uint64_t check_hash(uint64_t hash, const float *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = isnan(v[i]) ? 0x7FC00000 : th_f32_bits(v[i]);
        for (int byte = 0; byte < 4; byte++) hash = (hash ^ (bits >> 8 * byte & 255)) * 0x100000001B3u;
    }
    return hash;
}

int check_isas(IsaSet out[MAX_ISA_SETS]) {
    static const char *const words[] = {"c", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "dotprod", "i8mm"};
    unsigned have = th_cpu_isa(), mask;
    int n = 0;
    for (size_t i = 0; i < TH_COUNT(words); i++) {
        if (!th_cpu_parse_isa(words[i], &mask) || (have & mask) != mask) continue;
        out[n].mask = mask;
        snprintf(out[n++].name, sizeof out[0].name, "%s", words[i]);
    }
    return n;
}

enum { UNTOUCHED = 0xA5 };

Guarded guarded_alloc(size_t bytes, bool at_end) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + slack + (bytes == 0) + page - 1) / page * page;
    Guarded g = {.map_bytes = inner + 2 * page, .slack = at_end ? slack : 0};
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect((char *)g.map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        printf("Bail out! no memory\n");
        exit(2);
    }
    g.data = (char *)g.map + page + (at_end ? inner - slack - bytes : 0);
    memset((char *)g.map + page + inner - g.slack, UNTOUCHED, g.slack);
    return g;
}

void guarded_free(Guarded *g) {
    if (g->map) {
        const unsigned char *end = (unsigned char *)g->map + g->map_bytes - (size_t)sysconf(_SC_PAGESIZE);
        for (size_t i = 1; i <= g->slack; i++)
            if (*(end - i) != UNTOUCHED) on_fault(SIGSEGV);
        munmap(g->map, g->map_bytes);
    }
    *g = (Guarded){0};
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

uint16_t check_scale(Pattern p, uint64_t rng[4]) {
    uint64_t r = th_rng_next(rng);
    uint16_t sign = (uint16_t)((r & 1) << 15);
    if (p == PATTERN_MIXED) p = (Pattern)(r >> 8 & 7);
    switch ((int)p) {
    case PATTERN_ONES: return 0x7BFF;
    case PATTERN_SIGN: return 0xFBFF;
    case PATTERN_ZERO: return sign;
    case PATTERN_SUBNORMAL: return (uint16_t)(sign | (r >> 16 & 0x3FF));
    default: return (uint16_t)(sign | ((5 << 10) + (r >> 16 & 0x1FFF))); /* 2^-10 .. 2^-2 */
    }
}

static void fill_block(uint8_t *block, const CheckType *c, const TypeInfo *info, Pattern p, uint64_t rng[4]) {
    static const uint8_t stripes[4] = {0x55, 0xAA, 0x0F, 0x7F};
    uint8_t stripe = stripes[th_rng_next(rng) & 3];
    for (uint32_t i = 0; i < info->bytes; i++) {
        switch ((int)p) {
        case PATTERN_ONES: block[i] = 0xFF; break;
        case PATTERN_SIGN: block[i] = 0x80; break;
        case PATTERN_ZERO: block[i] = 0; break;
        case PATTERN_STRIPES: block[i] = stripe; break;
        default: block[i] = (uint8_t)(th_rng_next(rng) >> 32);
        }
    }
    if (p == PATTERN_ZERO) return;
    for (int h = 0; h < c->n_halves; h++) {
        uint16_t scale = check_scale(p, rng);
        memcpy(block + c->half_at[h], &scale, 2);
    }
    if (c->fix) c->fix(block, p, rng);
}

/* Activation rows; the kind changes from token to token so that one product meets all of them. */
static void fill_row(float *x, int cols, int kind, uint64_t rng[4]) {
    for (int i = 0; i < cols; i++) {
        float u = (float)(2 * th_rng_unit(rng) - 1);
        switch (kind % 7) {
        case 0: x[i] = u * 3; break;
        case 1: x[i] = 1000; break; /* all codes 127 */
        case 2: x[i] = th_rng_next(rng) & 1 ? 1.5f : -1.5f; break;
        case 3: x[i] = i / 256 % 2 ? u * 1e-20f : 0; break; /* empty blocks */
        case 4: x[i] = i % 97 == 5 ? u * 300 : u * 0.01f; break;
        case 5: x[i] = i == cols / 2 ? NAN : u; break; /* must reach the result */
        default: x[i] = -2;
        }
    }
}

/* ---- one product ------------------------------------------------------------------------------------------------- */

typedef struct Case {
    const CheckType *c;
    const TypeInfo *info;
    Pattern pattern;
    int cols, rows, T;
    bool at_end;
    size_t stride, x_stride, y_stride;
    Guarded w, x;
    float *want, *got; /* [T][y_stride], margins of MARGIN before and after */
} Case;
enum { MARGIN = 16 };
static const float poison = -12345.678f;

static size_t y_count(const Case *k) { return (size_t)k->T * k->y_stride + 2 * MARGIN; }

static void open_case(Case *k, ActForm form, void (*make)(void *, const float *, int), uint64_t rng[4]) {
    size_t row_bytes = (size_t)th_type_row_bytes(k->info, (uint64_t)k->cols);
    k->stride = row_bytes + (k->rows % 3 == 0 ? 5 : 0);
    k->x_stride = th_act_bytes(form, k->cols);
    k->y_stride = (size_t)k->rows + (k->T % 2 ? 0 : 3);
    k->w = guarded_alloc(k->stride * (size_t)(k->rows - 1) + row_bytes, k->at_end);
    k->x = guarded_alloc(k->x_stride * (size_t)k->T, true);
    for (int r = 0; r < k->rows; r++) {
        uint8_t *row = (uint8_t *)k->w.data + (size_t)r * k->stride;
        for (size_t at = 0; at < row_bytes; at += k->info->bytes) fill_block(row + at, k->c, k->info, k->pattern, rng);
    }
    float *plain = malloc((size_t)k->cols * sizeof *plain);
    k->want = malloc(y_count(k) * sizeof(float));
    k->got = malloc(y_count(k) * sizeof(float));
    if (!plain || !k->want || !k->got) abort();
    for (int t = 0; t < k->T; t++) {
        fill_row(plain, k->cols, t + k->rows, rng);
        make((char *)k->x.data + (size_t)t * k->x_stride, plain, k->cols);
    }
    free(plain);
}

static void close_case(Case *k) {
    guarded_free(&k->w);
    guarded_free(&k->x);
    free(k->want);
    free(k->got);
}

static void multiply(const Case *k, const MatKernel *m, float *y) {
    for (size_t i = 0; i < y_count(k); i++) y[i] = poison;
    m->rows(y + MARGIN, k->y_stride, k->w.data, k->stride, k->x.data, k->x_stride, k->cols, k->rows, k->T);
}

/* Token by token through row1. */
static void multiply_singly(const Case *k, const MatKernel *m, float *y) {
    for (size_t i = 0; i < y_count(k); i++) y[i] = poison;
    for (int t = 0; t < k->T; t++) {
        const char *x = (const char *)k->x.data + (size_t)t * k->x_stride;
        m->row1(y + MARGIN + (size_t)t * k->y_stride, k->w.data, k->stride, x, k->cols, k->rows);
    }
}

static bool same_outputs(const Case *k, const char *what) {
    for (size_t i = 0; i < y_count(k); i++) {
        if (check_same_bits(k->want[i], k->got[i])) continue;
        long at = (long)i - MARGIN, stride = (long)k->y_stride;
        printf("# %s: %s, pattern %d, cols %d, rows %d, T %d: y[%ld][%ld]: expected %a, got %a\n", what, k->info->name,
               (int)k->pattern, k->cols, k->rows, k->T, at / stride, at % stride, (double)k->want[i],
               (double)k->got[i]);
        return false;
    }
    return true;
}

/* Value i of a prepared activation row. */
static double activation(ActForm form, const void *x, int cols, int i) {
    if (form == ACT_F32) return (double)((const float *)x)[i];
    return (double)th_act_q(x)[i] * (double)th_act_d(x, cols)[i / (form == ACT_Q8_K ? 256 : 32)];
}

/* 1e-6 of the sum of magnitudes, and what subnormal products of scales may lose. Where a weight is the difference of a
 * product and a minimum, the largest weight of the row stands for the magnitude of both. */
static bool near_dot(const Case *k, ActForm form, const float *w, const void *x, float got) {
    double sum = 0, magnitude = 0, largest = 0;
    for (int i = 0; i < k->cols; i++) largest = fmax(largest, fabs((double)w[i]));
    for (int i = 0; i < k->cols; i++) {
        double value = activation(form, x, k->cols, i), term = (double)w[i] * value;
        sum += term;
        magnitude += k->c->n_halves == 2 ? fabs(value) * largest : fabs(term);
    }
    if (isnan(sum) && isnan(got)) return true;
    if (magnitude >= 3e38) return true;
    if (fabs((double)got - sum) <= 1e-6 * magnitude + 1e-40 * k->cols) return true;
    printf("# C: %s, pattern %d, cols %d: expected %.9g, got %.9g, magnitude %g\n", k->info->name, (int)k->pattern,
           k->cols, sum, (double)got, magnitude);
    return false;
}

/* The C result against binary64 on dequantised weights; the margins untouched. */
static bool near_exact(const Case *k, ActForm form) {
    float *w = malloc((size_t)k->cols * sizeof *w);
    bool good = w != NULL;
    for (int r = 0; r < k->rows && good; r++) {
        k->info->dequantize(w, (const char *)k->w.data + (size_t)r * k->stride, (size_t)k->cols);
        for (int t = 0; t < k->T && good; t++) {
            const char *x = (const char *)k->x.data + (size_t)t * k->x_stride;
            good = near_dot(k, form, w, x, k->want[MARGIN + (size_t)t * k->y_stride + (size_t)r]);
        }
    }
    free(w);
    for (size_t i = 0; i < y_count(k); i++) {
        size_t column = (i - MARGIN) % k->y_stride;
        bool inside = i >= MARGIN && i < y_count(k) - MARGIN && column < (size_t)k->rows;
        if (!inside && !check_same_bits(k->want[i], poison)) good = false;
    }
    return good;
}

/* ---- all products of a type -------------------------------------------------------------------------------------- */

static const int block_counts[] = {1, 2, 3, 5, 7, 9, 16, 33};
static const int float_cols[] = {1, 7, 31, 32, 33, 63, 100, 255, 256, 1027};

/* One type against all instruction sets. */
typedef struct TypeRun {
    const Kernels *table;
    const IsaSet *isas;
    int n_isas;
    bool good[MAX_ISA_SETS];
    uint64_t rng[4], hash;
} TypeRun;

static void run_case(TypeRun *run, Case k) {
    uint32_t type = k.c->type;
    const MatKernel *reference = run->table[0].mat[type];
    open_case(&k, reference->act, run->table[0].act[reference->act], run->rng);
    check_now("%s c, pattern %d, cols %d, rows %d, T %d", k.info->name, (int)k.pattern, k.cols, k.rows, k.T);
    multiply(&k, reference, k.want);
    run->hash = check_hash(run->hash, k.want, y_count(&k));
    run->good[0] &= near_exact(&k, reference->act);
    for (int i = 0; i < run->n_isas; i++) {
        const MatKernel *m = run->table[i].mat[type];
        if (m->act != reference->act) {
            printf("# %s asks for another activation form than C\n", m->origin);
            run->good[i] = false;
            continue;
        }
        check_now("%s %s, pattern %d, cols %d, rows %d, T %d", k.info->name, run->isas[i].name, (int)k.pattern, k.cols,
                  k.rows, k.T);
        multiply(&k, m, k.got);
        run->good[i] &= same_outputs(&k, run->isas[i].name);
        multiply_singly(&k, m, k.got);
        run->good[i] &= same_outputs(&k, "row1");
    }
    close_case(&k);
}

static void check_one_type(const CheckType *c, const Kernels *table, const IsaSet *isas, int n_isas, Tap *tap) {
    const TypeInfo *info = th_type_info(c->type);
    TypeRun run = {.table = table, .isas = isas, .n_isas = n_isas, .hash = CHECK_HASH};
    memset(run.good, true, sizeof run.good);
    th_rng_seed(run.rng, c->type + 1);
    int n_cols = info->block == 1 ? (int)TH_COUNT(float_cols) : (int)TH_COUNT(block_counts);
    for (int i = 0; i < n_cols; i++) {
        for (int p = 0; p < N_PATTERNS; p++) {
            Case k = {.c = c, .info = info, .pattern = (Pattern)p, .at_end = (i + p) % 4 != 0};
            k.cols = info->block == 1 ? float_cols[i] : block_counts[i] * (int)info->block;
            k.rows = 1 + (i * 5 + p * 2) % 9;
            k.T = 1 + (i * 3 + p * 4) % 9;
            run_case(&run, k);
        }
    }
    for (int shape = 0; shape < 81; shape++) {
        Case k = {.c = c, .info = info, .pattern = PATTERN_MIXED, .at_end = true};
        k.cols = info->block == 1 ? 96 + shape : 3 * (int)info->block;
        k.rows = 1 + shape / 9;
        k.T = 1 + shape % 9;
        run_case(&run, k);
    }
    /* Tiles of many tokens and rows. */
    Case large = {.c = c, .info = info, .at_end = true, .rows = 19, .T = 37};
    large.cols = info->block == 1 ? 300 : 2 * (int)info->block;
    run_case(&run, large);
    for (int i = 0; i < n_isas; i++)
        tap_result(tap, run.good[i], "%s, %s: %s", info->name, isas[i].name, table[i].mat[c->type]->origin);
    tap_result(tap, run.hash == c->hash, "%s, c: the bits of every machine (0x%016llxu)", info->name,
               (unsigned long long)run.hash);
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

double check_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best time of a product, repeated for about 0.3 s. */
static double time_product(const Case *k, const MatKernel *m, int rows, int T) {
    double best = 1e9, end = check_seconds() + 0.3;
    do {
        double start = check_seconds();
        if (T == 1)
            m->row1(k->got, k->w.data, k->stride, k->x.data, k->cols, rows);
        else
            m->rows(k->got, (size_t)rows, k->w.data, k->stride, k->x.data, k->x_stride, k->cols, rows, T);
        double took = check_seconds() - start;
        if (took < best) best = took;
    } while (check_seconds() < end);
    return best;
}

static void bench_type(const CheckType *c, const Kernels *table, const IsaSet *isas, int n_isas) {
    enum { COLS = 4096, ROWS = 4096, FEW = 256, TOKENS = 64 };
    uint64_t rng[4];
    th_rng_seed(rng, 1);
    Case k = {.c = c, .info = th_type_info(c->type), .cols = COLS, .rows = ROWS, .T = TOKENS, .at_end = true};
    const MatKernel *reference = table[0].mat[c->type];
    open_case(&k, reference->act, table[0].act[reference->act], rng);
    const char *last = "";
    for (int i = 0; i < n_isas; i++) {
        const MatKernel *m = table[i].mat[c->type];
        if (!strcmp(m->origin, last)) continue;
        last = m->origin;
        int rows = m == reference ? FEW : ROWS;
        double one = time_product(&k, m, rows, 1), many = time_product(&k, m, FEW, TOKENS);
        printf("%-8s %-18s T=1 %8.2f GB/s %8.2f GMAC/s   T=64 %8.2f GMAC/s\n", k.info->name, m->origin,
               (double)k.stride * rows / one * 1e-9, (double)COLS * rows / one * 1e-9,
               (double)COLS * FEW * TOKENS / many * 1e-9);
        fflush(stdout);
    }
    close_case(&k);
}

int check_main(int argc, char **argv, const CheckType *types, int n) {
    IsaSet isas[MAX_ISA_SETS];
    Kernels table[MAX_ISA_SETS];
    Tap tap = {0};
    unsigned wanted = ISA_ALL;
    const char *only = NULL;
    bool bench = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) {
            bench = true;
        } else if (!strcmp(argv[i], "--type") && i + 1 < argc) {
            only = argv[++i];
        } else if (strcmp(argv[i], "--isa") != 0 || i + 1 >= argc || !th_cpu_parse_isa(argv[++i], &wanted)) {
            fprintf(stderr, "usage: %s [--isa LIST] [--type NAME] [--bench]\n", argv[0]);
            return 2;
        }
    }
    int all = check_isas(isas), n_isas = 0;
    for (int i = 0; i < all; i++) {
        if ((isas[i].mask & ~wanted) != 0) continue;
        isas[n_isas] = isas[i];
        th_kernels_init(&table[n_isas++], isas[i].mask);
    }
    check_trap(&tap);
    for (int i = 0; i < n; i++) {
        if (only && strcmp(only, th_type_info(types[i].type)->name) != 0) continue;
        if (bench)
            bench_type(&types[i], table, isas, n_isas);
        else
            check_one_type(&types[i], table, isas, n_isas, &tap);
    }
    if (!bench) printf("1..%d\n", tap.n);
    return tap.failed ? 1 : 0;
}
