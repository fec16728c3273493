/* loops.h: has an answer fallen into repetition?
 *
 * Perplexity does not see loops: a model that scores a text well may still say the same line for ever when it runs
 * free. Pure arithmetic on ids, so that a test can hold it to its definition. */
#ifndef TOOLS_LOOPS_H
#define TOOLS_LOOPS_H

#include <stddef.h>
#include <stdint.h>

enum { LOOP_MAX_PERIOD = 64, LOOP_MIN_TIMES = 4, LOOP_MIN_TOKENS = 48 };

/* The smallest period p <= LOOP_MAX_PERIOD with which the end of id[0..n) repeats itself for at least LOOP_MIN_TIMES
 * periods and LOOP_MIN_TOKENS tokens; 0: it does not loop. */
size_t loop_period(const int32_t *id, size_t n);
#endif
