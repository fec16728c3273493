/* state.h: what one sequence remembers: bytes per layer, whose meaning is the business of the layer's mix block (a KV
 * cache, a recurrent state). One region for all of them, taken when the sequence is opened. */
#ifndef THIMBLE_STATE_H
#define THIMBLE_STATE_H

#include "op/op.h"

typedef struct Model Model;

struct SeqState {
    const Model *model;
    int cache_type;      /* THIMBLE_CACHE_* */
    int context, batch;  /* what the layout was made for */
    int length;          /* positions evaluated */
    int high;            /* highest position + 1 written since the last reset: how far rings have been overwritten */
    char **layer;        /* [n_layer] memory of each layer, NULL if it keeps nothing */
    void *memory;        /* one region */
    uint64_t bytes, layer_bytes;
};

uint64_t th_state_bytes(const Model *m, int context, int batch); /* of one sequence, as entered in the budget */
bool th_state_open(SeqState *s, const Model *m, Err *err);       /* for m->context and m->batch; after th_model_load */
void th_state_close(SeqState *s, const Model *m);                /* accepts a zeroed SeqState */
/* Forgets positions >= length; false (nothing changed) if the memory cannot (a ring went past it). */
bool th_state_rewind(SeqState *s, int length);

#endif
