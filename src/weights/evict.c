/* evict.c: see evict.h. */
#include "weights/evict.h"

#include <math.h>

#include "thimble/thimble.h"

/* A use counts half after this many tokens. */
enum { HALF_LIFE = 16 };

float th_heat_now(Heat h, uint32_t now) {
    if (h.uses <= 0) return 0;
    return h.uses * exp2f(-(float)(now - h.last) / HALF_LIFE);
}

void th_heat_use(Heat *h, uint32_t now) {
    h->uses = th_heat_now(*h, now) + 1;
    h->last = now;
}

bool th_evict_first(EvictPolicy policy, Heat a, uint32_t now_a, Heat b, uint32_t now_b) {
    uint32_t age_a = now_a - a.last, age_b = now_b - b.last;
    if (policy == EVICT_LFRU) {
        float heat_a = th_heat_now(a, now_a), heat_b = th_heat_now(b, now_b);
        if (heat_a < heat_b) return true;
        if (heat_a > heat_b) return false;
    }
    return age_a > age_b;
}

EvictPolicy th_evict_policy(int option) { return option == THIMBLE_EVICT_LRU ? EVICT_LRU : EVICT_LFRU; }
