/* out.c: see out.h. */
#include "common/out.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void out_open(Out *o, int fd) {
    o->fd = fd;
    o->error = 0;
    o->n = 0;
    o->begun = false;
}

void out_flush(Out *o) {
    size_t at = 0;
    while (at < o->n && !o->error) {
        ssize_t put = write(o->fd, o->buf + at, o->n - at);
        if (put >= 0)
            at += (size_t)put;
        else if (errno == EAGAIN) {
            struct pollfd p = {.fd = o->fd, .events = POLLOUT};
            poll(&p, 1, 1000);
        } else if (errno != EINTR)
            o->error = errno;
    }
    o->n = 0;
}

void out_write(Out *o, const char *bytes, size_t n) {
    o->begun |= n > 0;
    while (n && !o->error) {
        size_t room = sizeof o->buf - o->n, take = n < room ? n : room;
        memcpy(o->buf + o->n, bytes, take);
        o->n += take;
        bytes += take;
        n -= take;
        if (o->n == sizeof o->buf) out_flush(o);
    }
}

void out_string(Out *o, const char *s) { out_write(o, s, strlen(s)); }

void out_printf(Out *o, const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n > 0) out_write(o, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

bool out_lost(const Out *o) { return o->error != 0; }
bool out_reader_left(const Out *o) { return o->error == EPIPE || o->error == EBADF; }
