/* evict.h: which of two experts a cache would rather lose: pure functions, replayed on routing traces in the tests.
 *
 * LRU: last use decides. LFRU: how often it was used, each use counting half after 16 tokens, then last use. LFRU is
 * what `auto` means: on recorded traces it finds more than LRU with few slots (where LRU, below a token's experts,
 * finds nothing at all) and no less with many, once uses fade that fast; docs/MEMORY.md has the table. */
#ifndef THIMBLE_EVICT_H
#define THIMBLE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum EvictPolicy { EVICT_LRU, EVICT_LFRU } EvictPolicy;

typedef struct Heat {
    float uses;    /* faded to `last` */
    uint32_t last; /* visit of the last use; 0: never used */
} Heat;

void th_heat_use(Heat *h, uint32_t now);          /* now: visits of the layer, from 1 */
float th_heat_now(Heat h, uint32_t now);          /* uses, faded to now */
/* True if a should go rather than b. Each is measured on its own layer's clock. */
bool th_evict_first(EvictPolicy policy, Heat a, uint32_t now_a, Heat b, uint32_t now_b);
EvictPolicy th_evict_policy(int option); /* of a THIMBLE_EVICT_* */

#endif
