/* window.c: see window.h. */
#include "gguf/window.h"

#include <string.h>

enum { WINDOW_BYTES = 256 * 1024 };

bool th_window_open(Window *w, const File *file, Budget *budget, Err *err) {
    /* Small files get a small buffer: a set of many shards opens one window after another. */
    size_t cap = (size_t)(file->size < WINDOW_BYTES ? file->size : WINDOW_BYTES);
    *w = (Window){.file = file, .budget = budget, .cap = cap};
    w->buffer = th_mem_alloc(budget, MEM_METADATA, cap, 64, err);
    return w->buffer != NULL;
}

void th_window_close(Window *w) {
    th_mem_free(w->budget, MEM_METADATA, w->buffer, w->cap);
    *w = (Window){0};
}

static bool fill(Window *w, Err *err) {
    uint64_t left = th_window_left(w);
    size_t n = (size_t)(left < w->cap ? left : w->cap);
    w->filled = 0;
    if (!th_file_read(w->file, w->buffer, n, w->pos, err)) return false;
    w->begin = w->pos;
    w->filled = n;
    return true;
}

bool th_window_read(Window *w, void *out, size_t n, Err *err) {
    if (n > th_window_left(w))
        return th_fail(
            err, THIMBLE_E_FORMAT,
            "the file ends at byte %llu, %zu bytes are needed at byte %llu; it is cut short, download it again",
            (unsigned long long)w->file->size, n, (unsigned long long)w->pos);
    char *to = out;
    while (n) {
        uint64_t at = w->pos - w->begin; /* wraps to a large number when pos lies before the window: refilled too */
        if (at >= w->filled) {
            if (!fill(w, err)) return false;
            at = 0;
        }
        size_t part = th_min_size(n, w->filled - (size_t)at);
        memcpy(to, w->buffer + at, part);
        to += part;
        n -= part;
        w->pos += part;
    }
    return true;
}

bool th_window_u32(Window *w, uint32_t *out, Err *err) {
    unsigned char bytes[4] = {0};
    if (!th_window_read(w, bytes, sizeof bytes, err)) return false;
    *out = th_load_u32(bytes);
    return true;
}

bool th_window_u64(Window *w, uint64_t *out, Err *err) {
    unsigned char bytes[8] = {0};
    if (!th_window_read(w, bytes, sizeof bytes, err)) return false;
    *out = th_load_u64(bytes);
    return true;
}
