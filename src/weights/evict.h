/* evict.h: which of two experts a cache would rather lose: pure functions, replayed on routing traces in the tests.
 *
 * LRU: last use decides. LFRU: how often it was used, each use fading with age, then last use. Frequency wins when a
 * layer has hardly more slots than one token needs (there LRU hits nothing: every layer pushes out what the next
 * token wants), recency wins above. */
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
/* The policy for `slots` slots over `layers` layers of which each token takes k experts; forced: THIMBLE_EVICT_*. */
EvictPolicy th_evict_policy(int forced, int slots, int layers, int k);

#endif
