/* toy_store.h: a small weight file and the store on it, for tests of homes and plan. Bytes are a pattern without
 * meaning; what a store pins is compared with the file as it was written.
 *
 *     ToyShape shape = TOY_SHAPE;  toy_write(&toy, &shape);
 *     toy_open(&toy, &options, k)  -> toy.ws bound in running order, as a model binds it
 *     toy_load(&toy, bytes)        -> planned for so many bytes and loaded
 *     toy_pass(&toy, seed)         -> one pass: every matrix, k experts of each layer; all compared
 *     toy_close(&toy); toy_remove(&toy) */
#ifndef THIMBLE_TOY_STORE_H
#define THIMBLE_TOY_STORE_H

#include "common/faulty.h"
#include "common/scratch.h"
#include "weights/weights.h"

enum { TOY_LAYERS = 8 };
typedef struct ToyShape {
    int layers, experts, dim, ff, expert_ff, vocab;
    bool tied; /* no output.weight: the embedding is the head */
} ToyShape;
#define TOY_SHAPE ((ToyShape){.layers = 4, .experts = 12, .dim = 512, .ff = 3000, .expert_ff = 96, .vocab = 2500})

typedef struct Toy {
    Scratch dir;
    ToyShape shape;
    char path[512];
    char *bytes; /* of the file */
    size_t len;
    Gguf gguf;
    Budget budget;
    Kernels kernels;
    Weights *ws;
    WeightsPlan plan;
    uint64_t planned_from; /* used before load */
    int k;
    const Weight *embd, *head, *final_norm;
    const Weight *norm[TOY_LAYERS], *q[TOY_LAYERS], *up[TOY_LAYERS], *down[TOY_LAYERS];
    const Weight *router[TOY_LAYERS], *bundle[TOY_LAYERS];
    char why[512]; /* what a pass found wrong */
} Toy;

void toy_write(Toy *t, const ToyShape *shape);
bool toy_open(Toy *t, const WeightsOptions *o, int k, Err *err);
bool toy_load(Toy *t, uint64_t bytes, Err *err);
void toy_close(Toy *t); /* the store and the file; toy_open may follow */
void toy_remove(Toy *t);

bool toy_pass(Toy *t, uint64_t seed, Err *err); /* false: failed (err) or wrong bytes (why) */
bool toy_dense(Toy *t, const Weight *w, Err *err);
bool toy_experts(Toy *t, const Weight *bundle, const int *ids, int n, Err *err); /* want, pin, compare, unpin */
bool toy_rows(Toy *t, const int32_t *rows, int n, Err *err);
bool toy_view_equals(Toy *t, const View *v);
bool toy_vectors(Toy *t);

#endif
