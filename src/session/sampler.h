/* sampler.h: the next token from logits: penalty, top-k, top-p, min-p, temperature, draw, in that order.
 *
 * One pass over the vocabulary keeps the best k in a heap; nothing is sorted beyond what is kept. Rules for odd values:
 * temperature below 1e-6 is arg-max with the lowest id winning ties; one candidate always remains; logits that are not
 * finite are never chosen (faults B30, B31). */
#ifndef THIMBLE_SAMPLER_H
#define THIMBLE_SAMPLER_H

#include "base/err.h"

typedef struct Candidate {
    float logit;
    int32_t id;
} Candidate;

typedef struct SampleInput {
    const float *logits; /* [n_vocab], untouched */
    int n_vocab;
    const int32_t *history; /* tokens so far, for the penalty */
    size_t n_history;
    const int32_t *suppress; /* never chosen */
    int n_suppress;
    Candidate *scratch; /* [n_vocab] */
} SampleInput;

/* E_ARG for parameters out of range, E_STATE if no logit is finite. *nonfinite counts NaN and +Inf logits. */
bool th_sampler_pick(ThimbleSampler *sm, const SampleInput *in, int32_t *token, uint64_t *nonfinite, Err *err);

#endif
