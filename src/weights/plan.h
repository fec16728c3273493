/* plan.h: the treasurer: which weight lives where so that all of it fits a number of bytes.
 *
 * Pure and exact: th_plan_cost is, to the byte, what th_weights_load enters in the ledger for a decision. Order of
 * what the bytes buy (each step is the larger gain per byte, specs/techniques.md):
 *
 *   1. vectors (norms, biases, routers), always
 *   2. everything, if everything fits
 *   3. the floor: slots for 2K + 1 experts of each size, a ring of three parts if the dense weights do not fit
 *   4. dense weights: each resident byte is a byte less to read in every pass. What must be streamed is spread evenly
 *      over the layers, so that reading goes on while resident parts are computed
 *   5. more expert slots, in proportion to the layers of each size
 *   6. embedding matrices that are only gathered: a row is one small read, so they come last; first rows first, for
 *      vocabularies begin with the commonest tokens */
#ifndef THIMBLE_PLAN_H
#define THIMBLE_PLAN_H

#include "weights/home.h"

typedef struct PlanCost {
    uint64_t resident, ring, slots, io;
} PlanCost;

void th_plan_need(const Weights *ws, int experts_used, WeightsNeed *out);
/* Fills ws->plan and the homes of the weights. */
bool th_plan_make(Weights *ws, uint64_t bytes, int experts_used, WeightsPlan *out, Err *err);
/* Sum of out; both may be asked for any decision. */
uint64_t th_plan_cost(const Weights *ws, const Decision *d, PlanCost *out);
double th_plan_hit_rate(double share); /* of experts in memory -> of accesses, as traces of real models go */

#endif
