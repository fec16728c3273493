/* route.c: which experts a token uses, and with what weight (architectures specification, section 5.3).
 *
 * A different expert is a different answer, so this is plain binary32 in one stated order on every machine
 * (plain_dots of kernel.h), without fused multiply-add. */
#include <math.h>

#include "kernel/vec_math.h"
#include "op/op.h"

typedef struct Router {
    const Kernels *k;
    float *logits;
    const float *router, *bias, *x;
    int X, E, T, blocks;
} Router;

/* A few rows of the router stay in cache while a block of tokens passes by. */
enum { EXPERTS_PER_ITEM = 8, TOKENS_PER_ITEM = 32 };

static void route_items(void *arg, int worker, int begin, int end) {
    (void)worker;
    const Router *r = arg;
    size_t X = (size_t)r->X, E = (size_t)r->E;
    for (int i = begin; i < end; i++) {
        int e = i / r->blocks * EXPERTS_PER_ITEM, t = i % r->blocks * TOKENS_PER_ITEM;
        int n = th_min_int(EXPERTS_PER_ITEM, r->X - e), last = th_min_int(t + TOKENS_PER_ITEM, r->T);
        for (; t < last; t++) {
            float *z = r->logits + (size_t)t * X + (size_t)e;
            r->k->vec.plain_dots(z, r->router + (size_t)e * E, n, r->x + (size_t)t * E, r->E);
            for (int j = 0; r->bias && j < n; j++) z[j] += r->bias[e + j];
        }
    }
}

void th_route_logits(Pass *p, float *logits, const float *router, const float *bias, const float *x, int X, int E,
                     int T) {
    Router r = {p->k, logits, router, bias, x, X, E, T, (T + TOKENS_PER_ITEM - 1) / TOKENS_PER_ITEM};
    p->moved += (uint64_t)X * (uint64_t)E * sizeof(float);
    int n = (X + EXPERTS_PER_ITEM - 1) / EXPERTS_PER_ITEM * r.blocks;
    bool small = (size_t)X * (size_t)E * (size_t)T <= 8192; /* done before another thread would have woken up */
    if (n == 1 || small) route_items(&r, 0, 0, n);
    else th_pool_run(p->pool, route_items, &r, n);
}

static void gate(const RouteSpec *r, const float *z, float *prob) {
    switch (r->gating) {
    case 2:
        for (int e = 0; e < r->X; e++) prob[e] = th_sigmoid(z[e]);
        return;
    case 3:
        for (int e = 0; e < r->X; e++) prob[e] = z[e];
        return;
    case 4:
        for (int e = 0; e < r->X; e++) prob[e] = sqrtf(th_softplus(z[e]));
        return;
    default: break;
    }
    float max = z[0], sum = 0;
    for (int e = 1; e < r->X; e++) max = z[e] > max ? z[e] : max;
    for (int e = 0; e < r->X; e++) sum += prob[e] = th_exp(z[e] - max);
    for (int e = 0; e < r->X; e++) prob[e] /= sum;
}

/* Largest value not below the others; the lower index wins ties. NaN never wins; -1 when nothing is left. */
static int arg_max(const float *x, int n) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (x[i] > -INFINITY && (best < 0 || x[i] > x[best])) best = i;
    return best;
}

/* Sets the scores of all but the best groups to -infinity. tmp [groups]. */
static void keep_groups(const RouteSpec *r, float *score, float *tmp) {
    int size = r->X / r->groups;
    for (int g = 0; g < r->groups; g++) {
        float first = -INFINITY, second = -INFINITY;
        for (int i = 0; i < size; i++) {
            float s = score[g * size + i];
            if (s > first) second = first, first = s;
            else if (s > second) second = s;
        }
        tmp[g] = size > 1 ? first + second : first;
    }
    for (int k = 0; k < r->groups_used; k++) {
        int g = arg_max(tmp, r->groups);
        if (g >= 0) tmp[g] = NAN; /* taken */
    }
    for (int g = 0; g < r->groups; g++)
        if (tmp[g] == tmp[g])
            for (int i = 0; i < size; i++) score[g * size + i] = -INFINITY;
}

/* K best of score (destroyed), ids ascending. When scores are broken (NaN), the lowest ids fill up. */
static void select_best(const RouteSpec *r, float *score, int *ids) {
    for (int k = 0; k < r->K; k++) {
        int e = arg_max(score, r->X);
        if (e < 0)
            for (e = 0; e < r->X; e++) {
                bool used = false;
                for (int i = 0; i < k; i++) used |= ids[i] == e;
                if (!used) break;
            }
        score[e] = -INFINITY;
        int at = k;
        for (; at > 0 && ids[at - 1] > e; at--) ids[at] = ids[at - 1];
        ids[at] = e;
    }
}

static void weigh(const RouteSpec *r, const float *prob, const int *ids, float *weights) {
    float sum = 0, max = -INFINITY;
    for (int k = 0; k < r->K; k++) {
        weights[k] = prob[ids[k]];
        max = weights[k] > max ? weights[k] : max;
    }
    if (r->gating == 3) {
        for (int k = 0; k < r->K; k++) sum += weights[k] = th_exp(weights[k] - max);
        for (int k = 0; k < r->K; k++) weights[k] /= sum;
        sum = 0;
    }
    if (r->norm) {
        for (int k = 0; k < r->K; k++) sum += weights[k];
        sum = sum > 6.103515625e-5f ? sum : 6.103515625e-5f;
        for (int k = 0; k < r->K; k++) weights[k] /= sum;
    }
    if (r->weight_scale != 0 && r->weight_scale != 1)
        for (int k = 0; k < r->K; k++) weights[k] *= r->weight_scale;
}

size_t th_route_tmp(int X) { return 4 * (size_t)X; }

void th_route(const RouteSpec *r, const float *logits, const bool *resident, float route_bias, int *ids, float *weights,
              float *tmp, uint64_t *picks_changed) {
    float *prob = tmp, *score = tmp + r->X, *work = tmp + 2 * (size_t)r->X, *groups = tmp + 3 * (size_t)r->X;
    gate(r, logits, prob);
    for (int e = 0; e < r->X; e++) score[e] = r->bias ? prob[e] + r->bias[e] : prob[e];
    memcpy(work, score, (size_t)r->X * sizeof *work);
    if (r->groups > 1) keep_groups(r, work, groups);
    bool biased = resident && route_bias != 0;
    if (biased) memcpy(score, work, (size_t)r->X * sizeof *score);
    select_best(r, work, ids);
    if (biased) {
        for (int e = 0; e < r->X; e++) groups[e] = 0;
        for (int k = 0; k < r->K; k++) groups[ids[k]] = 1; /* what an unbiased router takes */
        for (int e = 0; e < r->X; e++) score[e] += resident[e] ? route_bias : 0;
        select_best(r, score, ids);
        for (int k = 0; k < r->K; k++) *picks_changed += groups[ids[k]] == 0;
    }
    weigh(r, prob, ids, weights);
}
