/* arena.c: see arena.h. Blocks start at 16 KiB and double up to 1 MiB, so small models stay small. */
#include "base/arena.h"

#include <assert.h>
#include <string.h>

struct ArenaBlock {
    ArenaBlock *next;
    size_t bytes, used; /* of data, which follows the header */
};

enum { FIRST_BLOCK = 16 * 1024, LARGEST_BLOCK = 1024 * 1024, HEADER = 32 };
static_assert(sizeof(ArenaBlock) <= HEADER, "block header");

void th_arena_init(Arena *a, Budget *b, MemClass c) {
    *a = (Arena){.budget = b, .mem_class = c, .block_bytes = FIRST_BLOCK};
}

void th_arena_free(Arena *a) {
    while (a->blocks) {
        ArenaBlock *block = a->blocks;
        a->blocks = block->next;
        th_mem_free(a->budget, a->mem_class, block, HEADER + block->bytes);
    }
}

void *th_arena_alloc(Arena *a, size_t bytes, Err *err) {
    if (bytes > SIZE_MAX - HEADER - 16) {
        th_fail(err, THIMBLE_E_NOMEM, "%zu bytes are more than this machine can address", bytes);
        return NULL;
    }
    bytes = (size_t)th_align_up(bytes, 16);
    ArenaBlock *block = a->blocks;
    if (!block || block->bytes - block->used < bytes) {
        size_t room = th_max_size(bytes, a->block_bytes - HEADER);
        block = th_mem_alloc(a->budget, a->mem_class, HEADER + room, 16, err);
        if (!block) return NULL;
        block->bytes = room;
        if (a->block_bytes < LARGEST_BLOCK) a->block_bytes *= 2;
        /* A block made for one large object goes behind the current one, whose rest stays usable. */
        if (a->blocks && room == bytes) {
            block->next = a->blocks->next;
            a->blocks->next = block;
        } else {
            block->next = a->blocks;
            a->blocks = block;
        }
    }
    void *p = (char *)block + HEADER + block->used;
    block->used += bytes;
    return p;
}

char *th_arena_dup(Arena *a, const char *text, size_t len, Err *err) {
    char *copy = th_arena_alloc(a, len + 1, err);
    if (copy && len) memcpy(copy, text, len);
    return copy;
}

void *th_arena_array(Arena *a, size_t n, size_t size, Err *err) {
    uint64_t bytes;
    if (!th_size_mul(n, size, &bytes) || bytes > SIZE_MAX) {
        th_fail(err, THIMBLE_E_NOMEM, "an array of %zu elements is too large", n);
        return NULL;
    }
    return th_arena_alloc(a, (size_t)bytes, err);
}
