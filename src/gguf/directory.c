/* directory.c: the tensor directory: what each info says, and what only all of them together show.
 *
 * Three type ids mean different layouts in different files (42, 142, 143; gguf-tensor-types specification, 8). There
 * the places of the tensors decide: a layout is believed when its sizes fill the file without a gap. */
#include <stdlib.h>
#include <string.h>

#include "gguf/loader.h"

enum { MAX_TENSORS = 1048576, MAX_NAME = 63, SMALLEST_INFO = 24 };

typedef struct Span {
    uint64_t offset; /* within the data section */
    size_t index;    /* of the tensor           */
} Span;

static bool prefix_tensor(Str name, Err *err) {
    char text[4 * MAX_NAME + 1];
    th_str_escape(name, text, sizeof text);
    return th_err_prefix(err, "tensor %s: ", text);
}

/* ---- one info ---- */

static bool read_name(Loader *l, Window *w, Str *name, Err *err) {
    uint64_t len;
    if (!th_window_u64(w, &len, err)) return false;
    if (len > MAX_NAME)
        return th_fail(err, THIMBLE_E_FORMAT, "its name has %llu bytes, at most %d are allowed",
                       (unsigned long long)len, MAX_NAME);
    char text[MAX_NAME + 1];
    if (!th_window_read(w, text, (size_t)len, err)) return false;
    const char *copy = th_arena_dup(&l->g->arena, text, (size_t)len, err);
    if (copy) *name = (Str){copy, (size_t)len};
    return copy != NULL;
}

static bool read_dims(Window *w, GgufTensor *t, Err *err) {
    if (!th_window_u32(w, &t->n_dims, err)) return false;
    if (t->n_dims < 1 || t->n_dims > 4)
        return th_fail(err, THIMBLE_E_FORMAT, "%u dimensions, 1 to 4 are allowed", t->n_dims);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < 4; d++) {
        t->dim[d] = 1;
        if (d >= t->n_dims) continue;
        if (!th_window_u64(w, &t->dim[d], err)) return false;
        if (t->dim[d] == 0 || t->dim[d] > INT64_MAX)
            return th_fail(err, THIMBLE_E_FORMAT, "dimension %u is %llu, 1 to 2^63-1 are allowed", d,
                           (unsigned long long)t->dim[d]);
        if (!th_size_mul(elements, t->dim[d], &elements) || elements > INT64_MAX)
            return th_fail(err, THIMBLE_E_FORMAT,
                           "the product of the dimensions up to dimension %u (%llu) passes 2^63-1", d,
                           (unsigned long long)t->dim[d]);
    }
    return true;
}

/* Row and total bytes as type; false if the row is not whole blocks or a product wraps. */
static bool sizes_as(const GgufTensor *t, const TypeInfo *type, uint64_t *row_bytes, uint64_t *bytes) {
    *row_bytes = th_type_row_bytes(type, t->dim[0]);
    return *row_bytes && th_size_mul(*row_bytes, t->dim[1], bytes) && th_size_mul(*bytes, t->dim[2], bytes) &&
           th_size_mul(*bytes, t->dim[3], bytes) && *bytes <= INT64_MAX;
}

static bool find_type(uint32_t id, const TypeInfo **out, Err *err) {
    *out = th_type_info(id);
    if (*out) return true;
    const char *foreign = th_type_foreign(id);
    if (foreign)
        return th_fail(err, THIMBLE_E_UNSUPPORTED,
                       "type %u is %s; this build cannot read it: use a file with standard types", id, foreign);
    return th_fail(err, THIMBLE_E_UNSUPPORTED, "unknown type %u", id);
}

static bool read_type(Window *w, GgufTensor *t, Err *err) {
    uint32_t id;
    if (!th_window_u32(w, &id, err) || !find_type(id, &t->type, err)) return false;
    if (t->dim[0] % t->type->block)
        return th_fail(err, THIMBLE_E_FORMAT,
                       "rows of %llu weights are not a multiple of the block of %u weights of %s",
                       (unsigned long long)t->dim[0], t->type->block, t->type->name);
    if (!sizes_as(t, t->type, &t->row_bytes, &t->bytes))
        return th_fail(err, THIMBLE_E_FORMAT, "%llu x %llu x %llu x %llu weights of %s are more bytes than 2^63-1",
                       (unsigned long long)t->dim[0], (unsigned long long)t->dim[1], (unsigned long long)t->dim[2],
                       (unsigned long long)t->dim[3], t->type->name);
    return true;
}

static bool read_info(Loader *l, Window *w, GgufTensor *t, Err *err) {
    const ShardInfo *s = &l->shards[l->g->n_shards - 1];
    t->shard = l->g->n_shards - 1;
    if (!read_dims(w, t, err) || !read_type(w, t, err) || !th_window_u64(w, &t->offset, err)) return false;
    if (t->offset % s->alignment)
        return th_fail(err, THIMBLE_E_FORMAT, "offset %llu is not a multiple of the alignment %llu",
                       (unsigned long long)t->offset, (unsigned long long)s->alignment);
    return true;
}

bool th_loader_read_tensors(Loader *l, Window *w, uint64_t count, Err *err) {
    Gguf *g = l->g;
    uint64_t room = th_window_left(w) / SMALLEST_INFO;
    if (count > room || count > MAX_TENSORS || g->n_tensors > MAX_TENSORS - count)
        return th_fail(
            err, THIMBLE_E_FORMAT,
            "the header claims %llu tensors, the file has room for %llu and %d are allowed; it is damaged or cut short",
            (unsigned long long)count, (unsigned long long)room, MAX_TENSORS);
    for (uint64_t i = 0; i < count; i++) {
        GgufTensor t = {0};
        if (!th_loader_grow(&g->arena, &g->tensors, g->n_tensors, &l->tensor_cap, sizeof *g->tensors, err))
            return false;
        if (!read_name(l, w, &t.name, err) || !read_info(l, w, &t, err)) {
            if (t.name.len) return prefix_tensor(t.name, err);
            return th_err_prefix(err, "tensor %llu of %llu: ", (unsigned long long)i + 1, (unsigned long long)count);
        }
        g->tensors[g->n_tensors++] = t;
    }
    return true;
}

/* ---- all infos of a file: spans are sorted by offset ---- */

static int by_offset(const void *a, const void *b) {
    const Span *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void make_spans(const Gguf *g, const ShardInfo *s, Span *spans) {
    bool ordered = true;
    for (size_t i = 0; i < s->n_tensors; i++) {
        spans[i] = (Span){g->tensors[s->first_tensor + i].offset, s->first_tensor + i};
        ordered = ordered && (i == 0 || spans[i - 1].offset <= spans[i].offset);
    }
    if (!ordered) qsort(spans, s->n_tensors, sizeof *spans, by_offset);
}

/* Does every tensor (of id `only`, or all with only == 0) end, padded, where the next begins? strict: the last one ends
 * where the file does, give or take its padding; otherwise it only has to lie inside. as: read those of id only as
 * this. */
static bool fills_exactly(const Gguf *g, const ShardInfo *s, const Span *spans, uint32_t only, const TypeInfo *as,
                          bool strict) {
    for (size_t i = 0; i < s->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[spans[i].index];
        uint64_t row, bytes, end;
        if (only && t->type->id != only) continue;
        if (!sizes_as(t, as ? as : t->type, &row, &bytes) || !th_size_add(spans[i].offset, bytes, &end)) return false;
        if (i + 1 < s->n_tensors) {
            if (th_align_up(end, s->alignment) != spans[i + 1].offset) return false;
        } else if (end > s->data_bytes || (strict && s->data_bytes - end >= s->alignment)) {
            return false;
        }
    }
    return true;
}

static bool has_type(const Gguf *g, const ShardInfo *s, uint32_t id, size_t *index) {
    for (size_t i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++)
        if (g->tensors[i].type->id == id) {
            *index = i;
            return true;
        }
    return false;
}

/* The first ternary files wrote 34-byte blocks of 128 under id 42, which now means 18-byte blocks of 64. */
static void settle_q2_0(Loader *l, Span *const *spans) {
    Gguf *g = l->g;
    const TypeInfo *old = th_type_info(TYPE_PQ2_0);
    bool standard = true, legacy = old != NULL, any = false;
    for (uint32_t k = 0; k < g->n_shards; k++) {
        size_t index;
        if (!has_type(g, &l->shards[k], TYPE_Q2_0, &index)) continue;
        any = true;
        standard = standard && fills_exactly(g, &l->shards[k], spans[k], TYPE_Q2_0, NULL, false);
        legacy = legacy && fills_exactly(g, &l->shards[k], spans[k], TYPE_Q2_0, old, true);
    }
    g->legacy_q2_0 = any && !standard && legacy;
    if (!g->legacy_q2_0) return;
    for (size_t i = 0; i < g->n_tensors; i++) {
        GgufTensor *t = &g->tensors[i];
        if (t->type->id != TYPE_Q2_0) continue;
        t->type = old;
        (void)sizes_as(t, old, &t->row_bytes, &t->bytes); /* cannot fail: fills_exactly computed the same */
    }
}

/* Several projects use 142 and 143 for different layouts; ours is believed only where all sizes fit. */
static bool check_contested(const Loader *l, const ShardInfo *s, const Span *spans, Err *err) {
    const Gguf *g = l->g;
    size_t index;
    if (g->legacy_q2_0 || (!has_type(g, s, TYPE_PQ2_0, &index) && !has_type(g, s, TYPE_PTQ1_0, &index))) return true;
    if (spans[0].offset == 0 && fills_exactly(g, s, spans, 0, NULL, true)) return true;
    const GgufTensor *t = &g->tensors[index];
    th_fail(err, THIMBLE_E_UNSUPPORTED,
            "type %u is used by several projects, and the tensor sizes of this file are not those of %s: it belongs to "
            "another program",
            t->type->id, t->type->name);
    return prefix_tensor(t->name, err);
}

static bool fail_short(const File *f, const GgufTensor *t, uint64_t end, Err *err) {
    const uint64_t absurd = (uint64_t)1 << 45; /* no download is cut by 32 TB: the numbers are wrong, not the length */
    const char *fix = "the download is incomplete, download it again";
    if (end - f->size > absurd) fix = "the sizes in it are damaged";
    th_fail(err, THIMBLE_E_FORMAT, "its %llu bytes end at byte %llu, the file ends at %llu: it is %llu bytes short; %s",
            (unsigned long long)t->bytes, (unsigned long long)end, (unsigned long long)f->size,
            (unsigned long long)(end - f->size), fix);
    return prefix_tensor(t->name, err);
}

static bool check_ranges(const Gguf *g, const ShardInfo *s, const Span *spans, Err *err) {
    const File *f = &g->files[g->tensors[s->first_tensor].shard];
    for (size_t i = 0; i < s->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[spans[i].index];
        uint64_t end;
        if (!th_size_add(s->data_start, t->offset, &end) || !th_size_add(end, t->bytes, &end)) {
            th_fail(err, THIMBLE_E_FORMAT, "offset %llu and %llu bytes of data lie beyond any file",
                    (unsigned long long)t->offset, (unsigned long long)t->bytes);
            return prefix_tensor(t->name, err);
        }
        if (end > f->size) return fail_short(f, t, end, err);
        if (i + 1 < s->n_tensors && t->offset + t->bytes > spans[i + 1].offset) {
            char other[4 * MAX_NAME + 1];
            th_str_escape(g->tensors[spans[i + 1].index].name, other, sizeof other);
            th_fail(err, THIMBLE_E_FORMAT,
                    "its data (%llu bytes at offset %llu) overlap those of tensor %s at offset %llu",
                    (unsigned long long)t->bytes, (unsigned long long)t->offset, other,
                    (unsigned long long)spans[i + 1].offset);
            return prefix_tensor(t->name, err);
        }
    }
    return true;
}

static bool check_joined(const Gguf *g, const ShardInfo *s, const Span *spans, const File *f, Err *err) {
    uint64_t end = s->header_end;
    if (s->n_tensors) {
        const GgufTensor *last = &g->tensors[spans[s->n_tensors - 1].index];
        end = s->data_start + last->offset + last->bytes;
    }
    if (!th_sniff_joined(f, end, s->alignment)) return true;
    return th_fail(
        err, THIMBLE_E_FORMAT,
        "another GGUF file begins at byte %llu: shards were joined with cat; keep them as separate files and open the "
        "first one",
        (unsigned long long)end);
}

static bool settle_shard(Loader *l, uint32_t k, const Span *spans, Err *err) {
    Gguf *g = l->g;
    const ShardInfo *s = &l->shards[k];
    bool ok = s->n_tensors == 0 || (check_contested(l, s, spans, err) && check_ranges(g, s, spans, err));
    if (!ok || !check_joined(g, s, spans, &g->files[k], err)) return th_sniff_prefix(g->files[k].path, err);
    for (size_t i = s->first_tensor; i < s->first_tensor + s->n_tensors; i++) g->tensors[i].offset += s->data_start;
    return true;
}

static bool check_names(Gguf *g, Err *err) {
    if (!th_map_init(&g->tensor_map, &g->arena, g->n_tensors, err)) return false;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        uint32_t before;
        if (th_map_get(&g->tensor_map, t->name, &before)) {
            char a[160], b[160];
            th_str_escape(th_str(th_path_name(g->files[g->tensors[before].shard].path)), a, sizeof a);
            th_str_escape(th_str(th_path_name(g->files[t->shard].path)), b, sizeof b);
            if (g->tensors[before].shard == t->shard)
                th_fail(err, THIMBLE_E_FORMAT, "is there twice in %s", a);
            else
                th_fail(err, THIMBLE_E_FORMAT, "is in both %s and %s: one of them belongs to another model", a, b);
            return prefix_tensor(t->name, err);
        }
        (void)th_map_put(&g->tensor_map, t->name, (uint32_t)i);
    }
    return true;
}

bool th_loader_settle(Loader *l, Err *err) {
    Gguf *g = l->g;
    /* One allocation: a pointer per shard, then a span per tensor. */
    size_t bytes = g->n_shards * sizeof(Span *) + (g->n_tensors + 1) * sizeof(Span);
    Span **spans = th_mem_alloc(l->budget, MEM_METADATA, bytes, 16, err);
    if (!spans) return false;
    Span *next = (Span *)(void *)(spans + g->n_shards);
    for (uint32_t k = 0; k < g->n_shards; k++) {
        spans[k] = next;
        next += l->shards[k].n_tensors;
        make_spans(g, &l->shards[k], spans[k]);
    }
    bool ok = check_names(g, err);
    if (ok) settle_q2_0(l, spans);
    for (uint32_t k = 0; ok && k < g->n_shards; k++) ok = settle_shard(l, k, spans[k], err);
    th_mem_free(l->budget, MEM_METADATA, spans, bytes);
    return ok;
}
