/* engine.h: an opened model as sessions see it: file, tokenizer, transformer, budget, and the lock that serialises
 * passes.
 *
 * Opening decides everything about memory before it takes any: header -> bind -> plan -> (refuse | load). */
#ifndef THIMBLE_ENGINE_H
#define THIMBLE_ENGINE_H

#include <pthread.h>

#include "model/model.h"
#include "text/tokenizer.h"

typedef struct Engine {
    ThimbleModelOptions options;
    Budget budget;
    Gguf gguf;
    Vocab vocab;
    Tokenizer *tokenizer;
    Model model;
    ModelPlan plan;
    bool has_budget, has_vocab, has_model, has_weights;
    pthread_mutex_t lock; /* one pass at a time */
    int open_sessions;
    int draft_asked, draft; /* THIMBLE_DRAFT_*: by the options, and what the plan holds (OFF where it does not pay) */
    double draft_slope;     /* predicted cost of a further row of a pass, in plain passes */
    double draft_guess;     /* likewise of one guess of the MTP head */
    float *logits; /* [logit_rows][n_vocab], shared by scoring sessions */
    int logit_rows;
    bool has_identity; /* identity and rules: of snapshot.c */
    uint64_t identity[2], rules;
    double opened_at, load_s;
    char path[1024], isa[128], why_unsupported[512];
    char architecture[64], name[256], tokenizer_model[64], tokenizer_pre[64];
    Arena arena; /* of the description */
    ThimbleModelInfo info;
} Engine;

/* Reads what options mean on this machine (budget, threads, ISA) and checks their ranges. */
bool th_engine_resolve(const ThimbleModelOptions *o, ModelOptions *out, Err *err);
bool th_engine_open(Engine *e, const char *path, const ThimbleModelOptions *o, Err *err);
void th_engine_close(Engine *e); /* accepts any half-built Engine */
bool th_engine_plan(const char *path, const ThimbleModelOptions *o, ThimblePlan *out, Err *err);

uint64_t th_engine_automatic_budget(void); /* what budget 0 means right now */

#endif
