/* signals.h: Ctrl-C once ends the answer, twice the program; SIGTERM and SIGHUP end it soon; SIGPIPE is a write error.
 *
 * A signal handler can reach nothing but statics, so these counters are the one piece of global state of the program.
 */
#ifndef TOOLS_SIGNALS_H
#define TOOLS_SIGNALS_H

#include <stdbool.h>

void signals_install(void);
/* Turns the SIGBUS of a mapped file that shrank under us into a sentence and exit 5. */
void signals_guard_mapping(void);
/* Has someone asked to stop? */
bool signals_stop(void);
bool signals_terminated(void);
/* 143 after SIGTERM or SIGHUP, else 130. */
int signals_exit_code(void);
/* Waits until fd can be read (or has ended); false: someone asked to stop first. */
bool signals_wait_readable(int fd);
/* A Ctrl-C has been dealt with (chat returns to its prompt): the next one counts as the first again. */
void signals_forget_interrupt(void);
#endif
