/* test_attend.c: attention over a cache: against numbers from the specification, and bit for bit between all ways of
 * cutting the same positions into passes, caches and threads. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/ops.h"

enum { MOST_CELLS = 1024, MOST_VALUES = 4096 };

typedef struct Attention {
    OpTest t;
    AttendSpec spec;
    KvCache cache, rows[64];
} Attention;

static void attention_open(Attention *a, const AttendSpec *spec, int n_cells, int threads, unsigned isa) {
    op_test_open(&a->t, threads, isa);
    a->spec = *spec;
    a->cache.n_cells = n_cells;
    a->cache.k = calloc((size_t)(n_cells * spec->Hk), th_cache_value_bytes(spec->cache_type, spec->D));
    a->cache.v = calloc((size_t)(n_cells * spec->Hk), th_cache_value_bytes(spec->cache_type, spec->Dv));
    assert_non_null(a->cache.k);
    assert_non_null(a->cache.v);
    for (size_t i = 0; i < TH_COUNT(a->rows); i++) a->rows[i] = a->cache;
}

static void attention_close(Attention *a) {
    assert_int_equal(a->t.scratch.used, 0);
    free(a->cache.k);
    free(a->cache.v);
    op_test_close(&a->t);
}

/* One pass over positions [at, at + T): q may be NULL for rows that are only remembered. */
static void attention_pass(Attention *a, int at, int T, const float *k, const float *v, const float *q, float *out) {
    const AttendSpec *s = &a->spec;
    op_test_rows(&a->t, at, T);
    th_attend_store(&a->t.pass, s, a->rows, k + at * s->Hk * s->D, v + at * s->Hk * s->Dv);
    if (!q) return;
    a->t.scratch.peak = 0;
    th_attend(&a->t.pass, s, a->rows, out, q);
    assert_true(a->t.scratch.peak <= th_attend_scratch(s, T, th_pool_threads(a->t.pass.pool)));
}

static AttendSpec spec_of(const json_t *c, const float *sinks) {
    AttendSpec s = {.H = (int)op_number(c, "H", 0), .Hk = (int)op_number(c, "Hk", 0), .D = (int)op_number(c, "D", 0),
                    .scale = (float)op_number(c, "scale", 0), .softcap = (float)op_number(c, "softcap", 0),
                    .window = (int)op_number(c, "window", 0), .cache_type = THIMBLE_CACHE_F32};
    s.Dv = s.D;
    s.sinks = json_object_get(c, "sinks") ? sinks : NULL;
    return s;
}

static void vectors_agree(void **state) {
    (void)state;
    json_t *data = op_data("attention"), *cases = json_object_get(data, "cases");
    int checked = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        if (json_object_get(c, "gate")) continue; /* a matter of the block around it */
        static float q[MOST_VALUES], k[MOST_VALUES], v[MOST_VALUES], o[MOST_VALUES], out[MOST_VALUES], sinks[64];
        op_numbers(json_object_get(c, "q"), q, MOST_VALUES);
        op_numbers(json_object_get(c, "k"), k, MOST_VALUES);
        op_numbers(json_object_get(c, "v"), v, MOST_VALUES);
        op_numbers(json_object_get(c, "sinks"), sinks, 64);
        size_t n = op_numbers(json_object_get(c, "o"), o, MOST_VALUES);
        int T = (int)op_number(c, "T", 0), S = (int)op_number(c, "S", 0);
        AttendSpec spec = spec_of(c, sinks);
        Attention a;
        attention_open(&a, &spec, S, 1, ISA_C);
        attention_pass(&a, 0, S - T, k, v, NULL, NULL);
        attention_pass(&a, S - T, T, k, v, q, out);
        if (op_difference(out, o, n) > 2e-5) fail_msg("case %zu: off by %g", i, op_difference(out, o, n));
        attention_close(&a);
        checked++;
    }
    assert_int_equal(checked, 5);
    json_decref(data);
}

/* ---- splits ----------------------------------------------------------------------------------------------------- */

enum { S = 700, H = 6, HK = 2, D = 32, DV = 64 };
static float K[S * HK * D], V[S * HK * DV], Q[S * H * D], WANT[S * H * DV], GOT[S * H * DV];

static void make_values(void) {
    srand(11);
    for (int i = 0; i < S * HK * D; i++) K[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    for (int i = 0; i < S * HK * DV; i++) V[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
    for (int i = 0; i < S * H * D; i++) Q[i] = (float)rand() / (float)RAND_MAX * 4 - 2;
}

static void run_split(const AttendSpec *spec, int n_cells, int batch, int threads, unsigned isa, float *out) {
    Attention a;
    attention_open(&a, spec, n_cells, threads, isa);
    for (int at = 0; at < S; at += batch) {
        int T = th_min_int(batch, S - at);
        attention_pass(&a, at, T, K, V, Q + at * H * D, out + at * H * DV);
    }
    attention_close(&a);
}

static void check_splits(const AttendSpec *spec) {
    static const int batches[] = {1, 2, 3, 7, 16, 17, 64};
    run_split(spec, S, 64, 1, ISA_C, WANT);
    for (size_t i = 0; i < TH_COUNT(batches); i++) {
        int ring = spec->window ? spec->window + batches[i] - 1 : S;
        memset(GOT, 0, sizeof GOT);
        run_split(spec, ring, batches[i], i % 2 ? 3 : 2, ISA_ALL, GOT);
        for (int p = 0; p < S; p++)
            if (memcmp(WANT + p * H * DV, GOT + p * H * DV, H * DV * sizeof *GOT) != 0)
                fail_msg("window %d, passes of %d: position %d differs", spec->window, batches[i], p);
    }
}

static void splits_agree_bit_for_bit(void **state) {
    (void)state;
    static const int windows[] = {0, 1, 20, 300};
    static const int types[] = {THIMBLE_CACHE_F16, THIMBLE_CACHE_F32, THIMBLE_CACHE_Q8_0};
    float sinks[H] = {0.5f, -1, 2, 0, 3, -8};
    make_values();
    for (size_t w = 0; w < TH_COUNT(windows); w++) {
        AttendSpec spec = {.H = H, .Hk = HK, .D = D, .Dv = DV, .scale = 0.2f, .window = windows[w]};
        spec.cache_type = types[w % 3];
        spec.softcap = w == 2 ? 3 : 0;
        spec.sinks = w == 3 ? sinks : NULL;
        check_splits(&spec);
    }
}

/* Plain binary64 for some rows, so that the agreement above is agreement on the right thing. */
static void long_rows_are_right(void **state) {
    (void)state;
    AttendSpec spec = {.H = H, .Hk = HK, .D = D, .Dv = DV, .scale = 0.2f, .cache_type = THIMBLE_CACHE_F32};
    make_values();
    run_split(&spec, S, 33, 2, ISA_ALL, GOT);
    for (int p = 3; p < S; p += 173)
        for (int h = 0; h < H; h++) {
            double score[S], sum = 0, o[DV] = {0};
            for (int at = 0; at <= p; at++) {
                double dot = 0;
                for (int d = 0; d < D; d++)
                    dot += (double)Q[(p * H + h) * D + d] * (double)K[(at * HK + h / (H / HK)) * D + d];
                score[at] = exp(dot * (double)0.2f);
                sum += score[at];
            }
            for (int at = 0; at <= p; at++)
                for (int d = 0; d < DV; d++) o[d] += score[at] / sum * (double)V[(at * HK + h / (H / HK)) * DV + d];
            for (int d = 0; d < DV; d++) assert_float_equal(GOT[(p * H + h) * DV + d], (float)o[d], 1e-5f);
        }
}

/* Two sequences in one pass do not see each other. */
static void sequences_are_apart(void **state) {
    (void)state;
    AttendSpec spec = {.H = H, .Hk = HK, .D = D, .Dv = DV, .scale = 0.2f, .cache_type = THIMBLE_CACHE_F16};
    static float alone[2][H * DV], both[2 * H * DV];
    Attention a, b;
    make_values();
    attention_open(&a, &spec, 64, 2, ISA_ALL);
    attention_open(&b, &spec, 64, 2, ISA_ALL);
    attention_pass(&a, 0, 5, K, V, NULL, NULL);
    attention_pass(&b, 0, 9, V, K, NULL, NULL);
    attention_pass(&a, 5, 1, K, V, Q, alone[0]);
    attention_pass(&b, 9, 1, V, K, Q + H * D, alone[1]);
    op_test_rows(&a.t, 5, 2);
    a.t.rows[1] = (PassRow){.position = 9, .seq = (SeqState *)(void *)&b.t.marker};
    a.rows[1] = b.cache;
    th_attend(&a.t.pass, &spec, a.rows, both, Q);
    assert_memory_equal(both, alone[0], sizeof alone[0]);
    assert_memory_equal(both + H * DV, alone[1], sizeof alone[1]);
    attention_close(&a);
    attention_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_agree), cmocka_unit_test(splits_agree_bit_for_bit),
                                       cmocka_unit_test(long_rows_are_right), cmocka_unit_test(sequences_are_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
