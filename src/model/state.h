/* state.h: what one sequence remembers. A layer's mix block has two kinds of memory: a cache with a place per position
 * (Block.state), and a recurrent memory that is one and the same size after any number of tokens (Block.recurrent). One
 * region for all of them, taken when the sequence is opened.
 *
 *     [ tables | caches, layer by layer | recurrent memory, layer by layer ]
 *
 * A recurrent memory cannot be cut to a shorter prefix. A pass whose rows may be taken back is therefore run on trial
 * (th_model_try): it leaves the memory as it was and a journal of what would have moved it, by which th_state_settle
 * moves it on when it is known how many rows hold. The memory is one piece of bytes, so that a checkpoint or a snapshot
 * is one copy of it. After 0 tokens it is all zeros and nobody reads it: a run that begins at position 0 begins with
 * zeros. */
#ifndef THIMBLE_STATE_H
#define THIMBLE_STATE_H

#include "op/scan.h"

typedef struct Model Model;

struct SeqState {
    const Model *model;
    int cache_type;     /* THIMBLE_CACHE_* */
    int state_type;     /* THIMBLE_STATE_* of the recurrent memory; f32 without one */
    int context, batch; /* what the layout was made for */
    int length;         /* positions evaluated */
    int high;           /* highest position + 1 written since the last reset: how far rings have been overwritten */
    char **layer;       /* [n_layer] cache of each layer, NULL if it keeps none */
    uint64_t *slot_at;  /* [n_layer] where a layer's recurrent memory begins in the slot */
    char *slot;         /* the recurrent memory, [slot_bytes] */
    size_t slot_bytes;  /* 0: no layer is recurrent */
    int kept_at; /* the recurrent memory is that after so many tokens. A pass raises it before it writes and moves
                  * length when it has succeeded; kept_at > length: a failed pass spoilt the memory (and, as ever, the
                  * memory after 0 tokens is there); kept_at < length: rows on trial are not settled */
    ScanJournal *journal; /* of the pass on trial, until it is settled; NULL */
    int restored;  /* caches came from a snapshot of this length: rings hold nothing older than its windows */
    void *memory;  /* one region */
    uint64_t bytes;
};

uint64_t th_state_bytes(const Model *m, int context, int batch); /* of one sequence, as entered in the budget */
bool th_state_open(SeqState *s, const Model *m, Err *err);       /* for m->context and m->batch; after th_model_load */
void th_state_close(SeqState *s, const Model *m);                /* accepts a zeroed SeqState */
/* Forgets positions >= length; false (nothing changed) if the memory cannot: a ring went past it, or the recurrent
 * memory of that position is gone. Going back to 0 is always possible. */
bool th_state_rewind(SeqState *s, int length);
bool th_state_can_rewind(const SeqState *s, int length); /* would it? */
/* May a pass continue at length? Not after a failed pass that had begun to overwrite recurrent memory. */
static inline bool th_state_intact(const SeqState *s) {
    return s->slot_bytes == 0 || s->length == 0 || s->kept_at <= s->length;
}
/* A pass over T rows from length on is about to write. */
void th_state_begin(SeqState *s, int T);
/* Ends a trial: positions >= length are forgotten, the recurrent memory moves on to length, which is not below the
 * pass's first position. Nothing to do without a trial, or after a failed one. */
void th_state_settle(SeqState *s, int length);

/* ---- for blocks with a recurrent memory ----------------------------------------------------------------------------
 */

/* The pass's rows as runs of one sequence each, with the memory of layer `layer` and the journal of a trial; runs come
 * from scratch. */
ScanRun *th_state_runs(Pass *p, int layer, int *n);
static inline size_t th_state_runs_scratch(int T) { return th_scratch_size((size_t)T * sizeof(ScanRun)); }

/* ---- checkpoints: the recurrent memory after length tokens as one piece of slot_bytes -------------------------------
 */

/* Bytes of one checkpoint: the memory and the logits after the last token; 0 if no layer is recurrent. */
uint64_t th_state_checkpoint_bytes(const Model *m);
/* The memory after length tokens where it lies, NULL if there is none; length > 0. */
char *th_state_recurrent(const SeqState *s);
void th_state_save_recurrent(const SeqState *s, void *to);
/* The reverse, for a sequence that keeps its caches: its length becomes `length`, which must not exceed the present one
 * (nor what rings still hold: false, nothing changed). */
bool th_state_load_recurrent(SeqState *s, const void *from, int length);
bool th_state_can_load(const SeqState *s, int length); /* would it? */

/* ---- snapshots ------------------------------------------------------------------------------------------------------
 */

/* The rows of all caches that a sequence of `length` tokens needs, layer by layer and by ascending position, as pieces
 * of memory: the same bytes in the same order whatever context and batch the sequence was made for. Stops when fn says
 * false, and says so. */
typedef bool (*StatePieceFn)(void *arg, char *piece, size_t bytes);
bool th_state_pieces(const SeqState *s, int length, StatePieceFn fn, void *arg);
uint64_t th_state_pieces_bytes(const SeqState *s, int length);
/* The caches (and the recurrent memory, at th_state_recurrent) have been filled from outside for length tokens: until
 * then the sequence must be empty. */
void th_state_restored(SeqState *s, int length);

#endif
