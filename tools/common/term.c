/* term.c: see term.h. Progress shows in place on a terminal; elsewhere a line per 10 % or 10 s, and none for what is
 * done within half a second: a script's log should not fill with the loading of small models. */
#include "common/term.h"

#include "common/signals.h"
#include "common/text.h"
#include "thimble/thimble.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double term_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool term_open(Term *t, const Options *o, char *why, size_t why_size) {
    const char *kind = getenv("TERM");
    *t = (Term){.quiet = o->quiet, .verbose = o->verbose, .is_tty = isatty(STDERR_FILENO) != 0};
    t->color =
        o->color == ON || (o->color == AUTO && t->is_tty && kind && strcmp(kind, "dumb") != 0 && !getenv("NO_COLOR"));
    if (!o->log_file) return true;
    t->log = fopen(o->log_file, "ae");
    if (t->log) return true;
    snprintf(why, why_size, "--log-file %s: %s", o->log_file, strerror(errno));
    return false;
}

bool term_close(Term *t) {
    FILE *log = t->log;
    term_clear_progress(t);
    t->log = NULL;
    if (log && fclose(log) != 0 && !t->log_error) t->log_error = errno;
    if (t->log_error) term_error(t, "the log file could not be written: %s", strerror(t->log_error));
    return t->log_error == 0;
}

static void put(Term *t, const char *line, size_t n) {
    while (n && !t->broken) {
        ssize_t done = write(STDERR_FILENO, line, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            t->broken = true; /* nobody listens: the work goes on in silence */
            return;
        }
        line += done;
        n -= (size_t)done;
    }
}

void term_clear_progress(Term *t) {
    if (t->progress_shown) put(t, "\r\x1b[K", 4);
    t->progress_shown = false;
}

__attribute__((format(printf, 4, 0))) static void say(Term *t, bool visible, const char *style, const char *format,
                                                      va_list args) {
    char raw[2048], line[4200];
    int n = vsnprintf(raw, sizeof raw, format, args);
    if (n < 0) return;
    size_t len = (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1;
    size_t at = (size_t)snprintf(line, sizeof line, "%sthimble: ", t->color ? style : "");
    text_printable(raw, len, true, line + at, sizeof line - at - 8);
    if (t->log) {
        bool written = fprintf(t->log, "%s\n", line + at) >= 0 && fflush(t->log) == 0;
        if (!written && !t->log_error) t->log_error = errno;
    }
    if (!visible) return;
    at += strlen(line + at);
    at += (size_t)snprintf(line + at, sizeof line - at, "%s\n", t->color ? "\x1b[0m" : "");
    term_clear_progress(t);
    put(t, line, at);
}

void term_notice(Term *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(t, !t->quiet, "\x1b[2m", format, args);
    va_end(args);
}

void term_verbose(Term *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(t, t->verbose && !t->quiet, "\x1b[2m", format, args);
    va_end(args);
}

void term_error(Term *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(t->last_error, sizeof t->last_error, format, args);
    va_end(args);
    va_start(args, format);
    say(t, true, "\x1b[31m", format, args);
    va_end(args);
}

void term_log(void *arg, int level, const char *message) {
    if (level == THIMBLE_LOG_DEBUG)
        term_verbose(arg, "%s", message);
    else
        term_notice(arg, "%s", message);
}

static const char *phase_name(int phase) {
    switch (phase) {
    case THIMBLE_PHASE_LOAD:
        return "loading";
    case TERM_PHASE_MEASURE:
        return "reading the text";
    case TERM_PHASE_ANSWER:
        return "answering";
    default:
        return "reading the prompt";
    }
}

int term_progress(void *arg, int phase, uint64_t done, uint64_t total) {
    Term *t = arg;
    double now = term_now();
    if (signals_stop()) return 1;
    if (phase != t->phase || done == 0) {
        t->phase = phase;
        t->phase_start = t->last_line = now;
        t->last_percent = 0;
    }
    if (t->quiet || total == 0) return 0;
    const int percent = (int)(100.0 * (double)done / (double)total);
    const char *what = phase_name(phase);
    char line[160], a[32], b[32];
    int n;
    if (done >= total) {
        term_clear_progress(t);
        t->phase = 0;
        return 0;
    }
    if (t->is_tty) {
        if (now - t->phase_start < 0.2 || now - t->last_line < 0.1) return 0;
        if (phase == THIMBLE_PHASE_LOAD)
            n = snprintf(line, sizeof line, "\r%s %d %% (%s of %s)\x1b[K", what, percent, text_size(done, a),
                         text_size(total, b));
        else
            n = snprintf(line, sizeof line, "\r%s %d %% (%llu of %llu %s)\x1b[K", what, percent,
                         (unsigned long long)done, (unsigned long long)total,
                         phase == TERM_PHASE_ANSWER ? "answers" : "tokens");
        t->progress_shown = true;
    } else {
        bool due = percent / 10 > t->last_percent / 10 || now - t->last_line >= 10;
        if (!due || now - t->phase_start < 0.5) return 0;
        n = snprintf(line, sizeof line, "thimble: %s %d %%\n", what, percent);
        t->last_percent = percent;
    }
    t->last_line = now;
    put(t, line, (size_t)n);
    return 0;
}
