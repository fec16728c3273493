/* ids.h: lists of token ids: growing, and read from "1,2,3" or @FILE. */
#ifndef TOOLS_IDS_H
#define TOOLS_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Ids {
    int32_t *id;
    size_t n, cap;
} Ids;
bool ids_append(Ids *ids, const int32_t *id, size_t n);
bool ids_reserve(Ids *ids, size_t n); /* room for exactly n more */
void ids_free(Ids *ids);
/* Appends the ids in `text` (commas or blanks between them), or those of a file of at most `most` bytes if it starts
 * with '@' (a JSON array, or like the text; "@-" is standard input). False: why[] names what is wrong. *io: it was
 * reading that failed, errno says how (EFBIG: longer than `most`). */
bool ids_parse(Ids *ids, const char *text, size_t most, bool *io, char *why, size_t why_size);
/* True if all are in 0..n_vocab-1; else why[] names the id and the limit. */
bool ids_check(const Ids *ids, int n_vocab, char *why, size_t why_size);
#endif
