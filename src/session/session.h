/* session.h: one conversation: a timeline of tokens and the memory that belongs to it. */
#ifndef THIMBLE_SESSION_H
#define THIMBLE_SESSION_H

#include "session/checkpoint.h"
#include "session/engine.h"

typedef struct Session {
    Engine *engine;
    ThimbleProgress progress;
    SeqState state;
    Checkpoints checkpoints;
    int parting; /* prompts part here: worth a checkpoint when a pass comes by; 0: nowhere */
    int32_t *tokens; /* [context] */
    int length;
    float *logits; /* [n_vocab], valid if has_logits */
    bool has_logits;
    void *candidates;   /* sampler scratch, [n_vocab] */
    ThimbleStats stats; /* the parts that are the session's own */
    double first_token_at;
} Session;

bool th_session_open(Session *s, Engine *e, const ThimbleSessionOptions *o, Err *err);
void th_session_close(Session *s);
bool th_session_sync(Session *s, const int32_t *tokens, size_t n, Err *err);
bool th_session_eval(Session *s, const int32_t *tokens, size_t n, Err *err);
/* How many of the n tokens sync would keep, as things stand: the rest is evaluated. */
size_t th_session_reusable(const Session *s, const int32_t *tokens, size_t n);
bool th_session_rewind(Session *s, size_t position, Err *err);
bool th_session_score(Session *s, const int32_t *tokens, size_t n, ThimbleScoreFn fn, void *arg, Err *err);
/* One token each, in one pass; all of one engine and all different. */
bool th_session_eval_batch(Session *const *s, const int32_t *tokens, size_t n, Err *err);
bool th_session_sample(Session *s, ThimbleSampler *sm, int32_t *token, Err *err);
void th_session_stats(const Session *s, ThimbleStats *out);
/* Bytes one session takes beside its SeqState. */
uint64_t th_session_own_bytes(int context, int n_vocab);

#endif
