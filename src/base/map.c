/* map.c: see map.h. Load factor at most 2/3. */
#include "base/map.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t table_size(size_t n) {
    size_t size = 16;
    while (size < n + n / 2 + 1) size *= 2;
    return size;
}

size_t th_map_bytes(size_t n) { return table_size(n) * sizeof(MapSlot); }

bool th_map_init(Map *m, Arena *arena, size_t n, Err *err) {
    *m = (Map){.mask = table_size(n) - 1};
    m->slots = th_arena_array(arena, m->mask + 1, sizeof *m->slots, err);
    m->seed = (uint64_t)(uintptr_t)m->slots; /* where memory lies is nothing a file can know; nothing iterates a map */
    return m->slots != NULL;
}

static uint32_t hash_of(const Map *m, Str key) { return (uint32_t)XXH3_64bits_withSeed(key.data, key.len, m->seed); }

static MapSlot *slot_for(const Map *m, Str key, uint32_t hash) {
    size_t i = hash & m->mask;
    while (m->slots[i].key.data && !(m->slots[i].hash == hash && th_str_eq(m->slots[i].key, key)))
        i = (i + 1) & m->mask;
    return &m->slots[i];
}

bool th_map_put(Map *m, Str key, uint32_t value) {
    if (!key.data) key.data = "";
    uint32_t hash = hash_of(m, key);
    MapSlot *slot = slot_for(m, key, hash);
    bool is_new = slot->key.data == NULL;
    *slot = (MapSlot){.key = key, .hash = hash, .value = value};
    if (is_new) m->n++;
    return is_new;
}

bool th_map_get(const Map *m, Str key, uint32_t *value) {
    if (!m->slots) return false;
    if (!key.data) key.data = "";
    const MapSlot *slot = slot_for(m, key, hash_of(m, key));
    if (!slot->key.data) return false;
    *value = slot->value;
    return true;
}
