/* scratch.h: a folder of a test's own below /tmp (or $TMPDIR), and small files in it. */
#ifndef THIMBLE_SCRATCH_H
#define THIMBLE_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Scratch {
    char dir[256];
    char path[512]; /* what th_scratch_path returned last */
} Scratch;

/* All abort the program on failure: a test machine without a writable folder cannot judge. */
void th_scratch_open(Scratch *s);
void th_scratch_close(Scratch *s); /* removes the folder and what is in it */
const char *th_scratch_path(Scratch *s, const char *name);
/* Writes a file, making the folders of `name`. Returns its path as th_scratch_path does. */
const char *th_scratch_write(Scratch *s, const char *name, const void *data, size_t bytes);
const char *th_scratch_text(Scratch *s, const char *name, const char *text);
/* A file of `bytes` bytes of which byte i is th_scratch_byte(i). */
const char *th_scratch_pattern(Scratch *s, const char *name, size_t bytes);
static inline unsigned char th_scratch_byte(uint64_t i) { return (unsigned char)(i * 2654435761u >> 13 ^ i >> 8); }

#endif
