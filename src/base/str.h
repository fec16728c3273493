/* str.h: Str is a borrowed slice of bytes (may hold NUL, need not be UTF-8); Buf is a growing one. */
#ifndef THIMBLE_STR_H
#define THIMBLE_STR_H

#include <string.h>

#include "base/err.h"

typedef struct Str {
    const char *data;
    size_t len;
} Str;

#define TH_STR(literal) ((Str){(literal), sizeof(literal) - 1})
#define TH_STR_ARG(s)   (int)th_min_size((s).len, 200), (s).data /* for "%.*s" */

static inline Str th_str(const char *text) { return (Str){text, strlen(text)}; }
static inline bool th_str_eq(Str a, Str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
static inline bool th_str_is(Str a, const char *text) { return th_str_eq(a, th_str(text)); }
static inline bool th_str_starts(Str a, Str prefix) {
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.data, prefix.data, prefix.len) == 0);
}
uint64_t th_str_hash(Str s); /* 64-bit, xxHash; not against deliberate collisions */
/* Copy fit for a terminal or a message: control bytes and broken UTF-8 become "\xHH"; always ends with NUL. */
void th_str_escape(Str s, char *out, size_t cap);

typedef struct Buf {
    char *data;
    size_t len, cap;
} Buf;
bool th_buf_append(Buf *b, const void *data, size_t len, Err *err);
void th_buf_free(Buf *b);

#endif
