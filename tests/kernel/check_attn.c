/* check_attn.c: attention's products and the router's of every instruction set against the C kernels: equal bits for
 * odd head sizes, query and row counts, with nothing read or written beyond what the contract names. --bench: GMAC/s.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "kernel/check.h"

enum { MOST_Q = 19, S_STRIDE = 40, N_FUNCTIONS = 5 };
static const char *const names[N_FUNCTIONS] = {"turn_f16", "turn_f32", "scores", "weigh", "plain_dots"};

typedef struct Case {
    int n, n_q, rows;
    uint64_t rng[4];
} Case;

static Guarded random_floats(Case *c, size_t n, bool at_end) {
    Guarded g = guarded_alloc(n * sizeof(float), at_end);
    for (size_t i = 0; i < n; i++) {
        float f = (float)(th_rng_unit(c->rng) * 2 - 1);
        if (th_rng_next(c->rng) % 16 == 0) f *= 0x1p60f; /* sums that cancel: any other order would show */
        ((float *)g.data)[i] = f;
    }
    return g;
}

static Guarded random_halves(Case *c, size_t n, bool at_end) {
    Guarded g = guarded_alloc(n * sizeof(uint16_t), at_end);
    for (size_t i = 0; i < n; i++) ((uint16_t *)g.data)[i] = (uint16_t)th_rng_next(c->rng);
    return g;
}

static bool same_floats(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!check_same_bits(a[i], b[i])) return false;
    return true;
}

/* Runs one function of a table on inputs that depend on the case alone; the output is a Guarded of *n_out floats. */
static Guarded run(const Kernels *table, int function, Case c, bool at_end, size_t *n_out) {
    const AttnKernel *k = &table->attn;
    size_t n = (size_t)c.n, rows = (size_t)c.rows, n_q = (size_t)c.n_q;
    Guarded in = {0}, other = {0}, out;
    switch (function) {
    case 0:
    case 1:
        in = function == 0 ? random_halves(&c, rows * n, at_end) : random_floats(&c, rows * n, at_end);
        out = guarded_alloc((*n_out = n * ATTN_CHUNK) * sizeof(float), at_end);
        if (function == 0) k->turn_f16(out.data, in.data, c.rows, c.n);
        else k->turn_f32(out.data, in.data, c.rows, c.n);
        break;
    case 2:
        in = random_floats(&c, n_q * n, at_end);
        other = random_floats(&c, n * ATTN_CHUNK, at_end);
        out = random_floats(&c, *n_out = (n_q - 1) * S_STRIDE + ATTN_CHUNK, at_end);
        k->scores(out.data, S_STRIDE, in.data, c.n_q, other.data, c.n);
        break;
    case 4:
        in = random_floats(&c, n_q * n, at_end);
        other = random_floats(&c, n, at_end);
        out = guarded_alloc((*n_out = n_q) * sizeof(float), at_end);
        table->vec.plain_dots(out.data, in.data, c.n_q, other.data, c.n);
        break;
    default:
        in = random_floats(&c, (n_q - 1) * S_STRIDE + rows, at_end);
        other = random_floats(&c, rows * n, at_end);
        out = random_floats(&c, *n_out = n_q * n, at_end);
        k->weigh(out.data, in.data, S_STRIDE, c.n_q, other.data, c.rows, c.n);
    }
    guarded_free(&in);
    guarded_free(&other);
    return out;
}

static bool check_case(const Kernels *want, const Kernels *got, int function, const Case *c) {
    bool good = true;
    for (int at_end = 0; at_end < 2; at_end++) {
        size_t n_want, n_got;
        check_now("%s of %s, n %d, queries %d, rows %d", names[function], got->attn.origin, c->n, c->n_q, c->rows);
        Guarded a = run(want, function, *c, at_end != 0, &n_want), b = run(got, function, *c, at_end != 0, &n_got);
        good &= n_want == n_got && same_floats(a.data, b.data, n_want);
        guarded_free(&a);
        guarded_free(&b);
    }
    return good;
}

static void check_table(const Kernels *want, const Kernels *got, const char *isa, Tap *tap) {
    static const int sizes[] = {1, 2, 8, 12, 16, 20, 31, 32, 64, 72, 80, 96, 100, 128, 192, 256};
    static const int rows[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32};
    for (int f = 0; f < N_FUNCTIONS; f++) {
        bool good = true;
        for (size_t i = 0; i < TH_COUNT(sizes); i++)
            for (int j = 0; j < MOST_Q; j++) {
                Case c = {.n = sizes[i], .n_q = j + 1, .rows = rows[(size_t)j % TH_COUNT(rows)]};
                th_rng_seed(c.rng, (uint64_t)(i * 100 + (size_t)j));
                good &= check_case(want, got, f, &c);
            }
        tap_result(tap, good, "%s, %s: %s", names[f], isa, got->attn.origin);
    }
}

/* The C table against the plainest loops there are. */
static void check_definition(const AttnKernel *k, Tap *tap) {
    enum { N = 5, Q = 2, ROWS = 3 };
    float q[Q * N], kt[N * ATTN_CHUNK], rows[ROWS * N], s[Q * S_STRIDE], acc[Q * N] = {0};
    bool good = true;
    for (int i = 0; i < Q * N; i++) q[i] = (float)(i - 4);
    for (int i = 0; i < ROWS * N; i++) rows[i] = (float)(i * i - 20);
    k->turn_f32(kt, rows, ROWS, N);
    for (int d = 0; d < N; d++)
        for (int r = 0; r < ATTN_CHUNK; r++) good &= kt[d * ATTN_CHUNK + r] == (r < ROWS ? rows[r * N + d] : 0);
    k->scores(s, S_STRIDE, q, Q, kt, N);
    k->weigh(acc, q, N, Q, rows, ROWS, N);
    for (int i = 0; i < Q; i++) {
        for (int r = 0; r < ROWS; r++) {
            float sum = 0;
            for (int d = 0; d < N; d++) sum += q[i * N + d] * rows[r * N + d];
            good &= s[i * S_STRIDE + r] == sum;
        }
        for (int d = 0; d < N; d++) {
            float sum = 0;
            for (int r = 0; r < ROWS; r++) sum += q[i * N + r] * rows[r * N + d];
            good &= acc[i * N + d] == sum;
        }
    }
    tap_result(tap, good, "the C table says what kernel.h says");
}

static void bench(const AttnKernel *k) {
    enum { N = 128, Q = 32 };
    static float q[Q * N], kt[N * ATTN_CHUNK], s[Q * ATTN_CHUNK], acc[Q * N];
    static uint16_t half[ATTN_CHUNK * N];
    double start = check_seconds(), turn, scores, weigh;
    int rounds = 20000;
    for (int i = 0; i < rounds; i++) k->turn_f16(kt, half, ATTN_CHUNK, N);
    turn = check_seconds() - start, start = check_seconds();
    for (int i = 0; i < rounds; i++) k->scores(s, ATTN_CHUNK, q, Q, kt, N);
    scores = check_seconds() - start, start = check_seconds();
    for (int i = 0; i < rounds; i++) k->weigh(acc, s, ATTN_CHUNK, Q, kt, ATTN_CHUNK, N);
    weigh = check_seconds() - start;
    double mac = (double)rounds * N * ATTN_CHUNK * 1e-9;
    printf("%-12s turn %6.2f elements/ns, scores %6.1f GMAC/s, weigh %6.1f GMAC/s\n", k->origin, mac / turn,
           mac * Q / scores, mac * Q / weigh);
}

int main(int argc, char **argv) {
    IsaSet isas[MAX_ISA_SETS];
    int n = check_isas(isas);
    bool measure = argc > 1 && !strcmp(argv[1], "--bench");
    Kernels c;
    Tap tap = {0};
    check_trap(&tap);
    th_kernels_init(&c, ISA_C);
    if (!measure) check_definition(&c.attn, &tap);
    for (int i = measure ? 0 : 1; i < n; i++) {
        Kernels k;
        th_kernels_init(&k, isas[i].mask);
        if (measure) bench(&k.attn);
        else check_table(&c, &k, isas[i].name, &tap);
    }
    if (measure) return 0;
    printf("1..%d\n", tap.n);
    return tap.failed ? 1 : 0;
}
