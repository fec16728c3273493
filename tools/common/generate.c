/* generate.c: see generate.h. */
#include "common/generate.h"

#include "common/signals.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *finish_name(Finish f) {
    return f == FINISH_STOP || f == FINISH_STOPPED_BY_USER ? "stop" : f == FINISH_ERROR ? "error" : "length";
}

static uint64_t random_seed(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x = (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec + (uint64_t)getpid() * 2654435761u;
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    return x >> 33; /* 31 bits: easy to type again, exact in every JSON reader */
}

void sampler_from_options(const Options *o, ThimbleSampler *sm) {
    thimble_sampler_init(sm);
    sm->temperature = (float)o->temp;
    sm->top_p = (float)o->top_p;
    sm->min_p = (float)o->min_p;
    sm->repeat_penalty = (float)o->repeat_penalty;
    sm->top_k = o->top_k;
    sm->repeat_last_n = o->repeat_last_n;
    sm->seed = options_given(o, "seed") ? o->seed : random_seed();
}

/* The longest end of held[0..n) that is a proper beginning of some stop text. */
static size_t possible_start(const TextList *list, const char *held, size_t n) {
    size_t longest = 0;
    for (int i = 0; i < list->n; i++) {
        size_t len = strlen(list->value[i]);
        for (size_t k = len - 1 < n ? len - 1 : n; k > longest; k--)
            if (!memcmp(held + n - k, list->value[i], k)) longest = k;
    }
    return longest;
}

/* Offset of the earliest stop text in held[0..n), or n. */
static size_t earliest_stop(const TextList *list, const char *held, size_t n) {
    for (size_t at = 0; at < n; at++)
        for (int i = 0; i < list->n; i++) {
            size_t len = strlen(list->value[i]);
            if (len <= n - at && !memcmp(held + at, list->value[i], len)) return at;
        }
    return n;
}

bool stops_push(Stops *s, const char *bytes, size_t n, Text *safe) {
    safe->n = 0;
    if (!s->list->n) return text_append(safe, bytes, n), false;
    text_append(&s->held, bytes, n);
    size_t at = earliest_stop(s->list, s->held.p, s->held.n), stop = at < s->held.n;
    size_t show = stop ? at : s->held.n - possible_start(s->list, s->held.p, s->held.n);
    text_append(safe, s->held.p, show);
    memmove(s->held.p, s->held.p + show, s->held.n - show);
    s->held.n -= show;
    return stop != 0;
}

typedef struct Speaker {
    Cli *cli;
    const ThimbleModel *m;
    Answer *answer;
    ThimbleDetok detok;
    Stops stops;
    Text safe, piece;
    bool echo, guard; /* guard: standard output is a terminal that must not obey the model */
} Speaker;

static void show(Speaker *sp, const char *bytes, size_t n) {
    if (!n) return;
    if (!sp->echo) {
        text_append(&sp->answer->text, bytes, n);
        return;
    }
    term_clear_progress(&sp->cli->term);
    if (sp->guard) {
        char line[8192];
        for (size_t at = 0; at < n;) { /* in parts: printable text can be longer than what it shows */
            size_t end = at + 1024 < n ? at + 1024 : n;
            while (end < n && ((unsigned char)bytes[end] & 0xC0) == 0x80) end++;
            out_string(&sp->cli->out, text_printable(bytes + at, end - at, true, line, sizeof line));
            at = end;
        }
    } else {
        out_write(&sp->cli->out, bytes, n);
    }
    out_flush(&sp->cli->out);
}

/* True: a stop text was met. */
static bool speak(Speaker *sp, int32_t token) {
    size_t need = thimble_token_bytes(sp->m, token, false, NULL, 0) * 3 + 32;
    if (sp->piece.cap < need) {
        char *p = realloc(sp->piece.p, need);
        if (!p) return false;
        sp->piece.p = p;
        sp->piece.cap = need;
    }
    size_t n = thimble_detok_push(sp->m, &sp->detok, token, sp->piece.p, sp->piece.cap);
    bool stop = stops_push(&sp->stops, sp->piece.p, n, &sp->safe);
    show(sp, sp->safe.p, sp->safe.n);
    return stop;
}

/* The end of an answer: what was held back is text after all, unless a stop text began there. */
static void fall_silent(Speaker *sp, bool stopped) {
    char tail[32];
    if (!stopped) {
        size_t n = thimble_detok_end(&sp->detok, tail, sizeof tail);
        stopped = stops_push(&sp->stops, tail, n, &sp->safe);
        show(sp, sp->safe.p, sp->safe.n);
        if (!stopped) show(sp, sp->stops.held.p, sp->stops.held.n);
    }
    text_free(&sp->safe);
    text_free(&sp->piece);
    text_free(&sp->stops.held);
}

static Finish failed(Answer *a, Finish otherwise) {
    if (a->error.code == THIMBLE_E_CONTEXT_FULL) return FINISH_CONTEXT;
    if (a->error.code == THIMBLE_E_CANCELLED && signals_stop()) return FINISH_STOPPED_BY_USER;
    return otherwise;
}

/* Takes in one token; false: the answer ends with it. */
static bool take_token(Speaker *sp, int32_t token, bool *stopped) {
    Answer *a = sp->answer;
    if (!ids_append(&a->ids, &token, 1)) {
        a->error = (ThimbleError){THIMBLE_E_NOMEM, "out of memory"};
        a->finish = FINISH_ERROR;
        return false;
    }
    bool ends = thimble_token_is_eog(sp->m, token) && !sp->cli->opt.ignore_eog;
    if (!ends) *stopped = speak(sp, token);
    if (ends || *stopped) a->finish = FINISH_STOP;
    return !ends && !*stopped;
}

void generate(Cli *cli, ThimbleModel *m, ThimbleSession *s, ThimbleSampler *sm, int predict, bool echo, Answer *a) {
    Speaker sp = {.cli = cli, .m = m, .answer = a, .echo = echo, .stops = {.list = &cli->opt.stop}};
    sp.guard = echo && isatty(cli->out.fd);
    a->finish = FINISH_LENGTH;
    bool stopped = false, going = true;
    while (going && (predict < 0 || a->ids.n < (size_t)predict)) {
        int32_t token[16];
        size_t n = 0, room = sizeof token / sizeof *token;
        if (signals_stop() || out_lost(&cli->out)) {
            a->finish = FINISH_STOPPED_BY_USER;
            break;
        }
        if (predict >= 0 && (size_t)predict - a->ids.n < room) room = (size_t)predict - a->ids.n;
        if (thimble_session_next(s, sm, token, room, &n, &a->error) != THIMBLE_OK) {
            a->finish = failed(a, FINISH_ERROR);
            break;
        }
        if (a->first_at <= 0) a->first_at = term_now();
        for (size_t i = 0; i < n && going; i++) going = take_token(&sp, token[i], &stopped);
    }
    fall_silent(&sp, stopped);
}

void answer_free(Answer *a) {
    ids_free(&a->ids);
    text_free(&a->text);
    *a = (Answer){0};
}
