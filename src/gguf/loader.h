/* loader.h: how the files of this folder share the work of opening (private to src/gguf).
 *
 *     add_file (gguf.c): header, metadata, tensor infos of one file        once per shard
 *     settle (directory.c): sizes, ranges, overlaps, unique names          once, when all shards are in
 *
 * Tables grow with the entries really read, never with a count that the file claims. */
#ifndef THIMBLE_LOADER_H
#define THIMBLE_LOADER_H

#include "gguf/gguf.h"
#include "gguf/window.h"

/* What is known of one file while opening; the Gguf keeps only what is used later. */
typedef struct ShardInfo {
    uint64_t header_end, data_start, data_bytes, alignment;
    size_t first_tensor, n_tensors;
    int64_t split_no, split_count, split_tensors; /* -1: absent */
} ShardInfo;

typedef struct Loader {
    Gguf *g;
    Budget *budget;
    ShardInfo *shards;
    size_t shard_cap, file_cap, tensor_cap;
} Loader;

void th_loader_begin(Loader *l, Gguf *g, Budget *budget);
/* Appends a file and its tensors; metadata stays only from the first one. split: the split.* keys are read as well. */
bool th_loader_add_file(Loader *l, const char *path, bool split, Err *err);
/* Everything that needs all tensors at once. */
bool th_loader_settle(Loader *l, Err *err);

/* meta.c: a scalar of any numeric type from its bytes; p holds th_gguf_type_bytes(type) of them. */
typedef struct GgufNumber {
    enum { NUMBER_SIGNED, NUMBER_UNSIGNED, NUMBER_REAL } kind;
    int64_t i;
    uint64_t u; /* of a real: its bits */
    double f;
} GgufNumber;
GgufNumber th_gguf_decode(uint32_t type, const unsigned char *p);
size_t th_gguf_type_bytes(uint32_t type); /* 0: not of a fixed size */

/* directory.c: the tensor infos of the last added file, from w. */
bool th_loader_read_tensors(Loader *l, Window *w, uint64_t count, Err *err);
/* Makes room for one more element in a table of the arena. */
bool th_loader_grow(Arena *arena, void *table_of, size_t n, size_t *cap, size_t size, Err *err);

/* sniff.c: what a file without the magic bytes is instead, in a sentence with the fix; always fails. */
bool th_sniff_fail(const File *f, Err *err);
/* Puts the file's name in front of a failure, and what to do if the name is that of a raw piece ("x.gguf.part1of2"). */
bool th_sniff_prefix(const char *path, Err *err);
/* Another GGUF begins where this one's data end: files were joined with cat. */
bool th_sniff_joined(const File *f, uint64_t end, uint64_t alignment);

const char *th_path_name(const char *path); /* what follows the last slash */

#endif
