/* model.h: one opened transformer: file, numbers, layers, weights, threads, budget. */
#ifndef THIMBLE_MODEL_H
#define THIMBLE_MODEL_H

#include "model/arch.h"
#include "model/state.h"

enum { AUTO_BATCH = 512, MOST_BATCH = 4096, MOST_SESSIONS = 256 };
enum { CHECKPOINTS_AUTO = -1, AUTO_CHECKPOINTS = 16, MOST_CHECKPOINTS = 256 };

typedef struct Mtp Mtp;

typedef struct ModelOptions { /* resolved: no zeros that mean "auto" except where said */
    uint64_t budget;
    bool budget_explicit;
    int threads, context /* 0: auto */, sessions, batch /* 0: auto; otherwise an upper bound */, cache_type, experts;
    int state_type; /* after bind f32 if no layer has a scan: then it changes nothing, and nothing is bound to it */
    bool mtp; /* bind the MTP head if the file has one */
    int checkpoints; /* of recurrent memory per session; CHECKPOINTS_AUTO: what the budget leaves for them */
    int draft_rows; /* most rows of a pass on trial, whose logits are all wanted at once (drafts); 0 or 1: none */
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
    Layer *layers;           /* [n_layers]: the trunk's hp.n_layer, then the MTP head's */
    int n_layers;
    Mtp *mtp;                /* mtp.h; NULL: not asked for or not there */
    const Weight *embd, *embd_scale, *final_norm;
    Linear head;
    const Weight *rope_factors[3]; /* rope_freqs, rope_factors_long, rope_factors_short; NULL: absent */
    Rope rope[MAX_ROPES];    /* full, sliding */
    double *rope_freq[MAX_ROPES];
    int n_ropes;
    int checkpoints;         /* a session may keep so many, each of th_state_checkpoint_bytes */
    int context, batch, threads; /* batch: most rows of one pass, at least options.sessions */
    Scratch scratch;         /* what the rows leave of scratch_memory */
    void *scratch_memory;
    size_t scratch_bytes;
    uint64_t reserve;        /* entered in the budget by load */
    PassRow *rows;           /* [batch] */
    ScanJournal journal;     /* of the pass on trial, in its scratch */
    float *scan_work;        /* [threads][scan_work_floats] of the pass, in its scratch; NULL where none is needed */
    size_t scan_work_floats;
    RouteStats route_stats;
    uint64_t moved;          /* weight bytes used by all passes so far */
    double memory_rate;      /* bytes per second, measured once the weights are loaded */
};

typedef struct ModelPlan {
    uint64_t floor;          /* for options.context (512 or trained length if 0), batch 1 */
    bool fits;
    int context, max_context, batch;
    int checkpoints;         /* per session; part of kv */
    uint64_t metadata, kv, scratch, reserve; /* metadata includes `extra`; kv is that of all sessions */
    WeightsPlan weights;
    WeightsNeed need;
} ModelPlan;

/* Steps of opening; each may be the last. bind reads no weight bytes; plan is pure; load takes the memory. extra:
 * bytes of the budget that others will take (tokenizer, session objects, logits: th_model_logit_rows x V floats). What
 * grows with the context is counted here: beside their state, sessions get 4 bytes for each token of their timelines.
 */
bool th_model_bind(Model *m, Gguf *g, Budget *b, const ModelOptions *o, Err *err);
bool th_model_plan(Model *m, uint64_t extra, ModelPlan *out, Err *err); /* true with fits == false below the floor */
bool th_model_load(Model *m, const ModelPlan *plan, Err *err);
/* What code, libraries, stacks and slack of a process with so many compute threads are allowed; 0: without any. */
uint64_t th_model_reserve(int threads);
void th_model_close(Model *m); /* accepts any half-built Model */

/* One pass over T rows (T <= m->batch; tokens in [0, V); each row's position = its sequence's length + how many rows of
 * that sequence come before it: E_ARG otherwise). hidden [T][E], post-final-norm, is left in scratch and *hidden points
 * to it until th_model_finish. On success the sequences' lengths have moved; on failure they have not. */
bool th_model_forward(Model *m, const PassRow *rows, int T, float **hidden, Err *err);
/* The same for rows of one sequence (T <= options.draft_rows) of which the last ones may be taken back: recurrent
 * memory stays as it was until th_state_settle, which must come before th_model_finish, also if the pass failed (its
 * length then being what it was). Caches are cut with th_state_rewind, as ever. */
bool th_model_try(Model *m, const PassRow *rows, int T, float **hidden, Err *err);
/* Of a journal for T rows. */
size_t th_model_journal_bytes(const Model *m, int T);
/* Floats of work for each thread in passes on trial, with another state type than f32 in all passes; 0: no scans. */
size_t th_model_scan_work_floats(const Model *m);
/* logits [n][V] for rows pick[0..n) of the hidden states of the last forward; n <= th_model_logit_rows. */
bool th_model_logits(Model *m, const float *hidden, const int *pick, int n, float *logits, Err *err);
/* The same for the pass's first n rows (n <= options.draft_rows), in its scratch: valid until th_model_finish. */
bool th_model_draft_logits(Model *m, const float *hidden, int n, float **logits, Err *err);
void th_model_finish(Model *m); /* releases the pass's scratch */
/* For mtp.c: parts of the above. */
Pass th_model_pass(Model *m, const PassRow *rows, int T, Err *err);
void th_model_ropes(const Model *m, Pass *p); /* tables of the pass's positions, from scratch */
bool th_model_block(Pass *p, const Layer *l, bool is_ffn, float *x, float *h, float *y); /* x += block(x); h, y: work */
bool th_model_head(Model *m, const Linear *head, const float *hidden, const int *pick, int n, float *logits, Err *err);
/* How many rows th_model_logits should be given at once: as many as fit about 1 MiB of logits. Known after bind. */
int th_model_logit_rows(const Model *m);

#endif
