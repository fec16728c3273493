/* sampler.c: see sampler.h. Candidates live in a binary heap; which end is on top depends on the step:
 *
 *   top-k     min-heap of the k best so far: the worst of them is on top and the first to go
 *   top-p     max-heap: the best comes off first until enough probability is gathered
 *
 * "Better" is a total order (higher logit, then lower id), so the result does not depend on the order of arrival. */
#include "session/sampler.h"

#include <math.h>

#include "base/rng.h"

static bool is_better(Candidate a, Candidate b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

static void sift_down(Candidate *heap, size_t n, size_t i, bool best_on_top) {
    for (;;) {
        size_t child = 2 * i + 1, top = i;
        for (size_t c = child; c < n && c <= child + 1; c++)
            if (best_on_top ? is_better(heap[c], heap[top]) : is_better(heap[top], heap[c])) top = c;
        if (top == i) return;
        Candidate t = heap[i];
        heap[i] = heap[top];
        heap[top] = t;
        i = top;
    }
}

static void heapify(Candidate *heap, size_t n, bool best_on_top) {
    for (size_t i = n / 2; i-- > 0;) sift_down(heap, n, i, best_on_top);
}

static bool check_parameters(const ThimbleSampler *sm, Err *err) {
    if (!(sm->temperature >= 0) || !isfinite(sm->temperature))
        return th_fail(err, THIMBLE_E_ARG, "temperature %g is not a finite number of at least 0",
                       (double)sm->temperature);
    if (!(sm->top_p >= 0 && sm->top_p <= 1))
        return th_fail(err, THIMBLE_E_ARG, "top_p %g is not in 0..1", (double)sm->top_p);
    if (!(sm->min_p >= 0 && sm->min_p <= 1))
        return th_fail(err, THIMBLE_E_ARG, "min_p %g is not in 0..1", (double)sm->min_p);
    if (!(sm->repeat_penalty > 0) || !isfinite(sm->repeat_penalty))
        return th_fail(err, THIMBLE_E_ARG, "repeat_penalty %g is not a finite number above 0",
                       (double)sm->repeat_penalty);
    if (sm->top_k < 0) return th_fail(err, THIMBLE_E_ARG, "top_k %d is negative", sm->top_k);
    if (sm->repeat_last_n < -1) return th_fail(err, THIMBLE_E_ARG, "repeat_last_n %d is below -1", sm->repeat_last_n);
    return true;
}

static bool is_suppressed(const SampleInput *in, int32_t id) {
    for (int s = 0; s < in->n_suppress; s++)
        if (in->suppress[s] == id) return true;
    return false;
}

/* All finite logits as candidates in id order; returns how many. */
static size_t collect(const SampleInput *in, Candidate *c, uint64_t *nonfinite) {
    size_t n = 0;
    for (int32_t id = 0; id < in->n_vocab; id++) {
        float logit = in->logits[id];
        if (isfinite(logit)) {
            if (in->n_suppress == 0 || !is_suppressed(in, id)) c[n++] = (Candidate){logit, id};
        } else if (!(isinf(logit) && logit < 0)) {
            (*nonfinite)++;
        }
    }
    return n;
}

/* An id is never negative: its sign marks what is penalised already. */
#define PENALISED INT32_MIN

/* Index of id among candidates in id order, or n. */
static size_t find_id(const Candidate *c, size_t n, int32_t id) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if ((c[mid].id & ~PENALISED) < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < n && (c[low].id & ~PENALISED) == id ? low : n;
}

/* The penalty of Keskar et al. (2019): positive logits are divided, negative ones multiplied; each token once. */
static void penalise(const ThimbleSampler *sm, const SampleInput *in, Candidate *c, size_t n) {
    if (sm->repeat_penalty == 1.0f || sm->repeat_last_n == 0) return;
    size_t last = sm->repeat_last_n < 0 ? in->n_history : th_min_size(in->n_history, (size_t)sm->repeat_last_n);
    const int32_t *recent = in->history + (in->n_history - last);
    for (size_t h = 0; h < last; h++) {
        size_t i = find_id(c, n, recent[h]);
        if (i == n || c[i].id & PENALISED) continue;
        c[i].logit = c[i].logit > 0 ? c[i].logit / sm->repeat_penalty : c[i].logit * sm->repeat_penalty;
        c[i].id |= PENALISED;
    }
    for (size_t h = 0; h < last; h++) {
        size_t i = find_id(c, n, recent[h]);
        if (i < n) c[i].id &= ~PENALISED;
    }
}

static size_t keep_top_k(Candidate *c, size_t n, size_t k) {
    if (k == 0 || k >= n) return n;
    heapify(c, k, false);
    for (size_t i = k; i < n; i++)
        if (is_better(c[i], c[0])) {
            c[0] = c[i];
            sift_down(c, k, 0, false);
        }
    return k;
}

/* Fewest best candidates whose probabilities add up to p, to the front of c. */
static size_t keep_top_p(Candidate *c, size_t n, float p) {
    if (p >= 1 || n <= 1) return n;
    heapify(c, n, true);
    double max = c[0].logit, total = 0, sum = 0;
    for (size_t i = 0; i < n; i++) total += exp(c[i].logit - max);
    size_t taken = 0;
    while (taken < n && (taken == 0 || sum < p * total)) {
        size_t left = n - taken - 1; /* the best one moves behind the shrinking heap */
        Candidate best = c[0];
        c[0] = c[left];
        c[left] = best;
        sift_down(c, left, 0, true);
        sum += exp(best.logit - max);
        taken++;
    }
    /* The tail holds them worst first; swapping from both sides brings them to the front, best first. */
    for (size_t i = 0; i < taken && i < n - 1 - i; i++) {
        Candidate t = c[i];
        c[i] = c[n - 1 - i];
        c[n - 1 - i] = t;
    }
    return taken;
}

static size_t keep_min_p(Candidate *c, size_t n, double max, float min_p) {
    if (min_p <= 0) return n;
    double least = max + log((double)min_p);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].logit >= least) c[kept++] = c[i];
    return kept;
}

static Candidate best_of(const Candidate *c, size_t n) {
    Candidate best = c[0];
    for (size_t i = 1; i < n; i++)
        if (is_better(c[i], best)) best = c[i];
    return best;
}

static int32_t draw(ThimbleSampler *sm, const Candidate *c, size_t n, Candidate best) {
    if (!sm->seeded) {
        th_rng_seed(sm->rng, sm->seed);
        sm->seeded = true;
    }
    double total = 0, inverse = 1.0 / (double)sm->temperature;
    for (size_t i = 0; i < n; i++) total += exp(((double)c[i].logit - best.logit) * inverse);
    double left = th_rng_unit(sm->rng) * total;
    for (size_t i = 0; i < n; i++) {
        left -= exp(((double)c[i].logit - best.logit) * inverse);
        if (left < 0) return c[i].id;
    }
    return best.id; /* rounding left a crumb */
}

bool th_sampler_pick(ThimbleSampler *sm, const SampleInput *in, int32_t *token, uint64_t *nonfinite, Err *err) {
    if (!check_parameters(sm, err)) return false;
    Candidate *c = in->scratch;
    size_t n = collect(in, c, nonfinite);
    if (n == 0)
        return th_fail(err, THIMBLE_E_STATE, "no token can be chosen: not one of %d logits is finite", in->n_vocab);
    penalise(sm, in, c, n);
    if (sm->temperature < 1e-6f) {
        *token = best_of(c, n).id;
        return true;
    }
    n = keep_top_k(c, n, (size_t)sm->top_k);
    n = keep_top_p(c, n, sm->top_p);
    Candidate best = best_of(c, n);
    n = keep_min_p(c, n, best.logit, sm->min_p);
    *token = draw(sm, c, n, best);
    return true;
}
