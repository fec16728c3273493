/* term.h: standard error: notices, progress, the closing line, and the log file.
 *
 * Everything that is not the answer goes here. Messages carry names out of hostile files, so all are made printable. */
#ifndef TOOLS_TERM_H
#define TOOLS_TERM_H

#include "common/options.h"

#include <stdio.h>

typedef struct Term {
    bool quiet, verbose, is_tty, color, broken;
    bool progress_shown; /* a progress line stands in the current row */
    FILE *log;
    int log_error; /* errno of the first line that did not reach it */
    char last_error[1024]; /* what term_error said last, for those who read JSON */
    /* progress */
    int phase, last_percent;
    double phase_start, last_line;
} Term;

/* False: the log file cannot be opened, why[] says so. */
bool term_open(Term *t, const Options *o, char *why, size_t why_size);
bool term_close(Term *t); /* false: the log file could not be written, which has been said */
double term_now(void); /* seconds, monotonic */

__attribute__((format(printf, 2, 3))) void term_notice(Term *t, const char *format, ...);  /* not with -q */
__attribute__((format(printf, 2, 3))) void term_verbose(Term *t, const char *format, ...); /* only with -v */
__attribute__((format(printf, 2, 3))) void term_error(Term *t, const char *format, ...);   /* always */
/* Phases of our own, beside those of the library. */
enum { TERM_PHASE_MEASURE = 100, TERM_PHASE_ANSWER };
/* For ThimbleLog and ThimbleProgress; arg is the Term. Progress cancels once someone asked to stop. */
void term_log(void *arg, int level, const char *message);
int term_progress(void *arg, int phase, uint64_t done, uint64_t total);
/* Clears a progress line before something else is written to the terminal. */
void term_clear_progress(Term *t);
#endif
