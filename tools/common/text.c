/* text.c: see text.h. */
#include "common/text.h"

#include "common/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool text_append(Text *t, const char *bytes, size_t n) {
    if (n >= SIZE_MAX / 4 - t->n) return t->failed = true, false;
    if (t->n + n + 1 > t->cap) {
        size_t cap = (t->n + n + 1) * 2;
        char *p = realloc(t->p, cap < 64 ? 64 : cap);
        if (!p) return t->failed = true, false;
        t->p = p;
        t->cap = cap < 64 ? 64 : cap;
    }
    if (n) memcpy(t->p + t->n, bytes, n);
    t->n += n;
    t->p[t->n] = 0;
    return true;
}

bool text_append_string(Text *t, const char *s) { return text_append(t, s, strlen(s)); }

void text_free(Text *t) {
    free(t->p);
    *t = (Text){0};
}

/* Table 3-7 of the Unicode standard: the second byte's range depends on the first, the rest are 80..BF. */
size_t text_utf8(const char *s, size_t n, size_t *bad) {
    const unsigned char *u = (const unsigned char *)s;
    unsigned char low = 0x80, high = 0xBF;
    size_t need;
    *bad = 1;
    if (n == 0) return 0;
    if (u[0] < 0x80) return 1;
    if (u[0] >= 0xC2 && u[0] <= 0xDF)
        need = 2;
    else if (u[0] >= 0xE0 && u[0] <= 0xEF) {
        need = 3;
        if (u[0] == 0xE0) low = 0xA0;
        if (u[0] == 0xED) high = 0x9F;
    } else if (u[0] >= 0xF0 && u[0] <= 0xF4) {
        need = 4;
        if (u[0] == 0xF0) low = 0x90;
        if (u[0] == 0xF4) high = 0x8F;
    } else
        return 0;
    for (size_t i = 1; i < need; i++) {
        if (i >= n || u[i] < low || u[i] > high) {
            *bad = i;
            return 0;
        }
        low = 0x80;
        high = 0xBF;
    }
    return need;
}

static uint32_t decode(const char *s, size_t len) {
    const unsigned char *u = (const unsigned char *)s;
    if (len == 1) return u[0];
    uint32_t c = u[0] & (0xFFu >> (len + 1));
    for (size_t i = 1; i < len; i++) c = c << 6 | (u[i] & 0x3Fu);
    return c;
}

/* Characters that a terminal obeys or that reorder what stands beside them. */
static bool is_commanding(uint32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
           c == 0x200E || c == 0x200F || c == 0x2028 || c == 0x2029;
}

const char *text_printable(const char *s, size_t n, bool keep_lines, char *out, size_t size) {
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        char piece[16];
        size_t bad, len = text_utf8(s + i, n - i, &bad), take;
        uint32_t c = len ? decode(s + i, len) : 0;
        if (!len) {
            take = (size_t)snprintf(piece, sizeof piece, "\\x%02X", (unsigned char)s[i]);
            len = 1;
        } else if (is_commanding(c) && !(keep_lines && (c == '\n' || c == '\t'))) {
            take = (size_t)snprintf(piece, sizeof piece, c < 0x100 ? "\\x%02X" : "\\u{%04X}", (unsigned)c);
        } else {
            memcpy(piece, s + i, len);
            take = len;
        }
        if (at + take + 1 > size) break;
        memcpy(out + at, piece, take);
        at += take;
        i += len;
    }
    if (size) out[at] = 0;
    return out;
}

const char *text_size(uint64_t bytes, char out[static 32]) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    while (v >= 1024 && u < 6) v /= 1024, u++;
    snprintf(out, 32, u == 0 ? "%.0f %s" : v < 10 ? "%.2f %s" : "%.1f %s", v, unit[u]);
    return out;
}

const char *text_ram(uint64_t bytes, char out[static 32]) {
    snprintf(out, 32, "%lluM", (unsigned long long)bytes / (1 << 20) + (bytes % (1 << 20) != 0));
    return out;
}

bool text_read_file(Text *t, const char *path, size_t most, char *why, size_t why_size) {
    bool input = !strcmp(path, "-");
    int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 0;
    if (fd < 0) {
        snprintf(why, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    for (;;) {
        char block[16384];
        if (input && !signals_wait_readable(fd)) {
            errno = EINTR;
            got = -1;
            break;
        }
        got = read(fd, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (t->n + (size_t)got <= most && text_append(t, block, (size_t)got)) continue;
        errno = t->n + (size_t)got > most ? EFBIG : ENOMEM;
        got = -1;
        break;
    }
    int failure = got < 0 ? errno : 0;
    const char *shown = input ? "standard input" : path;
    char size[32];
    if (failure == EFBIG)
        snprintf(why, why_size, "%s: more than %s is too long here", shown, text_size(most, size));
    else if (failure)
        snprintf(why, why_size, "%s: %s", shown, strerror(failure));
    if (!input) close(fd);
    errno = failure;
    return failure == 0;
}
