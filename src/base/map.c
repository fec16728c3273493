/* map.c: see map.h. Load factor at most 2/3. */
#include "base/map.h"

static size_t table_size(size_t n) {
    size_t size = 16;
    while (size < n + n / 2 + 1) size *= 2;
    return size;
}

size_t th_map_bytes(size_t n) { return table_size(n) * sizeof(MapSlot); }

bool th_map_init(Map *m, Arena *arena, size_t n, Err *err) {
    *m = (Map){.mask = table_size(n) - 1};
    m->slots = th_arena_array(arena, m->mask + 1, sizeof *m->slots, err);
    return m->slots != NULL;
}

static MapSlot *slot_for(const Map *m, Str key, uint32_t hash) {
    size_t i = hash & m->mask;
    while (m->slots[i].key.data && !(m->slots[i].hash == hash && th_str_eq(m->slots[i].key, key))) i = (i + 1) & m->mask;
    return &m->slots[i];
}

bool th_map_put(Map *m, Str key, uint32_t value) {
    if (!key.data) key.data = "";
    uint32_t hash = (uint32_t)th_str_hash(key);
    MapSlot *slot = slot_for(m, key, hash);
    bool is_new = slot->key.data == NULL;
    *slot = (MapSlot){.key = key, .hash = hash, .value = value};
    if (is_new) m->n++;
    return is_new;
}

bool th_map_get(const Map *m, Str key, uint32_t *value) {
    if (!m->slots) return false;
    if (!key.data) key.data = "";
    const MapSlot *slot = slot_for(m, key, (uint32_t)th_str_hash(key));
    if (!slot->key.data) return false;
    *value = slot->value;
    return true;
}
