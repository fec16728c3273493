/* strings.c: see strings.h. Lengths were checked against the file when the header was parsed; they are checked again
 * here against the payload, because the file may have changed since (fault B53). */
#include "gguf/strings.h"

#include <string.h>

bool th_gguf_strings_open(GgufStrings *s, const Gguf *g, const GgufKv *kv, Budget *budget, Err *err) {
    *s = (GgufStrings){0};
    if (kv->type != GGUF_ARRAY || kv->element != GGUF_STRING)
        return th_fail(err, THIMBLE_E_FORMAT, "%.*s: an array of strings is needed, not %s%s", TH_STR_ARG(kv->key),
                       kv->type == GGUF_ARRAY ? "an array of " : "",
                       th_gguf_type_name(kv->type == GGUF_ARRAY ? kv->element : kv->type));
    s->file = &g->files[0];
    s->budget = budget;
    s->offset = kv->offset;
    s->left = kv->payload;
    s->remaining = kv->count;
    s->key = kv->key;
    s->window = th_mem_alloc(budget, MEM_METADATA, GGUF_STRINGS_BYTES, 64, err);
    return s->window != NULL;
}

/* Makes `need` unread bytes lie in the window. */
static bool fill(GgufStrings *s, uint64_t need, Err *err) {
    size_t unread = s->have - s->at;
    if (need <= unread) return true;
    if (need - unread > s->left)
        return th_fail(err, THIMBLE_E_FORMAT, "%.*s: a string of %llu bytes reaches beyond the array",
                       TH_STR_ARG(s->key), (unsigned long long)need);
    if (need > GGUF_STRINGS_BYTES)
        return th_fail(err, THIMBLE_E_FORMAT, "%.*s: a string of %llu bytes, more than the %d a vocabulary may hold",
                       TH_STR_ARG(s->key), (unsigned long long)need, GGUF_STRINGS_BYTES);
    memmove(s->window, s->window + s->at, unread);
    s->at = 0;
    s->have = unread;
    uint64_t room = GGUF_STRINGS_BYTES - unread;
    size_t bytes = (size_t)(s->left < room ? s->left : room);
    if (!th_file_read(s->file, s->window + unread, bytes, s->offset, err)) return false;
    s->have += bytes;
    s->offset += bytes;
    s->left -= bytes;
    return true;
}

bool th_gguf_strings_next(GgufStrings *s, Str *out, Err *err) {
    if (s->remaining == 0) return th_fail(err, THIMBLE_E_FORMAT, "%.*s: no more strings", TH_STR_ARG(s->key));
    if (!fill(s, 8, err)) return false;
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | (unsigned char)s->window[s->at + (size_t)i];
    s->at += 8;
    if (!fill(s, length, err)) return false;
    *out = (Str){s->window + s->at, (size_t)length};
    s->at += (size_t)length;
    s->remaining--;
    return true;
}

void th_gguf_strings_close(GgufStrings *s) {
    th_mem_free(s->budget, MEM_METADATA, s->window, GGUF_STRINGS_BYTES);
    *s = (GgufStrings){0};
}
