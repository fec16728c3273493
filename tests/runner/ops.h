/* ops.h: what the checks of single operations share: numbers from JSON, comparison, and a pass without a model.
 *
 * One file of cases = one function: ops_<file name> in ops_*.c, found by its weak symbol in ops.c. */
#ifndef THIMBLE_RUNNER_OPS_H
#define THIMBLE_RUNNER_OPS_H

#include <jansson.h>

#include "op/scan.h"
#include "runner/vectors.h"

/* A pass of up to OPS_ROWS rows on two threads, for operations that touch no weights. */
enum { OPS_ROWS = 256 };
typedef struct Ops {
    Pass pass;
    Kernels kernels;
    Scratch scratch;
    PassRow rows[OPS_ROWS];
    Err err;
} Ops;
bool ops_open(Ops *o);
void ops_close(Ops *o);
/* Rows of one sequence from position `first` on. */
void ops_rows(Ops *o, int first, int T);

/* Recurrent memories on trial: `hold` rows of each pass move them, the rest is taken back and comes again; 0: no
 * trials. ops_try makes run->journal ready for a pass over T rows; after it, ops_settle moves the memory and tells by
 * how many rows. */
typedef struct OpsTrial {
    ScanJournal journal;
    float *work;
    int hold;
} OpsTrial;
bool ops_trial_open(OpsTrial *trial, int hold);
void ops_trial_close(OpsTrial *trial);
void ops_try(OpsTrial *trial, ScanRun *run);
int ops_settle(Ops *o, OpsTrial *trial, int T);

/* All numbers of a nested array, in order; NULL (and *n 0) if it is no array. Free with free(). */
float *ops_floats(const json_t *array, size_t *n);
/* The same of a member of a case; ends the check of this case (returns NULL after tally_fail) unless it has n numbers.
 */
float *ops_member(Tally *t, const json_t *set, const char *key, size_t n);
int ops_int(const json_t *set, const char *key);
double ops_real(const json_t *set, const char *key);
const char *ops_text(const json_t *set, const char *key); /* "" if absent */

/* Largest |got - want| over an array of numbers, each divided by max(|want|, floor) if relative is set. Infinity if the
 * lengths differ. */
double ops_difference(const float *got, size_t n, const json_t *want);
double ops_relative(const float *got, size_t n, const json_t *want, double floor);
double ops_largest(const json_t *array); /* largest |value| */
/* Passes if off <= limit. */
void ops_judge(Tally *t, const char *set, const char *name, const char *what, double off, double limit);

typedef void OpsFn(const json_t *set, Tally *t);
OpsFn ops_rope, ops_attention, ops_mla, ops_moe_routing, ops_activations, ops_norms, ops_gated_delta_net, ops_kda,
    ops_mamba2, ops_shortconv;

#endif
