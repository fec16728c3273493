/* log.h: sentences for the host; silent without a callback. Logging is not reporting an error. */
#ifndef THIMBLE_LOG_H
#define THIMBLE_LOG_H

#include "base/base.h"
#include "thimble/thimble.h"

void th_log(const ThimbleLog *log, int level, const char *format, ...) TH_PRINTF(3, 4);

#endif
