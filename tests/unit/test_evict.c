/* test_evict.c: the scores of the expert cache replayed on routing traces of real models, against the figures that
 * stand beside the traces; and what must hold on any trace. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rng.h"
#include "thimble/thimble.h"
#include "weights/evict.h"

enum { TOKENS = 400, LAYERS = 64, K = 8, EXPERTS = 256 };
typedef struct Trace {
    int tokens, layers;
    short id[TOKENS][LAYERS][K];
} Trace;

static Trace trace;

/* {"tok": 0, "layers": [[36, 38, ...], ...]} per line; K ids a layer. */
static bool read_trace(const char *path) {
    static char line[65536];
    FILE *f = fopen(path, "r");
    if (!f) return false;
    trace.tokens = 0;
    while (trace.tokens < TOKENS && fgets(line, sizeof line, f)) {
        char *at = strstr(line, "[[");
        if (!at) continue;
        int n = 0;
        for (at += 2; *at && n < LAYERS * K; at++) {
            if (*at < '0' || *at > '9') continue;
            trace.id[trace.tokens][n / K][n % K] = (short)strtol(at, &at, 10);
            n++;
            at--;
        }
        trace.layers = n / K;
        trace.tokens++;
    }
    fclose(f);
    return trace.tokens > 0;
}

/* One cache of `slots` per layer, or one for all; victims by th_evict_first over all slots. Experts of the layer at
 * hand are not thrown out, as in the pager. */
typedef struct Cache {
    int n, slots, slot[LAYERS * EXPERTS]; /* layer * EXPERTS + expert */
} Cache;
static Heat heat[LAYERS * EXPERTS];
static bool inside[LAYERS * EXPERTS];

static bool in_use(int token, int x) {
    for (int i = 0; i < K; i++)
        if (trace.id[token][x / EXPERTS][i] == x % EXPERTS) return true;
    return false;
}

static void make_room(Cache *c, EvictPolicy policy, int token, int layer, const uint32_t *clock) {
    int victim = -1;
    for (int i = 0; i < c->n; i++) {
        int x = c->slot[i];
        if (x / EXPERTS == layer && policy == EVICT_LFRU && in_use(token, x)) continue;
        int v = victim < 0 ? 0 : c->slot[victim];
        if (victim < 0 || th_evict_first(policy, heat[x], clock[x / EXPERTS], heat[v], clock[v / EXPERTS])) victim = i;
    }
    inside[c->slot[victim]] = false;
    c->slot[victim] = c->slot[--c->n];
}

static double replay(EvictPolicy policy, int slots, bool global) {
    static Cache cache[LAYERS];
    uint32_t clock[LAYERS] = {0}, accesses = 0;
    int hits = 0;
    memset(heat, 0, sizeof heat);
    memset(inside, 0, sizeof inside);
    memset(cache, 0, sizeof cache);
    for (int t = 0; t < trace.tokens; t++)
        for (int l = 0; l < trace.layers; l++) {
            Cache *c = &cache[global ? 0 : l];
            /* Frequency ages by tokens; for the exact order of last use each access is a tick. */
            if (policy == EVICT_LFRU) clock[l]++;
            for (int i = 0; i < K; i++) {
                int x = l * EXPERTS + trace.id[t][l][i];
                accesses++;
                if (policy == EVICT_LRU)
                    for (int k = 0; k < trace.layers; k++) clock[k] = accesses;
                if (inside[x]) hits++;
                else {
                    if (c->n == slots) make_room(c, policy, t, l, clock);
                    c->slot[c->n++] = x;
                    inside[x] = true;
                }
                th_heat_use(&heat[x], clock[l]);
            }
        }
    return (double)hits / accesses;
}

static void check_rates(const char *name, const int *slots, const double *expected, int n) {
    char path[256];
    snprintf(path, sizeof path, "../shared/traces/%s", name);
    if (!read_trace(path)) skip();
    for (int i = 0; i < n; i++) {
        double got = replay(EVICT_LRU, slots[i], false);
        if (fabs(got - expected[i]) > 0.00006)
            fail_msg("%s, %d slots: %.4f, expected %.4f", name, slots[i], got, expected[i]);
    }
    /* With one slot less than a token needs, over all layers: recency finds next to nothing, frequency does. */
    int one = trace.layers * K;
    assert_true(replay(EVICT_LFRU, one - 1, true) > replay(EVICT_LRU, one - 1, true) + 0.15);
    /* From there up, `auto` is never behind by more than a hair. */
    for (int share = 2; share <= 8; share++) {
        double lru = replay(EVICT_LRU, one * share, true), lfru = replay(EVICT_LFRU, one * share, true);
        printf("# %s, one cache of %d: LRU %.3f, LFRU %.3f\n", name, one * share, lru, lfru);
        assert_true(lfru > lru - 0.01);
    }
}

static void lru_on_kimi(void **state) {
    (void)state;
    const double rates[] = {0.2343, 0.4254, 0.5760, 0.7254, 0.8657};
    check_rates("trace_kimi_300.jsonl", (int[]){8, 16, 32, 64, 128}, rates, 5);
}

static void lru_on_olmoe(void **state) {
    (void)state;
    check_rates("trace_olmoe_299.jsonl", (int[]){8, 16, 32, 64}, (double[]){0.3193, 0.5706, 0.7813, 0.9746}, 4);
}

/* Without the files: a trace made here. More slots never lose, everything in memory misses each expert once. */
static void more_slots_never_lose(void **state) {
    (void)state;
    uint64_t rng[4];
    th_rng_seed(rng, 7);
    trace.tokens = 200;
    trace.layers = 4;
    for (int t = 0; t < trace.tokens; t++)
        for (int l = 0; l < trace.layers; l++)
            for (int i = 0; i < K; i++) { /* eight groups of eight, the first experts of each oftener */
                double u = th_rng_unit(rng);
                trace.id[t][l][i] = (short)(i * 8 + (int)(u * u * 8));
            }
    double before = 0;
    for (int slots = 8; slots <= 64; slots += 8) {
        double now = replay(EVICT_LRU, slots, false);
        assert_true(now >= before);
        before = now;
    }
    assert_true(fabs(before - (1 - 64.0 / (200 * K))) < 0.01);
    assert_true(replay(EVICT_LFRU, 10, false) > replay(EVICT_LRU, 10, false));
}

static void heat_fades(void **state) {
    (void)state;
    Heat often = {0}, lately = {0}, never = {0};
    for (uint32_t now = 1; now <= 10; now++) th_heat_use(&often, now);
    th_heat_use(&lately, 20);
    assert_true(th_evict_first(EVICT_LFRU, lately, 20, often, 20));
    assert_true(th_evict_first(EVICT_LRU, often, 20, lately, 20));
    assert_true(th_evict_first(EVICT_LFRU, never, 20, lately, 20));
    for (uint32_t now = 400; now <= 402; now++) th_heat_use(&lately, now);
    assert_true(th_evict_first(EVICT_LFRU, often, 402, lately, 402)); /* yesterday's heat is gone */
    assert_true(th_heat_now(often, 1000000) >= 0 && th_heat_now(often, 10) > 8);
    /* Each on its own layer's clock. */
    Heat a = {.uses = 1, .last = 90}, b = {.uses = 1, .last = 10};
    assert_true(th_evict_first(EVICT_LFRU, a, 100, b, 11));
}

static void policy_follows_the_option(void **state) {
    (void)state;
    assert_int_equal(th_evict_policy(THIMBLE_EVICT_AUTO), EVICT_LFRU);
    assert_int_equal(th_evict_policy(THIMBLE_EVICT_LRU), EVICT_LRU);
    assert_int_equal(th_evict_policy(THIMBLE_EVICT_LFU), EVICT_LFRU);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lru_on_kimi),
        cmocka_unit_test(lru_on_olmoe),
        cmocka_unit_test(more_slots_never_lose),
        cmocka_unit_test(heat_fades),
        cmocka_unit_test(policy_follows_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
