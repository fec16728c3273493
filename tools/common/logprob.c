/* logprob.c: see logprob.h. The sum runs from id 0 upward around the largest logit. The k best are kept in a heap whose
 * root is the worst of them: n log k, no sorting of the vocabulary. */
#include "common/logprob.h"

#include <math.h>

double logprob_total(const float *logits, size_t n) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(logits[i]) && (double)logits[i] > most) most = (double)logits[i];
    if (!isfinite(most)) return NAN;
    for (size_t i = 0; i < n; i++)
        if (isfinite(logits[i])) sum += exp((double)logits[i] - most);
    return most + log(sum);
}

double logprob_of(const float *logits, size_t n, double total, int32_t id) {
    if (id < 0 || (size_t)id >= n || !isfinite(logits[id])) return -INFINITY;
    return (double)logits[id] - total;
}

static bool is_worse(const float *logits, int32_t a, int32_t b) {
    const float x = logits[a], y = logits[b];
    return x < y || (x == y && a > b);
}

static void sift_down(const float *logits, int32_t *heap, size_t n, size_t at) {
    for (;;) {
        size_t worst = at, left = 2 * at + 1, right = left + 1;
        if (left < n && is_worse(logits, heap[left], heap[worst])) worst = left;
        if (right < n && is_worse(logits, heap[right], heap[worst])) worst = right;
        if (worst == at) return;
        int32_t t = heap[at];
        heap[at] = heap[worst];
        heap[worst] = t;
        at = worst;
    }
}

void logprob_top(const float *logits, size_t n, size_t k, Top *top) {
    int32_t *heap = top->id;
    size_t size = 0;
    for (size_t i = 0; i < n && k; i++) {
        if (!isfinite(logits[i])) continue;
        if (size < k) {
            heap[size++] = (int32_t)i;
            if (size == k)
                for (size_t j = k / 2; j-- > 0;) sift_down(logits, heap, k, j);
        } else if (is_worse(logits, heap[0], (int32_t)i)) {
            heap[0] = (int32_t)i;
            sift_down(logits, heap, k, 0);
        }
    }
    if (size < k)
        for (size_t j = size / 2; j-- > 0;) sift_down(logits, heap, size, j);
    top->n = size;
    for (size_t end = size; end > 1;) { /* the worst goes to the end, again and again */
        end--;
        int32_t t = heap[0];
        heap[0] = heap[end];
        heap[end] = t;
        sift_down(logits, heap, end, 0);
    }
}
