/* gguf.c: the header and the metadata section of one file; opening and closing (gguf-container specification, 1-3).
 *
 * Every value is walked and checked; scalars and short strings are kept, of arrays and long strings only their place.
 */
#include "gguf/gguf.h"

#include <string.h>

#include "gguf/loader.h"

enum { MAX_KEYS = 65536, MAX_KEY_BYTES = 65535, SHORT_TEXT = 4096, SMALLEST_KV = 13 };
enum { MIN_ALIGNMENT = 8, MAX_ALIGNMENT = 1024 * 1024, DEFAULT_ALIGNMENT = 32 };

static const struct {
    const char *name;
    unsigned bytes;
} value_types[N_GGUF_TYPES] = {
    [GGUF_U8] = {"UINT8", 1},      [GGUF_I8] = {"INT8", 1},     [GGUF_U16] = {"UINT16", 2},  [GGUF_I16] = {"INT16", 2},
    [GGUF_U32] = {"UINT32", 4},    [GGUF_I32] = {"INT32", 4},   [GGUF_F32] = {"FLOAT32", 4}, [GGUF_BOOL] = {"BOOL", 1},
    [GGUF_STRING] = {"STRING", 0}, [GGUF_ARRAY] = {"ARRAY", 0}, [GGUF_U64] = {"UINT64", 8},  [GGUF_I64] = {"INT64", 8},
    [GGUF_F64] = {"FLOAT64", 8},
};

const char *th_gguf_type_name(uint32_t type) { return type < N_GGUF_TYPES ? value_types[type].name : "unknown"; }
size_t th_gguf_type_bytes(uint32_t type) { return type < N_GGUF_TYPES ? value_types[type].bytes : 0; }

typedef struct KvTable {
    GgufKv *kv;
    size_t n, cap;
    Map map;
} KvTable;

bool th_loader_grow(Arena *arena, void *table_of, size_t n, size_t *cap, size_t size, Err *err) {
    if (n < *cap) return true;
    size_t new_cap = *cap ? *cap * 2 : 64;
    void *grown = th_arena_array(arena, new_cap, size, err);
    if (!grown) return false;
    void *old;
    memcpy(&old, table_of, sizeof old); /* table_of is the address of a pointer to any kind of element */
    if (n) memcpy(grown, old, n * size);
    memcpy(table_of, &grown, sizeof grown);
    *cap = new_cap;
    return true;
}

static bool read_length(Window *w, const char *what, uint64_t *len, Err *err) {
    if (!th_window_u64(w, len, err)) return false;
    if (*len > th_window_left(w))
        return th_fail(err, THIMBLE_E_FORMAT,
                       "%s claims %llu bytes, %llu are left in the file; it is damaged or cut short, download it again",
                       what, (unsigned long long)*len, (unsigned long long)th_window_left(w));
    return true;
}

static bool read_key(Window *w, Arena *arena, Str *key, Err *err) {
    uint64_t len;
    if (!read_length(w, "the key", &len, err)) return false;
    if (len == 0) return th_fail(err, THIMBLE_E_FORMAT, "the key is empty");
    if (len > MAX_KEY_BYTES)
        return th_fail(err, THIMBLE_E_FORMAT, "the key has %llu bytes, at most %d are allowed", (unsigned long long)len,
                       MAX_KEY_BYTES);
    char *text = th_arena_alloc(arena, (size_t)len + 1, err);
    if (!text || !th_window_read(w, text, (size_t)len, err)) return false;
    *key = (Str){text, (size_t)len};
    return true;
}

static bool read_scalar(Window *w, GgufKv *kv, Err *err) {
    unsigned char bytes[8] = {0};
    kv->offset = w->pos;
    kv->payload = value_types[kv->type].bytes;
    if (!th_window_read(w, bytes, value_types[kv->type].bytes, err)) return false;
    GgufNumber x = th_gguf_decode(kv->type, bytes);
    if (x.kind == NUMBER_SIGNED)
        kv->value.i = x.i;
    else if (x.kind == NUMBER_UNSIGNED)
        kv->value.u = x.u;
    else
        kv->value.f = x.f;
    return true;
}

static bool read_string(Window *w, Arena *arena, GgufKv *kv, Err *err) {
    if (!read_length(w, "the text", &kv->count, err)) return false;
    kv->offset = w->pos;
    kv->payload = kv->count;
    if (kv->count > SHORT_TEXT) {
        th_window_skip(w, kv->count);
        return true;
    }
    char *text = th_arena_alloc(arena, (size_t)kv->count + 1, err);
    kv->text = text;
    return text && th_window_read(w, text, (size_t)kv->count, err);
}

static bool walk_strings(Window *w, uint64_t count, Err *err) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t len;
        if (!read_length(w, "a text", &len, err)) return th_err_prefix(err, "element %llu: ", (unsigned long long)i);
        th_window_skip(w, len);
    }
    return true;
}

static bool read_array(Window *w, GgufKv *kv, Err *err) {
    if (!th_window_u32(w, &kv->element, err) || !th_window_u64(w, &kv->count, err)) return false;
    if (kv->element >= N_GGUF_TYPES)
        return th_fail(err, THIMBLE_E_FORMAT, "unknown element type %u of an array, 0 to %d are defined", kv->element,
                       N_GGUF_TYPES - 1);
    if (kv->element == GGUF_ARRAY)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "an array of arrays; no known model uses one");
    bool strings = kv->element == GGUF_STRING;
    uint64_t size = strings ? 8 : value_types[kv->element].bytes, room = th_window_left(w) / size;
    if (kv->count > room)
        return th_fail(err, THIMBLE_E_FORMAT, "an array claims %llu elements of type %s, the file has room for %llu",
                       (unsigned long long)kv->count, th_gguf_type_name(kv->element), (unsigned long long)room);
    kv->offset = w->pos;
    if (!strings)
        th_window_skip(w, kv->count * size);
    else if (!walk_strings(w, kv->count, err))
        return false;
    kv->payload = w->pos - kv->offset;
    return true;
}

static bool read_value(Window *w, Arena *arena, GgufKv *kv, Err *err) {
    if (!th_window_u32(w, &kv->type, err)) return false;
    if (kv->type >= N_GGUF_TYPES)
        return th_fail(err, THIMBLE_E_FORMAT, "unknown value type %u, 0 to %d are defined", kv->type, N_GGUF_TYPES - 1);
    if (kv->type == GGUF_STRING) return read_string(w, arena, kv, err);
    if (kv->type == GGUF_ARRAY) return read_array(w, kv, err);
    return read_scalar(w, kv, err);
}

static bool prefix_key(Str key, Err *err) {
    char name[128];
    th_str_escape(key, name, sizeof name);
    return th_err_prefix(err, "key %s: ", name);
}

static bool read_kvs(Window *w, Arena *arena, uint64_t count, KvTable *table, Err *err) {
    for (uint64_t i = 0; i < count; i++) {
        GgufKv kv = {0};
        if (!th_loader_grow(arena, &table->kv, table->n, &table->cap, sizeof *table->kv, err)) return false;
        if (!read_key(w, arena, &kv.key, err))
            return th_err_prefix(err, "key %llu of %llu: ", (unsigned long long)i + 1, (unsigned long long)count);
        if (!read_value(w, arena, &kv, err)) return prefix_key(kv.key, err);
        table->kv[table->n++] = kv;
    }
    if (!th_map_init(&table->map, arena, table->n, err)) return false;
    for (size_t i = 0; i < table->n; i++)
        if (!th_map_put(&table->map, table->kv[i].key, (uint32_t)i)) {
            th_fail(err, THIMBLE_E_FORMAT, "the key is there twice");
            return prefix_key(table->kv[i].key, err);
        }
    return true;
}

static bool read_header(Window *w, uint32_t *version, uint64_t *n_tensors, uint64_t *n_kv, Err *err) {
    uint32_t magic = 0;
    if (w->file->size >= 4 && !th_window_u32(w, &magic, err)) return false;
    if (w->file->size < 24 || magic != 0x46554747u) return th_sniff_fail(w->file, err);
    if (!th_window_u32(w, version, err) || !th_window_u64(w, n_tensors, err) || !th_window_u64(w, n_kv, err))
        return false;
    if ((*version & 0xFFFF) == 0 && *version)
        return th_fail(err, THIMBLE_E_UNSUPPORTED,
                       "the file is big-endian (version reads %08x) or damaged; only little-endian files are read",
                       *version);
    if (*version == 1)
        return th_fail(err, THIMBLE_E_UNSUPPORTED,
                       "GGUF version 1 is obsolete (2023); versions 2 and 3 are read: download a newer file");
    if (*version != 2 && *version != 3)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "GGUF version %u; versions 2 and 3 are read", *version);
    uint64_t room = th_window_left(w) / SMALLEST_KV;
    if (*n_kv > room || *n_kv > MAX_KEYS)
        return th_fail(
            err, THIMBLE_E_FORMAT,
            "the header claims %llu keys, the file has room for %llu and %d are allowed; it is damaged or cut short",
            (unsigned long long)*n_kv, (unsigned long long)room, MAX_KEYS);
    return true;
}

static bool find_alignment(const KvTable *table, uint64_t *alignment, Err *err) {
    uint32_t at;
    *alignment = DEFAULT_ALIGNMENT;
    if (!th_map_get(&table->map, TH_STR("general.alignment"), &at)) return true;
    const GgufKv *kv = &table->kv[at];
    if (kv->type != GGUF_U32)
        return th_fail(err, THIMBLE_E_FORMAT, "key general.alignment: type %s, it has to be UINT32",
                       th_gguf_type_name(kv->type));
    uint64_t a = kv->value.u;
    if (a < MIN_ALIGNMENT || a > MAX_ALIGNMENT || (a & (a - 1)))
        return th_fail(err, THIMBLE_E_FORMAT, "key general.alignment: %llu, it has to be a power of two from %d to %d",
                       (unsigned long long)a, MIN_ALIGNMENT, MAX_ALIGNMENT);
    *alignment = a;
    return true;
}

static bool read_split_keys(const Gguf *view, ShardInfo *s, Err *err) {
    return th_gguf_get_int(view, "split.no", 0, 65535, &s->split_no, err) &&
           th_gguf_get_int(view, "split.count", 0, 65535, &s->split_count, err) &&
           th_gguf_get_int(view, "split.tensors.count", 0, INT32_MAX, &s->split_tensors, err);
}

/* Later shards bring their own metadata: used for alignment and split keys, compared with the first's, then dropped. */
static bool same_model(const Gguf *g, const KvTable *table, Err *err) {
    for (size_t i = 0; i < table->n; i++) {
        const GgufKv *a = &table->kv[i];
        uint32_t at;
        if (a->type != GGUF_STRING || !a->text || !th_str_starts(a->key, TH_STR("general."))) continue;
        if (!th_map_get(&g->kv_map, a->key, &at)) continue;
        const GgufKv *b = &g->kv[at];
        if (b->type != GGUF_STRING || !b->text) continue;
        if (!th_str_eq((Str){a->text, (size_t)a->count}, (Str){b->text, (size_t)b->count})) {
            th_fail(err, THIMBLE_E_FORMAT, "differs from the first shard: this file belongs to another model");
            return prefix_key(a->key, err);
        }
    }
    return true;
}

static bool read_file(Loader *l, Window *w, Arena *scratch, bool split, Err *err) {
    Gguf *g = l->g;
    bool first = g->n_shards == 1;
    ShardInfo *s = &l->shards[g->n_shards - 1];
    KvTable table = {0};
    uint32_t version = 0;
    uint64_t n_tensors = 0, n_kv = 0;
    if (!read_header(w, &version, &n_tensors, &n_kv, err)) return false;
    if (!read_kvs(w, first ? &g->arena : scratch, n_kv, &table, err)) return false;
    if (!find_alignment(&table, &s->alignment, err)) return false;
    Gguf view = {
        .files = &g->files[g->n_shards - 1], .n_shards = 1, .kv = table.kv, .n_kv = table.n, .kv_map = table.map};
    if (split && !read_split_keys(&view, s, err)) return false;
    if (first) {
        g->version = version;
        g->kv = table.kv;
        g->n_kv = table.n;
        g->kv_map = table.map;
    } else if (!same_model(g, &table, err)) {
        return false;
    }
    s->first_tensor = g->n_tensors;
    if (!th_loader_read_tensors(l, w, n_tensors, err)) return false;
    s->n_tensors = g->n_tensors - s->first_tensor;
    s->header_end = w->pos;
    s->data_start = th_align_up(w->pos, s->alignment);
    if (s->n_tensors && s->data_start > w->file->size)
        return th_fail(
            err, THIMBLE_E_FORMAT,
            "the file ends at byte %llu, before its data begin (byte %llu); it is cut short, download it again",
            (unsigned long long)w->file->size, (unsigned long long)s->data_start);
    s->data_bytes = s->data_start <= w->file->size ? w->file->size - s->data_start : 0;
    return true;
}

void th_loader_begin(Loader *l, Gguf *g, Budget *budget) {
    *g = (Gguf){0};
    *l = (Loader){.g = g, .budget = budget};
    th_arena_init(&g->arena, budget, MEM_METADATA);
}

bool th_loader_add_file(Loader *l, const char *path, bool split, Err *err) {
    Gguf *g = l->g;
    if (!th_loader_grow(&g->arena, &g->files, g->n_shards, &l->file_cap, sizeof *g->files, err)) return false;
    if (!th_loader_grow(&g->arena, &l->shards, g->n_shards, &l->shard_cap, sizeof *l->shards, err)) return false;
    File *file = &g->files[g->n_shards];
    if (!th_file_open(file, path, err)) return false;
    l->shards[g->n_shards] = (ShardInfo){.split_no = -1, .split_count = -1, .split_tensors = -1};
    g->n_shards++;
    g->file_bytes += file->size;
    Window w = {0};
    Arena scratch;
    th_arena_init(&scratch, l->budget, MEM_METADATA);
    bool ok = th_window_open(&w, file, l->budget, err) && read_file(l, &w, &scratch, split, err);
    th_window_close(&w);
    th_arena_free(&scratch);
    return ok || th_sniff_prefix(path, err);
}

bool th_gguf_open_single(Gguf *g, const char *path, Budget *budget, Err *err) {
    Loader l;
    th_loader_begin(&l, g, budget);
    if (!th_loader_add_file(&l, path, false, err) || !th_loader_settle(&l, err)) goto fail;
    return true;
fail:
    th_gguf_close(g);
    return false;
}

void th_gguf_close(Gguf *g) {
    for (uint32_t i = 0; i < g->n_shards; i++) th_file_close(&g->files[i]);
    th_arena_free(&g->arena);
    *g = (Gguf){0};
}

const GgufTensor *th_gguf_tensor(const Gguf *g, const char *name) {
    uint32_t at;
    return th_map_get(&g->tensor_map, th_str(name), &at) ? &g->tensors[at] : NULL;
}

const GgufKv *th_gguf_kv(const Gguf *g, const char *key) {
    uint32_t at;
    return th_map_get(&g->kv_map, th_str(key), &at) ? &g->kv[at] : NULL;
}
