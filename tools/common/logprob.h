/* logprob.h: ln p of a row of logits, in double and in one fixed order, so that equal logits print alike everywhere. */
#ifndef TOOLS_LOGPROB_H
#define TOOLS_LOGPROB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ln of the sum of exp over the finite logits; logits that are not finite have p = 0. NAN if none is finite. */
double logprob_total(const float *logits, size_t n);
/* ln p of one id: -INFINITY where p = 0. */
double logprob_of(const float *logits, size_t n, double total, int32_t id);

typedef struct Top {
    int32_t *id; /* highest first, ties by lower id */
    size_t n;
} Top;
/* Selects the k most likely ids with p > 0 into room for k ids. */
void logprob_top(const float *logits, size_t n, size_t k, Top *top);
#endif
