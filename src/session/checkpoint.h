/* checkpoint.h: copies of a session's recurrent memory at earlier positions, so that a timeline can go back without
 * being computed again from its start.
 *
 *     position  0 . . . step . . . 2 step . . . * . . . 3 step . . . *        * turns
 *
 * There are two kinds in one set of slots. Aligned ones stand at the multiples of `step`, which begins at about 256
 * tokens; when their slots are used up it doubles and every other one goes, so that going back to any position costs at
 * most one step of recomputation, however long the timeline. Turns stand where a prompt ended or two prompts parted:
 * that is where chats come back to, exactly. Of them the first (the shared beginning) and the latest stay. A turn keeps
 * the logits, too: answering the same prompt again costs nothing.
 *
 * The number of slots is the plan's (Model.checkpoints); 0 is fine and means that going back starts from 0. */
#ifndef THIMBLE_CHECKPOINT_H
#define THIMBLE_CHECKPOINT_H

#include "model/model.h"

enum { CHECKPOINT_ALIGNED = 1, CHECKPOINT_TURN = 2 };

typedef struct Checkpoint {
    int position; /* 0: the slot is free */
    int kinds;
    bool has_logits;
} Checkpoint;

typedef struct Checkpoints {
    const Model *model;
    char *memory; /* [n] recurrent memory and logits, each th_state_checkpoint_bytes long */
    uint64_t bytes;
    size_t stride, logits_at;
    Checkpoint slot[MOST_CHECKPOINTS];
    int n, n_turns; /* slots; how many of them turns may have */
    int first_step, step;
} Checkpoints;

bool th_checkpoints_open(Checkpoints *c, const Model *m, Err *err); /* m->checkpoints of them */
void th_checkpoints_close(Checkpoints *c);                          /* accepts zeroes */
/* Where a pass that begins at length has to end for the sake of the next aligned checkpoint; INT_MAX: nowhere. */
int th_checkpoints_stop(const Checkpoints *c, int length);
/* The memory after state->length tokens becomes a checkpoint of these kinds (aligned: only if it is). logits may be
 * NULL. */
void th_checkpoints_take(Checkpoints *c, const SeqState *state, int kinds, const float *logits);
/* The highest at or below `length` that state can take; -1: none. */
int th_checkpoints_find(const Checkpoints *c, const SeqState *state, int length);
/* Makes the state that of slot i; false as th_state_load_recurrent. */
bool th_checkpoints_load(const Checkpoints *c, int i, SeqState *state);
const float *th_checkpoints_logits(const Checkpoints *c, int i); /* NULL: it has none */
void th_checkpoints_cut(Checkpoints *c, int length);             /* forgets all beyond length */

/* For snapshots: a slot for a checkpoint of these kinds at position, to be filled by the caller (memory and, with
 * has_logits, the logits behind it); NULL: there is none to spare for it. */
char *th_checkpoints_place(Checkpoints *c, int position, int kinds, bool has_logits);
static inline const char *th_checkpoints_memory(const Checkpoints *c, int i) {
    return c->memory + (size_t)i * c->stride;
}

#endif
