/* arena.h: bump allocation for things that live and die together (metadata, layers, vocabulary). Grows in blocks that
 * are entered in a Budget; nothing is freed singly. Not thread-safe. */
#ifndef THIMBLE_ARENA_H
#define THIMBLE_ARENA_H

#include "base/budget.h"

typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    Budget *budget;
    MemClass mem_class;
    ArenaBlock *blocks;
    size_t block_bytes; /* size of the next block */
} Arena;

void th_arena_init(Arena *a, Budget *b, MemClass c);
void th_arena_free(Arena *a); /* accepts a zeroed Arena */
/* Zeroed, aligned to 16; NULL on failure. bytes may be 0. */
void *th_arena_alloc(Arena *a, size_t bytes, Err *err);
char *th_arena_dup(Arena *a, const char *text, size_t len, Err *err); /* with NUL behind */
/* n * size with the product checked. */
void *th_arena_array(Arena *a, size_t n, size_t size, Err *err);

#endif
