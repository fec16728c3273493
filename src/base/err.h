/* err.h: why something failed, as a code of thimble.h and a sentence.
 *
 * Functions that can fail return false and fill an Err; `return th_fail(err, ...)`. Callers that know more prefix it.
 */
#ifndef THIMBLE_ERR_H
#define THIMBLE_ERR_H

#include "base/base.h"
#include "thimble/thimble.h"

typedef struct Err {
    int code; /* THIMBLE_E_*, 0 while nothing failed */
    char message[512];
} Err;

/* All accept err == NULL and return false. */
bool th_fail(Err *err, int code, const char *format, ...) TH_PRINTF(3, 4);
/* Appends ": " and strerror(number). */
bool th_fail_errno(Err *err, int code, int number, const char *format, ...) TH_PRINTF(4, 5);
/* Puts words in front of an existing message: "layer 7: ...". */
bool th_err_prefix(Err *err, const char *format, ...) TH_PRINTF(2, 3);

#endif
