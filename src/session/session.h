/* session.h: one conversation: a timeline of tokens and the memory that belongs to it. */
#ifndef THIMBLE_SESSION_H
#define THIMBLE_SESSION_H

#include "session/checkpoint.h"
#include "session/draft.h"
#include "session/engine.h"

/* Replaces guesses, so that a measurement can state their luck: guess i of a run is the token that really follows with
 * the given chance, and a wrong one otherwise. Nothing but tests sets it. */
typedef struct DraftScript {
    const int32_t *truth; /* the whole timeline, from position 0 */
    int n;
    double chance;
    uint64_t *rng;        /* [4] */
} DraftScript;

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
    int32_t pending;    /* handed out by next, not yet evaluated, if has_pending */
    bool has_pending;
    float *hidden;      /* with an MTP head, [2][E]: the trunk's behind position hidden_at - 1, and a guess's */
    int hidden_at;
    int foresight_at; /* what the head foresees for this position is in its hidden state at hidden + E; 0: nothing */
    Pace pace;              /* of drafts */
    const DraftScript *script; /* tests only; NULL */
    double decode_stall_s; /* of the time spent decoding, what was spent waiting for reads */
    double drafted_s, undrafted_s; /* decoding since a plain pass was measured, and what it would have taken without */
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
/* See thimble_session_next. */
bool th_session_next(Session *s, ThimbleSampler *sm, int32_t *tok, size_t cap, size_t *n, Err *err);
bool th_session_sample(Session *s, ThimbleSampler *sm, int32_t *token, Err *err);
void th_session_stats(const Session *s, ThimbleStats *out);

/* ---- for decode.c ------------------------------------------------------------------------------------------------ */

/* -INFINITY for ids without vocabulary entry: padding rows of the matrix (architectures specification, trap 24). */
void th_session_mask_padding(const Engine *e, float *logits);
/* The sampler's choice from logits that follow the first n_history tokens of the timeline. */
bool th_session_pick(Session *s, ThimbleSampler *sm, const float *logits, int n_history, int32_t *token, Err *err);
/* How many of `left` tokens the next pass takes: it ends where a checkpoint is wanted. */
int th_session_pass_size(const Session *s, size_t left);
void th_session_take_checkpoint(Session *s); /* if the timeline ends at a place for one */
/* After a failed pass that spoilt recurrent memory: from the last checkpoint back to where the timeline ends. */
bool th_session_mend(Session *s, Err *err);
static inline uint64_t th_session_hidden_bytes(const Model *m) { return 2 * (uint64_t)m->hp.n_embd * sizeof(float); }
/* The MTP head's cache follows the trunk: n rows of a pass of this session, rows and hidden being the first one's. The
 * last hidden state is kept for the next guess. watch: what the head foresees is kept for the token behind the last row
 * (foresight_at), and compared with the last few of the rows' tokens themselves. */
bool th_session_follow(Session *s, const PassRow *rows, const float *hidden, int n, bool watch, Err *err);
/* What passes cost: taken before and after; added adds the difference for n tokens to the session's figures. */
typedef struct Measure {
    double at, stall_s;
    uint64_t io_bytes, moved;
} Measure;
Measure th_session_measure(Engine *e);
void th_session_measured(Session *s, const Measure *begin, const Measure *end, int n, bool is_decode);

/* Bytes one session takes beside its SeqState. */
uint64_t th_session_own_bytes(int context, int n_vocab);

#endif
