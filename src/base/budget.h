/* budget.h: the ledger behind `--ram`.
 *
 * Everything above 64 KiB that the library takes is entered here before it is taken and crossed out after it is given
 * back, by class. The limit is hard: th_budget_take fails rather than pass it. Thread-safe. Not covered by entries:
 * code, libraries, stacks and allocator slack; the plan enters an allowance for them under MEM_RESERVE. */
#ifndef THIMBLE_BUDGET_H
#define THIMBLE_BUDGET_H

#include <pthread.h>

#include "base/err.h"

typedef enum MemClass {
    MEM_METADATA, /* header, tensor directory, tokenizer */
    MEM_RESIDENT, /* weights that stay                   */
    MEM_RING,     /* stream ring                         */
    MEM_SLOTS,    /* expert slots                        */
    MEM_KV,       /* KV and recurrent state              */
    MEM_SCRATCH,  /* activations, logits                 */
    MEM_IO,       /* bounce buffers                      */
    MEM_RESERVE,  /* code, libraries, stacks, slack      */
    N_MEM_CLASSES
} MemClass;

typedef struct Budget {
    pthread_mutex_t lock;
    uint64_t limit, used, peak;
    uint64_t by_class[N_MEM_CLASSES];
} Budget;

void th_budget_init(Budget *b, uint64_t limit);
void th_budget_free(Budget *b);
void th_budget_limit(Budget *b, uint64_t limit);                      /* replaces the limit; entries stay */
bool th_budget_take(Budget *b, MemClass c, uint64_t bytes, Err *err); /* E_BUDGET names class, bytes and what is left */
void th_budget_give(Budget *b, MemClass c, uint64_t bytes);
const char *th_mem_class_name(MemClass c);

/* Zeroed memory entered under c; NULL on failure. Free with the same size. align >= 16, a power of two. */
void *th_mem_alloc(Budget *b, MemClass c, size_t bytes, size_t align, Err *err);
void th_mem_free(Budget *b, MemClass c, void *p, size_t bytes); /* p may be NULL */

#endif
