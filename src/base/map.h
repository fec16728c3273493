/* map.h: slices of bytes to 32-bit values; open addressing, power-of-two table, keys borrowed (they must outlive it).
 * Each map hashes with a seed of its own, so that no file can hold names chosen to collide. */
#ifndef THIMBLE_MAP_H
#define THIMBLE_MAP_H

#include "base/arena.h"
#include "base/str.h"

typedef struct MapSlot {
    Str key; /* data == NULL: empty */
    uint32_t hash, value;
} MapSlot;
typedef struct Map {
    MapSlot *slots;
    size_t mask, n;
    uint64_t seed;
} Map;

/* Room for n keys without growing; memory from the arena: th_map_bytes(n). */
bool th_map_init(Map *m, Arena *arena, size_t n, Err *err);
size_t th_map_bytes(size_t n);
/* Puts or replaces. True if the key was new. Must not be called more often than the n of init with new keys. */
bool th_map_put(Map *m, Str key, uint32_t value);
bool th_map_get(const Map *m, Str key, uint32_t *value);

#endif
