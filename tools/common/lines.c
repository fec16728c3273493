/* lines.c: see lines.h.
 *
 * libedit gets a reader of ours: it decodes UTF-8 whatever the locale says (an adb shell has none), and a signal ends
 * the line instead of being swallowed. The prompt and the echo go to standard error: standard output carries answers
 * only. */
#include "common/lines.h"

#include "common/signals.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Lines {
    EditLine *el;
    History *history;
    const char *prompt;
    char buf[4096]; /* without a terminal */
    size_t n, at, most;
    bool ended;
};

static char *give_prompt(EditLine *el) {
    Lines *l = NULL;
    static char none[] = "", mark[] = "> ";
    el_get(el, EL_CLIENTDATA, &l);
    return l && l->prompt ? mark : none;
}

/* One character from the terminal: bytes until they are a whole one. */
static int read_character(EditLine *el, wchar_t *out) {
    char bytes[4];
    (void)el;
    for (size_t n = 0; n < 4;) {
        if (!signals_wait_readable(STDIN_FILENO)) return -1;
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return got < 0 ? -1 : 0;
        n++;
        size_t bad, len = text_utf8(bytes, n, &bad);
        const unsigned char *u = (const unsigned char *)bytes;
        if (len) {
            wchar_t c = len == 1 ? u[0] : (wchar_t)(u[0] & (0xFF >> (len + 1)));
            for (size_t i = 1; i < len; i++) c = (wchar_t)(c << 6 | (u[i] & 0x3F));
            *out = c;
            return 1;
        }
        if (bad < n || (n == 1 && (u[0] < 0xC2 || u[0] > 0xF4))) break;
    }
    *out = 0xFFFD;
    return 1;
}

static bool open_editor(Lines *l) {
    HistEvent event;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
    l->el = el_init("thimble", stdin, stderr, stderr);
    l->history = history_init();
    if (!l->el || !l->history) return false;
    history(l->history, &event, H_SETSIZE, 200);
    el_set(l->el, EL_CLIENTDATA, l);
    el_set(l->el, EL_PROMPT, give_prompt);
    el_set(l->el, EL_EDITOR, "emacs");
    el_set(l->el, EL_SIGNAL, 0);
    el_set(l->el, EL_HIST, history, l->history);
    el_set(l->el, EL_GETCFN, read_character);
    return true;
}

Lines *lines_open(const char *prompt, size_t most) {
    Lines *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->prompt = prompt;
    l->most = most;
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && !open_editor(l)) {
        lines_close(l);
        return NULL;
    }
    return l;
}

void lines_close(Lines *l) {
    if (!l) return;
    if (l->el) el_end(l->el);
    if (l->history) history_end(l->history);
    free(l);
}

bool lines_interactive(const Lines *l) { return l->el != NULL; }

static LineKind next_edited(Lines *l, Text *line) {
    HistEvent event;
    int n = 0;
    const char *s = el_gets(l->el, &n);
    if (signals_stop()) return LINE_INTERRUPTED;
    if (!s || n <= 0) return n < 0 ? LINE_FAILED : LINE_END;
    size_t len = strlen(s);
    if (len && s[len - 1] == '\n') len--;
    if (len) history(l->history, &event, H_ENTER, s);
    return text_append(line, s, len) ? LINE_TEXT : LINE_FAILED;
}

LineKind lines_next(Lines *l, Text *line) {
    line->n = 0;
    if (l->el) return next_edited(l, line);
    bool any = false, too_long = false;
    while (!l->ended) {
        if (l->at == l->n) {
            if (!signals_wait_readable(STDIN_FILENO)) return LINE_INTERRUPTED;
            ssize_t got = read(STDIN_FILENO, l->buf, sizeof l->buf);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return LINE_FAILED;
            l->ended = got == 0;
            l->n = (size_t)got;
            l->at = 0;
            continue;
        }
        const char *from = l->buf + l->at, *end = memchr(from, '\n', l->n - l->at);
        size_t n = end ? (size_t)(end - from) : l->n - l->at;
        if (n > l->most - line->n) too_long = true;
        if (too_long) text_free(line);
        else if (!text_append(line, from, n)) return LINE_FAILED;
        l->at += n + (end != NULL);
        any = true;
        if (end) break;
    }
    return too_long ? LINE_TOO_LONG : any ? LINE_TEXT : LINE_END;
}
