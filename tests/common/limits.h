/* limits.h: makes the system refuse memory, as `ulimit -v` does. */
#ifndef THIMBLE_LIMITS_H
#define THIMBLE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Limits the address space to what this process has now and `more` bytes. The caller sets RLIMIT_AS to *before again.
 * False, with nothing changed, where that does not work (sanitizers, emulators). */
bool th_limit_address_space(uint64_t more, struct rlimit *before);

#endif
