/* check_scan.c: recurrent memories and convolutions: every instruction set gives C's bits, whatever the number of
 * columns and however a run of tokens is cut; C itself is held to binary64. Every array ends at a page nobody may
 * touch. */
#include "kernel/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernel/fma.h"
#include "kernel/vec_math.h"

enum { MOST_KEYS = 128, MOST_T = 9, N_RULES = 3 };
static const char *const rule_names[N_RULES] = {"delta", "delta_keys", "add"};

static float unit(uint64_t rng[4]) { return (float)(2 * th_rng_unit(rng) - 1); }

/* One call's arrays; strides are wider than the rows so that a wrong one shows. */
typedef struct Case {
    ScanJob job;
    Guarded memory[7];
} Case;
enum { S, Q, K, V, A, BETA, O };

static float *filled(Guarded *g, size_t n, float low, float high, uint64_t rng[4]) {
    *g = guarded_alloc(n * sizeof(float), true);
    float *x = g->data;
    for (size_t i = 0; i < n; i++) x[i] = low + (high - low) * (float)th_rng_unit(rng);
    return x;
}

static void open_case(Case *c, int rule, int keys, int cols, int T, uint64_t seed, bool halves) {
    uint64_t rng[4];
    th_rng_seed(rng, seed);
    size_t k = (size_t)keys, w = (size_t)cols, t = (size_t)T - 1, a = rule == 1 ? k : 1;
    c->job = (ScanJob){.keys = keys,
                       .cols = cols,
                       .T = T,
                       .halves = halves,
                       .q_stride = k + 3,
                       .k_stride = k + 5,
                       .v_stride = w + 1,
                       .a_stride = a + 2,
                       .beta_stride = 3,
                       .o_stride = w + 4};
    c->job.s = filled(&c->memory[S], k * w, -1, 1, rng);
    c->job.q = filled(&c->memory[Q], t * (k + 3) + k, -0.3f, 0.3f, rng);
    c->job.k = filled(&c->memory[K], t * (k + 5) + k, -0.3f, 0.3f, rng);
    c->job.v = filled(&c->memory[V], t * (w + 1) + w, -2, 2, rng);
    c->job.a = filled(&c->memory[A], t * (a + 2) + a, 0.2f, 1, rng);
    c->job.beta = filled(&c->memory[BETA], t * 3 + 1, 0, 1, rng);
    if (halves) /* some beyond binary16's range, some near its smallest value */
        for (size_t i = 0; i < k * w; i++) c->job.s[i] *= i % 7 == 3 ? 1e6f : i % 7 == 5 ? 1e-7f : 1;
    c->job.o = filled(&c->memory[O], t * (w + 4) + w, -9, 9, rng);
}
static void close_case(Case *c) {
    for (int i = 0; i < 7; i++) guarded_free(&c->memory[i]);
}

static void run(const ScanKernel *k, int rule, const ScanJob *j) {
    (rule == 0 ? k->delta : rule == 1 ? k->delta_keys : k->add)(j);
}

/* The same job in pieces of `piece` tokens. */
static void run_cut(const ScanKernel *k, int rule, const ScanJob *j, int piece) {
    for (int t = 0; t < j->T; t += piece) {
        size_t at = (size_t)t;
        ScanJob part = *j;
        part.T = th_min_int(piece, j->T - t);
        part.q += at * j->q_stride, part.k += at * j->k_stride, part.v += at * j->v_stride, part.a += at * j->a_stride;
        part.beta += at * j->beta_stride, part.o += at * j->o_stride;
        run(k, rule, &part);
    }
}

static bool same(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!check_same_bits(a[i], b[i])) return false;
    return true;
}

static bool same_case(const Case *a, const Case *b) {
    const ScanJob *x = &a->job, *y = &b->job;
    return same(x->s, y->s, (size_t)(x->keys * x->cols)) &&
           same(x->o, y->o, (size_t)(x->T - 1) * x->o_stride + (size_t)x->cols);
}

static void check_rule(const ScanKernel *c, const ScanKernel *k, int rule, const char *isa, Tap *tap) {
    static const int all_keys[] = {1, 4, 16, 127, 128}, all_T[] = {1, 2, MOST_T};
    bool good = true;
    for (int cols = 1; cols <= SCAN_COLS; cols++)
        for (size_t i = 0; i < TH_COUNT(all_keys) * TH_COUNT(all_T); i++)
            for (int how = 0; how < 4; how++) {
                int piece = how & 1 ? 4 : 1;
                bool halves = how & 2;
                int keys = all_keys[i % TH_COUNT(all_keys)], T = all_T[i / TH_COUNT(all_keys)];
                Case want, got;
                open_case(&want, rule, keys, cols, T, i + 1, halves);
                open_case(&got, rule, keys, cols, T, i + 1, halves);
                check_now("%s %s, %d keys, %d columns, %d tokens%s", k->origin, rule_names[rule], keys, cols, T,
                          halves ? ", halves" : "");
                run(c, rule, &want.job);
                run_cut(k, rule, &got.job, piece);
                if (good && !same_case(&want, &got)) {
                    printf("# %d keys, %d columns, %d tokens by %d, halves %d differ\n", keys, cols, T, piece, halves);
                    good = false;
                }
                close_case(&want);
                close_case(&got);
            }
    tap_result(tap, good, "%s %s, %s", k->origin, rule_names[rule], isa);
}

/* C against the equations in binary64. */
static void check_equations(const ScanKernel *c, int rule, Tap *tap) {
    enum { KEYS = 32, COLS = 5, T = 6 };
    Case x;
    open_case(&x, rule, KEYS, COLS, T, 77, false);
    const ScanJob *j = &x.job;
    double s[KEYS][COLS], worst = 0, o[T][COLS];
    for (int i = 0; i < KEYS * COLS; i++) s[i / COLS][i % COLS] = (double)j->s[i];
    for (size_t t = 0; t < T; t++)
        for (int e = 0; e < COLS; e++) {
            double r = 0;
            for (int i = 0; i < KEYS; i++) {
                s[i][e] *= (double)j->a[t * j->a_stride + (rule == 1 ? (size_t)i : 0)];
                r += s[i][e] * (double)j->k[t * j->k_stride + (size_t)i];
            }
            double d =
                (double)j->beta[t * j->beta_stride] * ((double)j->v[t * j->v_stride + (size_t)e] - (rule == 2 ? 0 : r));
            o[t][e] = 0;
            for (int i = 0; i < KEYS; i++) {
                s[i][e] += (double)j->k[t * j->k_stride + (size_t)i] * d;
                o[t][e] += s[i][e] * (double)j->q[t * j->q_stride + (size_t)i];
            }
        }
    run(c, rule, j);
    for (size_t t = 0; t < T; t++)
        for (size_t e = 0; e < COLS; e++) worst = fmax(worst, fabs((double)j->o[t * j->o_stride + e] - o[t][e]));
    for (int i = 0; i < KEYS * COLS; i++) worst = fmax(worst, fabs((double)j->s[i] - s[i / COLS][i % COLS]));
    close_case(&x);
    tap_result(tap, worst < 2e-6, "%s follows its equations (%.2g)", rule_names[rule], worst);
}

/* ---- convolution and gate -------------------------------------------------------------------------------------------
 */

static bool same_conv(const ScanKernel *c, const ScanKernel *k, int n, int taps, int variant, uint64_t seed) {
    enum { MOST_TAPS = 16 };
    uint64_t rng[4];
    th_rng_seed(rng, seed);
    Guarded w, bias, y[2], x[MOST_TAPS];
    const float *rows[2][MOST_TAPS];
    filled(&w, (size_t)(n * taps), -1, 1, rng);
    filled(&bias, (size_t)n, -1, 1, rng);
    for (int i = 0; i < taps; i++) {
        rows[0][i] = rows[1][i] = filled(&x[i], (size_t)n, -2, 2, rng);
        if (i < taps - 1 && (variant & 1) && i % 2 == 0) rows[0][i] = rows[1][i] = NULL;
    }
    for (int i = 0; i < 2; i++) { /* in place of the newest row */
        y[i] = guarded_alloc((size_t)n * sizeof(float), true);
        memcpy(y[i].data, x[taps - 1].data, (size_t)n * sizeof(float));
        rows[i][taps - 1] = y[i].data;
    }
    check_now("%s conv, %d channels, %d taps", k->origin, n, taps);
    c->conv(y[0].data, rows[0], w.data, variant & 2 ? bias.data : NULL, n, taps, (variant & 4) != 0);
    k->conv(y[1].data, rows[1], w.data, variant & 2 ? bias.data : NULL, n, taps, (variant & 4) != 0);
    bool good = same(y[0].data, y[1].data, (size_t)n);
    for (int i = 0; i < taps; i++) guarded_free(&x[i]);
    guarded_free(&w), guarded_free(&bias), guarded_free(&y[0]), guarded_free(&y[1]);
    return good;
}

static void check_conv(const ScanKernel *c, const ScanKernel *k, const char *isa, Tap *tap) {
    static const int channels[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 250, 256}, taps[] = {1, 2, 3, 4, 5, 16};
    bool good = true;
    for (size_t i = 0; i < TH_COUNT(channels); i++)
        for (size_t t = 0; t < TH_COUNT(taps); t++)
            for (int variant = 0; variant < 8; variant++) {
                bool ok = same_conv(c, k, channels[i], taps[t], variant, i * 100 + t);
                if (!ok) printf("# conv: %d channels, %d taps, variant %d differ\n", channels[i], taps[t], variant);
                good &= ok;
            }
    tap_result(tap, good, "%s conv, %s", k->origin, isa);
}

static void check_gate(const ScanKernel *c, const ScanKernel *k, const char *isa, Tap *tap) {
    bool good = true;
    for (int n = 1; n < 70; n++) {
        uint64_t rng[4];
        th_rng_seed(rng, (uint64_t)n);
        Guarded gate, y[2];
        float *g = filled(&gate, (size_t)n, -100, 100, rng);
        if (n > 2) g[0] = INFINITY, g[1] = NAN, g[2] = -INFINITY;
        for (int i = 0; i < 2; i++) {
            th_rng_seed(rng, 5);
            filled(&y[i], (size_t)n, -3, 3, rng);
        }
        check_now("%s sigmoid_mul, n %d", k->origin, n);
        c->sigmoid_mul(y[0].data, g, n);
        k->sigmoid_mul(y[1].data, g, n);
        good &= same(y[0].data, y[1].data, (size_t)n);
        guarded_free(&gate), guarded_free(&y[0]), guarded_free(&y[1]);
    }
    tap_result(tap, good, "%s sigmoid_mul, %s", k->origin, isa);
}

static void check_math(const ScanKernel *c, Tap *tap) {
    float y[3] = {2, 2, 2}, gate[3] = {0, 700, -700}, out[1];
    c->sigmoid_mul(y, gate, 3);
    tap_result(tap, y[0] == 1 && y[1] == 2 && y[2] == 0, "sigmoid_mul at its ends");
    float w[3] = {0.5f, 0.25f, 2}, rows[3] = {4, 8, 3}, bias = 1;
    c->conv(out, (const float *[]){&rows[0], &rows[1], &rows[2]}, w, &bias, 1, 3, false);
    tap_result(tap, out[0] == 11, "conv: the last tap is the current token");
}

/* ---- speed ----------------------------------------------------------------------------------------------------------
 */

/* Nanoseconds per token of one block of 128 keys and 32 columns, and of 256 channels. */
static void bench(const ScanKernel *k) {
    Case x;
    for (int kind = 0; kind < 2 * N_RULES; kind++)
        for (int T = 1; T <= MOST_T; T += MOST_T - 1) {
            int rule = kind / 2, halves = kind % 2;
            double best = 1e9;
            open_case(&x, rule, MOST_KEYS, SCAN_COLS, T, 3, halves);
            for (int i = 0; i < 400; i++) {
                double start = check_seconds();
                for (int n = 0; n < 20; n++) run(k, rule, &x.job);
                best = fmin(best, (check_seconds() - start) / 20);
            }
            close_case(&x);
            printf("%-12s %-12s %s T %d %8.0f ns per token\n", k->origin, rule_names[rule], halves ? "f16" : "f32", T,
                   best * 1e9 / T);
        }
    uint64_t rng[4];
    th_rng_seed(rng, 1);
    static float w[1024], rows[1024], y[256];
    for (int i = 0; i < 1024; i++) w[i] = unit(rng), rows[i] = unit(rng);
    double best = 1e9;
    for (int i = 0; i < 400; i++) {
        double start = check_seconds();
        for (int n = 0; n < 20; n++)
            k->conv(y, (const float *[]){rows, rows + 256, rows + 512, rows + 768}, w, NULL, 256, 4, true);
        best = fmin(best, (check_seconds() - start) / 20);
    }
    printf("%-12s %-12s     %8.0f ns per token\n", k->origin, "conv 256", best * 1e9);
}

int main(int argc, char **argv) {
    IsaSet isas[MAX_ISA_SETS];
    int n = check_isas(isas);
    Kernels c;
    Tap tap = {0};
    bool measure = argc > 1 && !strcmp(argv[1], "--bench");
    check_trap(&tap);
    th_kernels_init(&c, ISA_C);
    for (int i = 0; i < n; i++) {
        Kernels k;
        th_kernels_init(&k, isas[i].mask);
        if (measure) {
            bench(&k.scan);
            continue;
        }
        for (int rule = 0; rule < N_RULES; rule++) check_rule(&c.scan, &k.scan, rule, isas[i].name, &tap);
        check_conv(&c.scan, &k.scan, isas[i].name, &tap);
        check_gate(&c.scan, &k.scan, isas[i].name, &tap);
    }
    if (measure) return 0;
    for (int rule = 0; rule < N_RULES; rule++) check_equations(&c.scan, rule, &tap);
    check_math(&c.scan, &tap);
    printf("1..%d\n", tap.n);
    return tap.failed ? 1 : 0;
}
