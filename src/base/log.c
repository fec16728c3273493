/* log.c: see log.h. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void th_log(const ThimbleLog *log, int level, const char *format, ...) {
    if (!log || !log->fn) return;
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log->fn(log->arg, level, message);
}
