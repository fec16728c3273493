/* str.c: see str.h. */
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t th_str_hash(Str s) { return XXH3_64bits(s.len ? s.data : "", s.len); }

/* Length of the valid UTF-8 sequence at p, 0 if there is none. */
static size_t utf8_length(const unsigned char *p, size_t left) {
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
               : (p[0] & 0xF0) == 0xE0       ? 3
               : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
                                             : 0;
    if (n == 0 || n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return n;
}

void th_str_escape(Str s, char *out, size_t cap) {
    size_t at = 0;
    for (size_t i = 0; i < s.len;) {
        const unsigned char *p = (const unsigned char *)s.data + i;
        size_t n = p[0] < 0x20 || p[0] == 0x7F ? 0 : utf8_length(p, s.len - i);
        if (at + (n ? n : 4) + 1 > cap) break;
        if (n) {
            memcpy(out + at, p, n);
            at += n;
            i += n;
        } else {
            snprintf(out + at, cap - at, "\\x%02X", p[0]);
            at += 4;
            i++;
        }
    }
    if (cap) out[at] = 0;
}

bool th_buf_append(Buf *b, const void *data, size_t len, Err *err) {
    if (len > SIZE_MAX / 4 - b->len)
        return th_fail(err, THIMBLE_E_NOMEM, "a text of more than %zu bytes is too large", b->len);
    if (b->len + len + 1 > b->cap) {
        size_t cap = th_max_size(b->cap * 2, b->len + len + 64);
        char *grown = realloc(b->data, cap);
        if (!grown) return th_fail(err, THIMBLE_E_NOMEM, "the system refused %zu bytes", cap);
        b->data = grown;
        b->cap = cap;
    }
    if (len) memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = 0;
    return true;
}

void th_buf_free(Buf *b) {
    free(b->data);
    *b = (Buf){0};
}
