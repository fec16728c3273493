/* thread.h: starting the threads of pool and readers: small stacks, and no signal of the host's lands on them. */
#ifndef THIMBLE_THREAD_H
#define THIMBLE_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* What one thread's stack may take at most; touched pages only are resident. More where the system demands more. */
#define TH_THREAD_STACK (256 * TH_KIB)

/* E_NOMEM on failure. Asynchronous signals are blocked in the new thread; faults (SIGBUS, SIGSEGV, ...) are not, so
 * that a host's handler sees them. */
bool th_thread_start(pthread_t *out, void *(*fn)(void *), void *arg, const char *role, Err *err);

#endif
