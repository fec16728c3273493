/* loops.c: see loops.h. For each period the run of tokens equal to the one a period before is counted from the end; the
 * first period takes part as well, so p + run tokens repeat. */
#include "common/loops.h"

size_t loop_period(const int32_t *id, size_t n) {
    for (size_t period = 1; period <= LOOP_MAX_PERIOD && period < n; period++) {
        const size_t times = LOOP_MIN_TIMES * period, need = times > LOOP_MIN_TOKENS ? times : LOOP_MIN_TOKENS;
        size_t run = 0;
        while (run < need && run + period < n && id[n - 1 - run] == id[n - 1 - run - period]) run++;
        if (run + period >= need) return period;
    }
    return 0;
}
