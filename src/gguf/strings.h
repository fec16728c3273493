/* strings.h: walks an array of strings that stays in the file, through one small window. For vocabularies: hundreds of
 * thousands of short texts that are wanted once, one after the other. */
#ifndef THIMBLE_STRINGS_H
#define THIMBLE_STRINGS_H

#include "gguf/gguf.h"

typedef struct GgufStrings {
    const File *file;
    Budget *budget;
    char *window;
    size_t at, have;       /* unread bytes are window[at .. have) */
    uint64_t offset, left; /* of the payload that is not in the window yet */
    uint64_t remaining;    /* strings */
    Str key;
} GgufStrings;

/* Bytes the window takes while the walk is open, and the longest string it can give. */
enum { GGUF_STRINGS_BYTES = 64 * 1024 };

/* E_FORMAT if kv is not an array of strings. */
bool th_gguf_strings_open(GgufStrings *s, const Gguf *g, const GgufKv *kv, Budget *budget, Err *err);
/* The next string, valid until the next call. E_FORMAT behind the last one. */
bool th_gguf_strings_next(GgufStrings *s, Str *out, Err *err);
void th_gguf_strings_close(GgufStrings *s); /* accepts a zeroed or half-opened walk */

#endif
