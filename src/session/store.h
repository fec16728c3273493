/* store.h: prompts that were evaluated before: a folder of snapshots with a bound on its bytes, shared by sessions,
 * processes and restarts.
 *
 * A snapshot is reused as far as its exact tokens and those asked for agree: all of it, or what its memory can go back
 * to (anything for full attention, checkpoints for recurrent memory). Of several the one that leaves least to evaluate
 * wins. Of another model, cache type, rules or instruction set none is touched: with a store, too, bits are those of a
 * run without it. Names are made of hashes and numbers alone.
 *
 * What goes when room is needed: each snapshot has a score, the logarithm of its uses (each counts half after 6 hours)
 * and of its tokens per byte. The first part is kept where no index can get out of step with the files: as each file's
 * modification time. A use sets it to now + 6 h * log2(1 + what the uses so far are still worth); a file that was used
 * once, x hours ago, has the time it was used. */
#ifndef THIMBLE_STORE_H
#define THIMBLE_STORE_H

#include "session/snapshot.h"

typedef struct Store {
    Engine *engine;
    char dir[900];
    uint64_t most_bytes;
} Store;

/* Makes the folder if need be and removes what crashed writers left in it. */
bool th_store_open(Store *st, Engine *e, const char *dir, uint64_t most_bytes, Err *err);
/* Before a sync to tokens: loads what saves the session most; *kept is what sync will not evaluate. A damaged snapshot
 * is removed and the next one tried. False only if the folder or the model's file cannot be read. */
bool th_store_restore(Store *st, Session *s, const int32_t *tokens, size_t n, size_t *kept, Err *err);
/* Keeps the session as it stands; *stored says whether (not if it is too short to be worth it or larger than the
 * store). */
bool th_store_keep(Store *st, Session *s, bool *stored, Err *err);
/* The longest timeline whose text (control tokens included) is the beginning of text: its tokens (at most cap; *n is
 * the full count, 0: none) and the bytes it stands for, so that only the rest has to be tokenised: how a text that a
 * client sends back becomes the very tokens that were sampled. */
bool th_store_match(Store *st, Session *s, Str text, int32_t *tokens, size_t cap, size_t *n, size_t *bytes, Err *err);

/* Pure, for tests: the modification time after one more use, and what a file is worth (higher stays). */
double th_store_used(double when, double now);
double th_store_score(double when, int n_tokens, uint64_t bytes);

#endif
