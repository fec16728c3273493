/* replay.h: feeds given tokens through the public API and hands out the log-probabilities after each step. */
#ifndef THIMBLE_REPLAY_H
#define THIMBLE_REPLAY_H

#include <jansson.h>

#include "runner/vectors.h"
#include "thimble/thimble.h"

typedef struct Replay {
    ThimbleModel *model;
    ThimbleSession *session;
    double *logp; /* [n_vocab] after the last replay_feed */
    size_t n_vocab;
    char why[512]; /* what failed */
} Replay;

/* 1: ready; 0: this build does not have the architecture (why says which); -1: failed. */
int replay_open(Replay *r, const char *path, json_t *expect);
void replay_close(Replay *r);
bool replay_restart(Replay *r);
bool replay_feed(Replay *r, const int32_t *tokens, size_t n); /* fills logp */
/* Largest |ln p - expected| over [[id, ln p], ...]; ids outside the vocabulary give infinity. */
double replay_top_difference(const Replay *r, const json_t *top);
int32_t replay_best(const Replay *r); /* lowest id of the largest */

typedef void ReplayCase(Tally *t, const char *name, Replay *r, const json_t *expect);
/* Runs `judge` for each folder of dir that holds model.gguf and expect.json, by name. False if there is none. */
bool replay_cases(const char *dir, Tally *t, ReplayCase *judge);
/* ids of a JSON array, at most cap. */
size_t replay_ids(const json_t *array, int32_t *out, size_t cap);

#endif
