/* out.h: standard output, with an eye on its errors.
 *
 * The answer is the one thing scripts read, so a full disk must not pass for success (exit 5) and a reader that left
 * must end the work without noise. After the first error writing does nothing; out_lost() tells the loops to stop. */
#ifndef TOOLS_OUT_H
#define TOOLS_OUT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Out {
    int fd, error; /* errno of the first failed write, 0 while all is well */
    size_t n;
    bool begun; /* something was written */
    char buf[32768];
} Out;

void out_open(Out *o, int fd);
void out_write(Out *o, const char *bytes, size_t n);
void out_string(Out *o, const char *s);
__attribute__((format(printf, 2, 3))) void out_printf(Out *o, const char *format, ...);
void out_flush(Out *o);
/* Nobody reads what we write, or it cannot be written. */
bool out_lost(const Out *o);
/* The reader has gone: no fault of ours. */
bool out_reader_left(const Out *o);
#endif
