/* window.h: walks a file from front to back through one small buffer (private to src/gguf).
 *
 *     file  |======= walked =======|----- window -----|..... not read .....|
 *                                      ^ pos
 *
 * A header may hold tens of megabytes of vocabulary that nobody wants yet: it is looked at here and never stored. pos
 * never passes the end of the file, so `left` is what every claimed length is compared with before it is used. */
#ifndef THIMBLE_WINDOW_H
#define THIMBLE_WINDOW_H

#include "base/budget.h"
#include "os/file.h"

typedef struct Window {
    const File *file;
    Budget *budget;
    unsigned char *buffer;
    size_t cap, filled;  /* of buffer; filled bytes lie at [begin, begin + filled) of the file */
    uint64_t begin, pos; /* pos: the next byte to hand out */
} Window;

bool th_window_open(Window *w, const File *file, Budget *budget, Err *err);
void th_window_close(Window *w); /* accepts a zeroed Window */
/* Exactly n bytes, or E_FORMAT saying where the file ends. */
bool th_window_read(Window *w, void *out, size_t n, Err *err);
bool th_window_u32(Window *w, uint32_t *out, Err *err);
bool th_window_u64(Window *w, uint64_t *out, Err *err);

static inline uint64_t th_window_left(const Window *w) { return w->file->size - w->pos; }
/* The caller has compared n with th_window_left. Costs nothing: skipped bytes are not read. */
static inline void th_window_skip(Window *w, uint64_t n) { w->pos += n; }

/* Little-endian loads from bytes of any alignment. */
static inline uint32_t th_load_u16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static inline uint32_t th_load_u32(const unsigned char *p) { return th_load_u16(p) | th_load_u16(p + 2) << 16; }
static inline uint64_t th_load_u64(const unsigned char *p) {
    return (uint64_t)th_load_u32(p) | (uint64_t)th_load_u32(p + 4) << 32;
}

#endif
