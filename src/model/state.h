/* state.h: what one sequence remembers: a KV cache per attention layer, recurrent state per recurrent layer. */
#ifndef THIMBLE_STATE_H
#define THIMBLE_STATE_H

#include "op/op.h"

/* Position p lies in cell p % n_cells; a full cache has `context` cells, a window's ring window + batch - 1 (rounded). */
typedef struct KvCache {
    void *k, *v;        /* [n_cells][Hk * D], [n_cells][Hk * Dv] in the cache type */
    int n_cells, window;
    int k_row, v_row;   /* values per cell */
} KvCache;

struct SeqState {
    int cache_type;     /* THIMBLE_CACHE_* */
    int n_kv;
    KvCache *kv;        /* [n_kv] */
    int context;
    int length;         /* positions evaluated */
    int high;           /* highest length since the last reset: how far rings have been overwritten */
    void *memory;       /* one region */
    uint64_t bytes;
};

typedef struct Model Model;
uint64_t th_state_bytes(const Model *m, int context, int batch); /* of one sequence */
bool th_state_open(SeqState *s, const Model *m, Err *err);
void th_state_close(SeqState *s, const Model *m);
/* Forgets positions >= length; false (nothing changed) if a ring no longer holds what it would need. */
bool th_state_rewind(SeqState *s, int length);
size_t th_cache_value_bytes(int cache_type, int n); /* bytes of n consecutive cached values */

#endif
