/* check_vec.c: vector functions, activation makers and the fused multiply-add of the C kernels.
 *
 * Other instruction sets must give C's bits; C itself is held to binary64 arithmetic of libm. Every array ends at a
 * page nobody may touch and begins at an odd multiple of its element. */
#include "kernel/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "kernel/fma.h"
#include "kernel/vec_math.h"

enum { MAX_N = 2100 };
static const int lengths[] = {0,  1,  2,  3,  7,   8,   9,   15,  16,  17,  31,   32,  33,
                              48, 63, 64, 65, 100, 127, 128, 129, 255, 256, 1000, 2049};

static float unit(uint64_t rng[4]) { return (float)(2 * th_rng_unit(rng) - 1); }

/* Values by turns ordinary, large, tiny and special. */
static float any_float(uint64_t rng[4], bool special) {
    static const float specials[] = {0.0f,       -0.0f, INFINITY, -INFINITY, NAN,     0x1p-149f,
                                     -0x1p-140f, 3e38f, -3e38f,   88.8f,     -104.0f, -87.5f};
    uint64_t r = th_rng_next(rng);
    if (special && r % 7 == 0) return specials[(r >> 8) % TH_COUNT(specials)];
    if (special && r % 7 == 1) return unit(rng) * 120;
    return unit(rng) * (r % 5 == 0 ? 20.0f : 2.0f);
}

/* ---- arrays of one call -------------------------------------------------------------------------------------------
 */

typedef struct Arrays {
    Guarded a, b, h;
    float *x, *y; /* n floats, ending at a guard page */
    uint16_t *halves;
    int n;
} Arrays;

static void open_arrays(Arrays *s, int n, bool special, uint64_t rng[4]) {
    s->n = n;
    s->a = guarded_alloc((size_t)n * 4, true);
    s->b = guarded_alloc((size_t)n * 4, true);
    s->h = guarded_alloc((size_t)n * 2, true);
    s->x = s->a.data;
    s->y = s->b.data;
    s->halves = s->h.data;
    for (int i = 0; i < n; i++) {
        s->x[i] = any_float(rng, special);
        s->y[i] = any_float(rng, special);
        s->halves[i] = th_f32_to_f16(any_float(rng, special));
    }
}

static void close_arrays(Arrays *s) {
    guarded_free(&s->a);
    guarded_free(&s->b);
    guarded_free(&s->h);
}

/* Runs function number f on the arrays; scalar results come back, the rest lies in x, y or halves. */
enum { N_FUNCTIONS = 14 };
static const char *const function_names[N_FUNCTIONS] = {
    "dot_f32",  "dot_f16",  "axpy_f32", "axpy_f16",          "to_f16",  "from_f16", "add", "scale",
    "silu_mul", "gelu_mul", "rms_norm", "rms_norm in place", "exp_sub", "max"};
static float call(const VecKernel *v, int f, Arrays *s) {
    int n = s->n;
    switch (f) {
    case 0:
        return v->dot_f32(s->x, s->y, n);
    case 1:
        return v->dot_f16(s->x, s->halves, n);
    case 2:
        v->axpy_f32(s->y, 0.3f, s->x, n);
        return 0;
    case 3:
        v->axpy_f16(s->y, -1.7f, s->halves, n);
        return 0;
    case 4:
        v->to_f16(s->halves, s->x, n);
        return 0;
    case 5:
        v->from_f16(s->y, s->halves, n);
        return 0;
    case 6:
        v->add(s->y, s->x, n);
        return 0;
    case 7:
        v->scale(s->y, 0.77f, n);
        return 0;
    case 8:
        v->silu_mul(s->x, s->y, n);
        return 0;
    case 9:
        v->gelu_mul(s->x, s->y, n);
        return 0;
    case 10:
        v->rms_norm(s->y, s->x, NULL, n, 1e-6f);
        return 0;
    case 11:
        v->rms_norm(s->x, s->x, s->y, n, 1e-5f);
        return 0;
    case 12:
        return v->exp_sub(s->x, 3.0f, n);
    default:
        return v->max(s->x, n) + 0.0f;
    }
}

static bool same_half(uint16_t a, uint16_t b) {
    bool nan_a = (a & 0x7FFF) > 0x7C00, nan_b = (b & 0x7FFF) > 0x7C00;
    return a == b || (nan_a && nan_b);
}

static bool same_call(const VecKernel *c, const VecKernel *v, int f, int n, bool special, uint64_t seed) {
    uint64_t rng[4], again[4];
    th_rng_seed(rng, seed);
    memcpy(again, rng, sizeof again);
    Arrays want, got;
    open_arrays(&want, n, special, rng);
    open_arrays(&got, n, special, again);
    check_now("%s %s, n %d", v->origin, function_names[f], n);
    float expected = call(c, f, &want), result = call(v, f, &got);
    bool good = check_same_bits(expected, result);
    int at = -1;
    for (int i = 0; i < n; i++) {
        if (check_same_bits(want.x[i], got.x[i]) && check_same_bits(want.y[i], got.y[i]) &&
            same_half(want.halves[i], got.halves[i]))
            continue;
        good = false;
        at = i;
        break;
    }
    if (!good) {
        printf("# %s %s, n %d%s: ", v->origin, function_names[f], n, special ? ", special values" : "");
        if (at < 0)
            printf("expected %a, got %a\n", (double)expected, (double)result);
        else
            printf("element %d: expected %a %a %04x, got %a %a %04x\n", at, (double)want.x[at], (double)want.y[at],
                   (unsigned)want.halves[at], (double)got.x[at], (double)got.y[at], (unsigned)got.halves[at]);
    }
    close_arrays(&want);
    close_arrays(&got);
    return good;
}

/* Sums over infinities of both signs differ in nothing but NaN, so dots meet special values too. */
static void check_isa(const Kernels *c, const Kernels *k, const char *isa, Tap *tap) {
    for (int f = 0; f < N_FUNCTIONS; f++) {
        bool good = true;
        for (size_t i = 0; i < TH_COUNT(lengths); i++) {
            good &= same_call(&c->vec, &k->vec, f, lengths[i], false, 100 * i + (uint64_t)f);
            good &= same_call(&c->vec, &k->vec, f, lengths[i], true, 1000000 + 100 * i + (uint64_t)f);
        }
        tap_result(tap, good, "%s, %s: %s", function_names[f], isa, k->vec.origin);
    }
}

/* ---- activations --------------------------------------------------------------------------------------------------
 */

static void fill_activations(float *x, int cols, int kind, uint64_t rng[4]) {
    static const float sizes[] = {1, 1e-3f, 1e4f, 0x1p-99f, 0x1p-100f, 0x1.fffffep-101f, 1e-40f, 3e38f};
    for (int i = 0; i < cols; i++) {
        float size = sizes[(i / 32 + kind) % (int)TH_COUNT(sizes)];
        x[i] = kind % 3 == 2 ? size * (float)((i % 255) - 127) / 254.0f : unit(rng) * size; /* ties of x.5 */
        if (i % 32 == 5 && kind % 2) x[i] = size * (i % 64 < 32 ? -1.0f : 1.0f);
    }
    if (kind == 5) x[cols / 2] = INFINITY;
    if (kind == 6) x[cols - 1] = NAN;
    if (kind == 7) x[0] = -INFINITY, x[cols - 1] = NAN;
    if (kind == 8) memset(x, 0, (size_t)cols * 4);
}

/* The integers, scales and sums; the padding between them may hold anything. */
static bool same_activation(ActForm f, const void *a, const void *b, int cols) {
    if (f == ACT_F32) return memcmp(a, b, (size_t)cols * 4) == 0;
    int block = f == ACT_Q8_K ? 256 : 32;
    if (memcmp(th_act_q(a), th_act_q(b), (size_t)cols) != 0) return false;
    for (int i = 0; i < cols / block; i++) {
        if (!check_same_bits(th_act_d(a, cols)[i], th_act_d(b, cols)[i])) return false;
    }
    if (f == ACT_Q8_K) return memcmp(th_act_s16(a, cols), th_act_s16(b, cols), (size_t)cols / 16 * 2) == 0;
    return memcmp(th_act_s32(a, cols), th_act_s32(b, cols), (size_t)cols / 32 * 4) == 0;
}

/* Codes are the nearest ones and the sums right. */
static bool right_activation(ActForm f, const void *a, const float *x, int cols) {
    if (f == ACT_F32) return true;
    int block = f == ACT_Q8_K ? 256 : 32, group = f == ACT_Q8_K ? 16 : 32;
    for (int i = 0; i < cols; i++) {
        double d = (double)th_act_d(a, cols)[i / block];
        if (isnan(d)) continue;
        double off = fabs((double)x[i] - d * th_act_q(a)[i]);
        if (off > d * 0.50002 + 0x1p-100 || th_act_q(a)[i] == -128) return false;
    }
    for (int g = 0; g < cols / group; g++) {
        int sum = 0;
        for (int i = 0; i < group; i++) sum += th_act_q(a)[g * group + i];
        if (sum != (f == ACT_Q8_K ? th_act_s16(a, cols)[g] : th_act_s32(a, cols)[g])) return false;
    }
    return true;
}

static void check_activations(const Kernels *c, const Kernels *k, const char *isa, Tap *tap) {
    static const char *const names[N_ACT_FORMS] = {"f32", "q8_0", "q8_k"};
    for (int f = 0; f < N_ACT_FORMS; f++) {
        bool good = true;
        for (int kind = 0; kind < 40; kind++) {
            int unit_cols = f == ACT_Q8_K ? 256 : f == ACT_Q8_0 ? 32 : 1, cols = unit_cols * (1 + kind % 9);
            uint64_t rng[4];
            th_rng_seed(rng, (uint64_t)kind);
            Guarded x = guarded_alloc((size_t)cols * 4, true);
            Guarded want = guarded_alloc(th_act_bytes((ActForm)f, cols), true);
            Guarded got = guarded_alloc(th_act_bytes((ActForm)f, cols), true);
            fill_activations(x.data, cols, kind % 10, rng);
            check_now("activations %s %s, cols %d", names[f], isa, cols);
            c->act[f](want.data, x.data, cols);
            k->act[f](got.data, x.data, cols);
            bool same = same_activation((ActForm)f, want.data, got.data, cols);
            if (!same) printf("# activations %s %s: kind %d, cols %d differ\n", names[f], isa, kind % 10, cols);
            good &= same && right_activation((ActForm)f, want.data, x.data, cols);
            guarded_free(&x);
            guarded_free(&want);
            guarded_free(&got);
        }
        tap_result(tap, good, "activations %s, %s", names[f], isa);
    }
}

/* Infinity and NaN must reach the products instead of becoming some number. */
static void check_poisoned_block(const Kernels *c, Tap *tap) {
    float x[64] = {0};
    _Alignas(64) char row[256];
    x[40] = INFINITY;
    c->act[ACT_Q8_0](row, x, 64);
    tap_result(tap, th_act_d(row, 64)[0] == 0 && isnan(th_act_d(row, 64)[1]) && th_act_q(row)[40] == 0,
               "infinity makes its block NaN");
}

/* ---- C against libm -----------------------------------------------------------------------------------------------
 */

static double ulps(float got, double want) { return fabs((double)got - want) / fabs(want) / 0x1p-23; }

static void check_math(Tap *tap) {
    double worst_exp = 0, worst_silu = 0, worst_gelu = 0, worst_tanh = 0;
    uint64_t hash = CHECK_HASH;
    for (int i = -200000; i <= 200000; i++) {
        float x = (float)i * 0.000437f;
        hash = check_hash(hash, (float[5]){th_exp(x), th_silu(x), th_gelu(x), th_tanh(x / 8), th_softplus(x)}, 5);
        if (x > -87) worst_exp = fmax(worst_exp, ulps(th_exp(x), exp((double)x)));
        if (i) worst_tanh = fmax(worst_tanh, ulps(th_tanh(x / 8), tanh((double)(x / 8))));
        double silu = (double)x / (1 + exp(-(double)x));
        double v = 0.7978845608028654 * ((double)x + 0.044715 * pow((double)x, 3)),
               gelu = (double)x / (1 + exp(-2 * v));
        if (i && x > -80) worst_silu = fmax(worst_silu, ulps(th_silu(x), silu));
        if (i && x > -5) worst_gelu = fmax(worst_gelu, ulps(th_gelu(x), gelu));
    }
    tap_result(tap, hash == 0x1e05fd6f446ff4b3u, "the bits of every machine (0x%016llxu)", (unsigned long long)hash);
    tap_result(tap, worst_exp < 0.7, "exp within 0.7 units (%.3f)", worst_exp);
    tap_result(tap, worst_tanh < 2, "tanh within 2 units (%.3f)", worst_tanh);
    tap_result(tap, worst_silu < 2.5, "silu within 2.5 units (%.3f)", worst_silu);
    tap_result(tap, worst_gelu < 40, "gelu within 40 units above -5 (%.3f)", worst_gelu);
    tap_result(tap,
               th_exp(-INFINITY) == 0 && th_exp(-1e30f) == 0 && isinf(th_exp(INFINITY)) && isinf(th_exp(89.0f)) &&
                   isnan(th_exp(NAN)) && th_exp(0) == 1,
               "exp at the ends of its range");
    tap_result(tap, th_silu(-1e30f) == 0 && th_silu(1e30f) == 1e30f && th_gelu(-3e38f) == 0 && th_gelu(3e38f) == 3e38f,
               "gates do not overflow");
    tap_result(tap, th_tanh(INFINITY) == 1 && th_tanh(-1e30f) == -1 && isnan(th_tanh(NAN)) && th_tanh(1e-30f) == 1e-30f,
               "tanh at the ends of its range");
}

static void check_fma(Tap *tap) {
    uint64_t rng[4], bad = 0;
    th_rng_seed(rng, 9);
    for (int i = 0; i < 400000; i++) {
        uint64_t r = th_rng_next(rng), q = th_rng_next(rng);
        float a = th_f32_from_bits((uint32_t)r), b = th_f32_from_bits((uint32_t)(r >> 32)), c;
        if (i & 4)
            a = th_f32_from_bits((uint32_t)r & 0xFF8FF000u), b = th_f32_from_bits((uint32_t)(r >> 32) & 0xFF8FF000u);
        c = i & 1 ? th_f32_from_bits((th_f32_bits(-(a * b)) + (uint32_t)(q & 7) - 3) ^
                                     (i & 2 ? (uint32_t)(q >> 8 & 31) << 23 : 0))
                  : th_f32_from_bits((uint32_t)q);
        if (!check_same_bits(th_fmaf(a, b, c), fmaf(a, b, c))) bad++;
    }
    tap_result(tap, bad == 0, "th_fmaf rounds once");
}

static void check_norm(const VecKernel *v, Tap *tap) {
    float x[1000], y[1000], w[1000];
    uint64_t rng[4];
    double sum = 0, worst = 0;
    th_rng_seed(rng, 4);
    for (int i = 0; i < 1000; i++) {
        x[i] = unit(rng) * 30;
        w[i] = unit(rng);
        sum += (double)x[i] * (double)x[i];
    }
    v->rms_norm(y, x, w, 1000, 1e-5f);
    for (int i = 0; i < 1000; i++) {
        double want = (double)x[i] / sqrt(sum / 1000 + (double)1e-5f) * (double)w[i];
        double off = ulps(y[i], want);
        if (off > worst) worst = off; /* not fmax: gcc 12 for aarch64 fails to compile that reduction */
    }
    tap_result(tap, worst < 2, "rms_norm within 2 units (%.3f)", worst);
    for (int i = 0; i < 1000; i++) x[i] = -1e-20f;
    x[3] = 2;
    tap_result(tap, v->max(x, 1000) == 2 && v->max(x, 0) == -INFINITY, "max");
    for (int i = 0; i < 1000; i++) x[i] = i % 3 ? -INFINITY : 1;
    tap_result(tap, v->exp_sub(x, 1, 1000) == 334 && x[1] == 0 && x[999] == 1, "exp_sub of masked positions is exact");
}

/* ---- speed --------------------------------------------------------------------------------------------------------
 */

static void bench(const Kernels *k) {
    enum { N = 2048 };
    uint64_t rng[4];
    th_rng_seed(rng, 1);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        Arrays s;
        open_arrays(&s, N, false, rng);
        double best = 1e9;
        volatile float sink = 0;
        for (int run = 0; run < 200; run++) {
            memset(s.y, 0, N * sizeof *s.y);
            for (int i = 0; i < N; i++) s.x[i] = (float)(i % 7) - 3;
            double start = check_seconds();
            sink = sink + call(&k->vec, f, &s);
            best = fmin(best, check_seconds() - start);
        }
        printf("%-18s %-12s %8.2f elements/ns\n", function_names[f], k->vec.origin, N / best * 1e-9);
        close_arrays(&s);
    }
    float x[4096];
    _Alignas(64) static char row[4096 * 8];
    for (int i = 0; i < 4096; i++) x[i] = unit(rng);
    for (int f = 0; f < N_ACT_FORMS; f++) {
        double best = 1e9;
        for (int run = 0; run < 200; run++) {
            double start = check_seconds();
            k->act[f](row, x, 4096);
            best = fmin(best, check_seconds() - start);
        }
        printf("activation form %d  isa %08x %8.2f elements/ns\n", f, k->isa, 4096 / best * 1e-9);
    }
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
            bench(&k);
            continue;
        }
        check_isa(&c, &k, isas[i].name, &tap);
        check_activations(&c, &k, isas[i].name, &tap);
    }
    if (measure) return 0;
    check_poisoned_block(&c, &tap);
    check_math(&tap);
    check_fma(&tap);
    check_norm(&c.vec, &tap);
    printf("1..%d\n", tap.n);
    return tap.failed ? 1 : 0;
}
