/* text.h: growing bytes, and hostile bytes made fit for a terminal or for JSON. */
#ifndef TOOLS_TEXT_H
#define TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised; p is NULL while empty, and ends with a NUL that n does not count otherwise. */
typedef struct Text {
    char *p;
    size_t n, cap;
    bool failed; /* memory ran out; what is there stays valid */
} Text;
bool text_append(Text *t, const char *bytes, size_t n);
bool text_append_string(Text *t, const char *s);
void text_free(Text *t);

/* Length of the valid UTF-8 character at s (1..4), or 0 with *bad set to the length of the ill-formed part (1..3). */
size_t text_utf8(const char *s, size_t n, size_t *bad);
/* Copies so that a terminal shows it and obeys nothing: control characters, direction overrides and bytes that are no
 * UTF-8 become \xNN or \u{NNNN}; with keep_lines, newline and tab stay. Always ends with NUL; cuts at `size`. */
const char *text_printable(const char *s, size_t n, bool keep_lines, char *out, size_t size);
/* Bytes as "1.50 GiB". */
const char *text_size(uint64_t bytes, char out[static 32]);
/* Bytes as a value of --ram, rounded up so that it is enough: "513M". */
const char *text_ram(uint64_t bytes, char out[static 32]);

/* Reads a whole file, "-" for standard input. False: why[] holds a sentence, and errno is EFBIG if the file is longer
 * than `most`. */
enum { TEXT_FILE_MAX = 64 << 20 };
bool text_read_file(Text *t, const char *path, size_t most, char *why, size_t why_size);
#endif
