/* err.c: formatting of failures; messages are cut, never overrun. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool th_fail(Err *err, int code, const char *format, ...) {
    if (!err) return false;
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return false;
}

bool th_fail_errno(Err *err, int code, int number, const char *format, ...) {
    if (!err) return false;
    va_list args;
    va_start(args, format);
    err->code = code;
    int n = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof err->message) {
        char words[128];
        /* The XSI strerror_r is thread-safe; _GNU_SOURCE is not defined for this file. */
        if (strerror_r(number, words, sizeof words) != 0) snprintf(words, sizeof words, "error %d", number);
        snprintf(err->message + n, sizeof err->message - (size_t)n, ": %s", words);
    }
    return false;
}

bool th_err_prefix(Err *err, const char *format, ...) {
    if (!err) return false;
    char words[sizeof err->message];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(words, sizeof words, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof words) snprintf(words + n, sizeof words - (size_t)n, "%s", err->message);
    memcpy(err->message, words, sizeof words);
    return false;
}
