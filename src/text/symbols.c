/* symbols.c: the merging both algorithms share: take the pair of lowest priority, leftmost among equals, merge, repeat.
 *
 * Each symbol knows the priority of the pair it begins. Words of a few characters are searched; longer ones keep a heap
 * of (priority, left). A heap entry is stale when the symbol's present priority differs: if it is equal, the entry says
 * the truth whatever happened in between. The heap holds no more entries than there were symbols: when it is full it is
 * rebuilt from the list, which halves the number of stale entries each time. */
#include <string.h>

#include "text/tokenizer_parts.h"

enum { SEARCHED = 32, BYTES_PER_SYMBOL = 8 + 6 * 4 };
static const uint32_t NO_PAIR = UINT32_MAX;

bool th_symbols_reserve(Work *w, size_t n, Err *err) {
    Symbols *s = &w->symbols;
    if (n + 1 > s->cap) {
        size_t cap = th_max_size(128, n + 1);
        if (!th_work_room(w, &s->memory, cap * BYTES_PER_SYMBOL, 0, err)) return false;
        s->cap = s->memory.bytes / BYTES_PER_SYMBOL;
        s->heap = s->memory.data;
        s->start = (uint32_t *)(s->heap + s->cap);
        s->prev = s->start + s->cap;
        s->next = s->prev + s->cap;
        s->id = s->next + s->cap;
        s->priority = s->id + s->cap;
        s->result = s->priority + s->cap;
    }
    s->n = (uint32_t)n;
    return true;
}

static void rate(Symbols *s, PairFn *pair, const void *arg, uint32_t left) {
    uint32_t right = s->next[left];
    if (right == s->n || !pair(arg, s, left, right, &s->priority[left], &s->result[left])) s->priority[left] = NO_PAIR;
}

static void join(Symbols *s, uint32_t left) {
    uint32_t right = s->next[left], after = s->next[right];
    s->id[left] = s->result[left];
    s->next[left] = after;
    if (after != s->n) s->prev[after] = left;
    s->priority[right] = NO_PAIR;
}

static void merge_by_search(Symbols *s, PairFn *pair, const void *arg) {
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 0; i != s->n; i = s->next[i])
            if (s->priority[i] < s->priority[best]) best = i;
        if (s->priority[best] == NO_PAIR) return;
        join(s, best);
        rate(s, pair, arg, best);
        if (best) rate(s, pair, arg, s->prev[best]);
    }
}

static void sift_down(uint64_t *heap, size_t at, size_t n) {
    uint64_t key = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (key <= heap[child]) break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

static size_t rebuild(Symbols *s) {
    size_t n = 0;
    for (uint32_t i = 0; i != s->n; i = s->next[i])
        if (s->priority[i] != NO_PAIR) s->heap[n++] = (uint64_t)s->priority[i] << 32 | i;
    for (size_t i = n / 2; i-- > 0;) sift_down(s->heap, i, n);
    return n;
}

static size_t push(Symbols *s, size_t n, uint32_t left) {
    if (s->priority[left] == NO_PAIR) return n;
    if (n == s->n) return rebuild(s); /* finds the new pair in the list */
    uint64_t key = (uint64_t)s->priority[left] << 32 | left;
    size_t at = n;
    for (size_t parent; at && key < s->heap[parent = (at - 1) / 2]; at = parent) s->heap[at] = s->heap[parent];
    s->heap[at] = key;
    return n + 1;
}

static void merge_by_heap(Symbols *s, PairFn *pair, const void *arg) {
    size_t n = rebuild(s);
    while (n) {
        uint64_t key = s->heap[0];
        uint32_t left = (uint32_t)key;
        s->heap[0] = s->heap[--n];
        if (n) sift_down(s->heap, 0, n);
        if (s->priority[left] != key >> 32) continue;
        join(s, left);
        rate(s, pair, arg, left);
        n = push(s, n, left);
        if (left == 0) continue;
        rate(s, pair, arg, s->prev[left]);
        n = push(s, n, s->prev[left]);
    }
}

void th_symbols_merge(Symbols *s, PairFn *pair, const void *arg) {
    if (s->n == 0) return;
    for (uint32_t i = 0; i < s->n; i++) {
        s->prev[i] = i - 1;
        s->next[i] = i + 1;
    }
    for (uint32_t i = 0; i < s->n; i++) rate(s, pair, arg, i);
    if (s->n <= SEARCHED)
        merge_by_search(s, pair, arg);
    else
        merge_by_heap(s, pair, arg);
}
