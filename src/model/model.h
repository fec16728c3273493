/* model.h: one opened transformer: file, numbers, layers, weights, threads, budget. */
#ifndef THIMBLE_MODEL_H
#define THIMBLE_MODEL_H

#include "model/arch.h"
#include "model/state.h"

typedef struct ModelOptions { /* resolved: no zeros that mean "auto" except where said */
    uint64_t budget;
    bool budget_explicit;
    int threads, context /* 0: auto */, sessions, batch /* 0: auto */, cache_type, experts;
    float route_bias;
    unsigned isa;
    WeightsOptions weights;
} ModelOptions;

struct Model {
    ModelOptions options;
    Budget *budget;
    Gguf *gguf;              /* owned by the caller, open, outlives the model */
    Arena arena;
    Hparams hp;
    Kernels kernels;
    Pool *pool;
    Weights *ws;
    Layer *layers;           /* [hp.n_layer] */
    const Weight *embd, *head, *final_norm, *head_bias;
    Rope rope[2];            /* full, sliding */
    int context, batch, threads;
    Scratch scratch;
    void *scratch_memory;
    PassRow *rows;           /* [max(batch, sessions)] */
    RouteStats route_stats;
    uint64_t moved;
};

typedef struct ModelPlan {
    uint64_t floor;          /* for options.context (512 or trained length if 0), batch 1 */
    bool fits;
    int context, max_context, batch;
    uint64_t metadata, kv, scratch, reserve;
    WeightsPlan weights;
    WeightsNeed need;
} ModelPlan;

/* Steps of opening; each may be the last. bind reads no weight bytes; plan is pure; load takes the memory. extra:
 * bytes of the budget that others will take (tokenizer, session objects). */
bool th_model_bind(Model *m, Gguf *g, Budget *b, const ModelOptions *o, Err *err);
bool th_model_plan(Model *m, uint64_t extra, ModelPlan *out, Err *err); /* true with fits == false below the floor */
bool th_model_load(Model *m, const ModelPlan *plan, Err *err);
void th_model_close(Model *m); /* accepts any half-built Model */

/* One pass over T rows (T <= m->batch, tokens checked by the caller). hidden [T][E], post-final-norm, is left in scratch
 * and *hidden points to it until th_model_finish. */
bool th_model_forward(Model *m, const PassRow *rows, int T, float **hidden, Err *err);
/* logits [n][V] for rows pick[0..n) of the hidden states of the last forward. */
bool th_model_logits(Model *m, const float *hidden, const int *pick, int n, float *logits, Err *err);
void th_model_finish(Model *m); /* releases the pass's scratch */
int th_model_logit_rows(const Model *m); /* how many rows th_model_logits should be given at once */

#endif
