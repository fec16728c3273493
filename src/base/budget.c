/* budget.c: see budget.h. Memory of th_mem_alloc comes from the C allocator; large regions come from os/vm and only use
 * the ledger. */
#include "base/budget.h"

#include <stdlib.h>
#include <string.h>

static const char *const class_names[N_MEM_CLASSES] = {"metadata", "resident weights", "stream ring", "expert slots",
                                                       "KV",       "scratch",          "I/O buffers", "reserve"};

const char *th_mem_class_name(MemClass c) { return class_names[c]; }

void th_budget_init(Budget *b, uint64_t limit) {
    memset(b, 0, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    b->limit = limit;
}

void th_budget_free(Budget *b) { pthread_mutex_destroy(&b->lock); }

void th_budget_limit(Budget *b, uint64_t limit) {
    pthread_mutex_lock(&b->lock);
    b->limit = limit;
    pthread_mutex_unlock(&b->lock);
}

bool th_budget_take(Budget *b, MemClass c, uint64_t bytes, Err *err) {
    pthread_mutex_lock(&b->lock);
    bool fits = b->used <= b->limit && bytes <= b->limit - b->used;
    uint64_t left = b->used <= b->limit ? b->limit - b->used : 0;
    if (fits) {
        b->used += bytes;
        b->by_class[c] += bytes;
        if (b->used > b->peak) b->peak = b->used;
    }
    pthread_mutex_unlock(&b->lock);
    if (fits) return true;
    return th_fail(err, THIMBLE_E_BUDGET, "%s needs %llu bytes but only %llu of the budget of %llu are left",
                   class_names[c], (unsigned long long)bytes, (unsigned long long)left, (unsigned long long)b->limit);
}

void th_budget_give(Budget *b, MemClass c, uint64_t bytes) {
    pthread_mutex_lock(&b->lock);
    b->used -= bytes;
    b->by_class[c] -= bytes;
    pthread_mutex_unlock(&b->lock);
}

void *th_mem_alloc(Budget *b, MemClass c, size_t bytes, size_t align, Err *err) {
    size_t rounded = (size_t)th_align_up(bytes ? bytes : 1, align);
    if (!th_budget_take(b, c, bytes, err)) return NULL;
    void *p = aligned_alloc(align, rounded);
    if (!p) {
        th_budget_give(b, c, bytes);
        th_fail(err, THIMBLE_E_NOMEM, "the system refused %zu bytes for %s", bytes, class_names[c]);
        return NULL;
    }
    return memset(p, 0, rounded);
}

void th_mem_free(Budget *b, MemClass c, void *p, size_t bytes) {
    if (!p) return;
    free(p);
    th_budget_give(b, c, bytes);
}
