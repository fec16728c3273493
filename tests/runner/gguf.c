/* gguf.c: container files judged against expected.json: verdict, version, tensors with the bytes they point to,
 * metadata values. Shards are judged alone, and each set that the folder holds is then loaded as one: it has to load
 * when all its shards are there, in their places, agree with the announced total and share no tensor name. */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gguf/gguf.h"
#include "runner/vectors.h"

typedef struct Case {
    const char *dir, *name;
    json_t *want;
    Gguf g;
    Budget budget;
    char why[600]; /* first disagreement; empty: none */
} Case;

static void TH_PRINTF(2, 3) differ(Case *c, const char *format, ...) {
    if (c->why[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
}

static void want_u64(Case *c, const char *what, const json_t *want, uint64_t got) {
    if (want && (uint64_t)json_integer_value(want) != got)
        differ(c, "%s: expected %lld, got %llu", what, (long long)json_integer_value(want), (unsigned long long)got);
}

static uint64_t sum_bytes(Case *c, const GgufTensor *t) {
    unsigned char chunk[4096];
    uint64_t sum = 0;
    Err err = {0};
    for (uint64_t at = 0; at < t->bytes;) {
        size_t n = t->bytes - at < sizeof chunk ? (size_t)(t->bytes - at) : sizeof chunk;
        if (!th_file_read(&c->g.files[t->shard], chunk, n, t->offset + at, &err)) {
            differ(c, "reading failed: %s", err.message);
            return 0;
        }
        for (size_t i = 0; i < n; i++) sum += chunk[i];
        at += n;
    }
    return sum;
}

static void check_tensor(Case *c, json_t *want, const GgufTensor *t) {
    char what[128];
    const char *name = json_string_value(json_object_get(want, "name"));
    if (!name || !th_str_is(t->name, name)) {
        differ(c, "tensor %s expected, got %.*s", name ? name : "?", TH_STR_ARG(t->name));
        return;
    }
    json_t *dims = json_object_get(want, "dims"), *type = json_object_get(want, "type");
    if (dims && json_array_size(dims) != t->n_dims)
        differ(c, "%s: %zu dimensions expected, got %u", name, json_array_size(dims), t->n_dims);
    for (size_t d = 0; d < json_array_size(dims) && d < 4; d++) {
        snprintf(what, sizeof what, "%s dimension %zu", name, d);
        want_u64(c, what, json_array_get(dims, d), t->dim[d]);
    }
    want_u64(c, "type", type, t->type->id);
    want_u64(c, "bytes", json_object_get(want, "bytes"), t->bytes);
    want_u64(c, "file_pos", json_object_get(want, "file_pos"), t->offset);
    json_t *pos = json_object_get(want, "file_pos"), *offset = json_object_get(want, "offset");
    /* The reader keeps absolute positions: an offset is checked as the distance from the section's start. */
    const GgufTensor *first = &c->g.tensors[0];
    json_t *first_offset = json_object_get(json_array_get(json_object_get(c->want, "tensors"), 0), "offset");
    if (offset && first_offset)
        want_u64(c, "offset", offset, t->offset - first->offset + (uint64_t)json_integer_value(first_offset));
    (void)pos;
    json_t *sum = json_object_get(want, "sum_of_bytes");
    if (sum) want_u64(c, "sum_of_bytes", sum, sum_bytes(c, t));
}

/* ---- metadata ---- */

static bool same_text(Str got, const char *want, size_t want_len, bool hex) {
    if (!hex) return got.len == want_len && memcmp(got.data, want, want_len) == 0;
    if (got.len * 2 != want_len) return false;
    for (size_t i = 0; i < got.len; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", (unsigned char)got.data[i]);
        if (memcmp(two, want + 2 * i, 2) != 0) return false;
    }
    return true;
}

static double as_real(const json_t *want) {
    if (json_is_string(want)) return strtod(json_string_value(want), NULL);
    return json_is_boolean(want) ? (double)json_is_true(want) : json_number_value(want);
}

static bool is_signed(uint32_t type) {
    return type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
}

static bool same_scalar(const GgufKv *kv, const json_t *want) {
    if (json_is_boolean(want) != (kv->type == GGUF_BOOL)) return false;
    if (kv->type == GGUF_BOOL) return (kv->value.u != 0) == json_is_true(want);
    if (kv->type == GGUF_F32) return (float)kv->value.f == (float)as_real(want);
    if (kv->type == GGUF_F64) return kv->value.f == as_real(want);
    char got[32], wanted[32];
    if (is_signed(kv->type))
        snprintf(got, sizeof got, "%lld", (long long)kv->value.i);
    else
        snprintf(got, sizeof got, "%llu", (unsigned long long)kv->value.u);
    if (json_is_string(want)) return strcmp(json_string_value(want), got) == 0;
    snprintf(wanted, sizeof wanted, "%lld", (long long)json_integer_value(want));
    return strcmp(got, wanted) == 0;
}

static void check_string_array(Case *c, const char *key, const GgufKv *kv, Arena *arena, json_t *want, bool hex) {
    Str *texts;
    Err err = {0};
    if (!th_gguf_read_strings(&c->g, kv, arena, &texts, &err)) {
        differ(c, "%s", err.message);
        return;
    }
    for (size_t i = 0; i < kv->count; i++) {
        const json_t *w = json_array_get(want, i);
        if (!json_is_string(w) || !same_text(texts[i], json_string_value(w), json_string_length(w), hex))
            differ(c, "%s[%zu]: expected %s, got another text of %zu bytes", key, i, json_string_value(w),
                   texts[i].len);
    }
}

static void check_number_array(Case *c, const char *key, const GgufKv *kv, Arena *arena, json_t *want) {
    int64_t *ints = th_arena_array(arena, (size_t)kv->count, sizeof *ints, NULL);
    float *reals = NULL;
    bool real = kv->element == GGUF_F32 || kv->element == GGUF_F64, present;
    Err err = {0};
    if (!ints) return;
    bool ok = real ? th_gguf_read_reals(&c->g, kv, arena, &reals, &err)
                   : th_gguf_get_ints(&c->g, key, (size_t)kv->count, 0, INT64_MIN, INT64_MAX, ints, &present, &err);
    if (!ok) differ(c, "%s", err.message);
    for (size_t i = 0; ok && i < kv->count; i++) {
        const json_t *w = json_array_get(want, i);
        bool same = real                 ? reals[i] == (float)as_real(w)
                    : json_is_string(w)  ? strtoll(json_string_value(w), NULL, 10) == ints[i]
                    : json_is_boolean(w) ? kv->element == GGUF_BOOL && json_is_true(w) == (ints[i] != 0)
                                         : json_integer_value(w) == ints[i];
        if (!same)
            differ(c, "%s[%zu]: expected %g, got %g", key, i, as_real(w), real ? (double)reals[i] : (double)ints[i]);
    }
}

static void check_value(Case *c, const char *label, json_t *want) {
    char key[256];
    size_t len = strlen(label);
    bool hex = len > 4 && strcmp(label + len - 4, ".hex") == 0;
    snprintf(key, sizeof key, "%.*s", (int)(hex ? len - 4 : len), label);
    const GgufKv *kv = th_gguf_kv(&c->g, key);
    if (!kv) {
        differ(c, "key %s: absent", key);
        return;
    }
    Arena arena;
    th_arena_init(&arena, &c->budget, MEM_METADATA);
    Str text;
    Err err = {0};
    if (kv->type == GGUF_ARRAY) {
        if (!json_is_array(want) || json_array_size(want) != kv->count)
            differ(c, "key %s: an array of %llu, expected %zu", key, (unsigned long long)kv->count,
                   json_array_size(want));
        else if (kv->element == GGUF_STRING)
            check_string_array(c, key, kv, &arena, want, hex);
        else
            check_number_array(c, key, kv, &arena, want);
    } else if (kv->type == GGUF_STRING) {
        if (!th_gguf_read_text(&c->g, kv, &arena, &text, &err))
            differ(c, "%s", err.message);
        else if (!json_is_string(want) || !same_text(text, json_string_value(want), json_string_length(want), hex))
            differ(c, "key %s: expected %s, got another text of %zu bytes", key, json_string_value(want), text.len);
    } else if (!same_scalar(kv, want)) {
        char *words = json_dumps(want, JSON_ENCODE_ANY);
        differ(c, "key %s: expected %s, got another value (u %llu, i %lld, f %g)", key, words ? words : "?",
               (unsigned long long)kv->value.u, (long long)kv->value.i, kv->value.f);
        free(words);
    }
    th_arena_free(&arena);
}

static void check_int_key(Case *c, const char *field, const char *key, int64_t absent) {
    const json_t *want = json_object_get(c->want, field);
    int64_t got = absent;
    Err err = {0};
    if (!want) return;
    if (!th_gguf_get_int(&c->g, key, 0, INT32_MAX, &got, &err)) differ(c, "%s", err.message);
    want_u64(c, key, want, (uint64_t)got);
}

static void check_accepted(Case *c) {
    json_t *tensors = json_object_get(c->want, "tensors"), *value;
    const char *key;
    want_u64(c, "version", json_object_get(c->want, "version"), c->g.version);
    want_u64(c, "kv_count", json_object_get(c->want, "kv_count"), c->g.n_kv);
    want_u64(c, "bytes", json_object_get(c->want, "bytes"), c->g.file_bytes);
    check_int_key(c, "alignment", "general.alignment", 32);
    check_int_key(c, "split_no", "split.no", -1);
    check_int_key(c, "split_count", "split.count", -1);
    if (tensors && json_array_size(tensors) != c->g.n_tensors)
        differ(c, "%zu tensors expected, got %zu", json_array_size(tensors), c->g.n_tensors);
    for (size_t i = 0; i < json_array_size(tensors) && !c->why[0]; i++)
        check_tensor(c, json_array_get(tensors, i), &c->g.tensors[i]);
    json_object_foreach(json_object_get(c->want, "checks"), key, value) check_value(c, key, value);
}

static void join(char *out, size_t cap, const char *dir, const char *name) { snprintf(out, cap, "%s/%s", dir, name); }

static void run_case(const char *dir, const char *name, json_t *want, Tally *t) {
    char path[4096];
    Case c = {.dir = dir, .name = name, .want = want};
    Err err = {0};
    const char *expect = json_string_value(json_object_get(want, "expect"));
    join(path, sizeof path, dir, name);
    th_budget_init(&c.budget,
                   16 * TH_MIB); /* far more than the sound files need, far less than the hostile ones claim */
    bool open = th_gguf_open_single(&c.g, path, &c.budget, &err);
    if (!expect)
        differ(&c, "no verdict in expected.json");
    else if (!open && (err.code == THIMBLE_E_BUDGET || err.code == THIMBLE_E_NOMEM || err.code == THIMBLE_E_IO))
        differ(&c, "expected %s, failed for another reason: %s", expect, err.message);
    else if (open && strcmp(expect, "reject") == 0)
        differ(&c, "expected a refusal, was accepted");
    else if (!open && strcmp(expect, "accept") == 0)
        differ(&c, "expected to be accepted, was refused: %s", err.message);
    else if (open)
        check_accepted(&c);
    th_gguf_close(&c.g);
    if (c.budget.used) differ(&c, "%llu bytes were not given back", (unsigned long long)c.budget.used);
    th_budget_free(&c.budget);
    if (c.why[0])
        tally_fail(t, "%s: %s", name, c.why);
    else
        tally_pass(t, "%s", name);
}

/* ---- sets ---- */

static bool is_shard(const char *name, char *prefix, size_t cap, int *no, int *count) {
    const char *end = strstr(name, ".gguf");
    if (!end || end[5] || end - name < 15 || (size_t)(end - name) - 15 >= cap) return false;
    size_t n = (size_t)(end - name) - 15;
    if (sscanf(name + n, "-%5d-of-%5d.gguf", no, count) != 2) return false;
    memcpy(prefix, name, n);
    prefix[n] = 0;
    return true;
}

static json_t *shard_entry(json_t *all, const char *prefix, int no, int count) {
    char name[600];
    snprintf(name, sizeof name, "%s-%05d-of-%05d.gguf", prefix, no, count);
    return json_object_get(all, name);
}

/* expected.json says in words what a set must do. A set must not load when a note says "must fail", or when a shard is
 * missing or refused. */
static bool set_must_load(json_t *all, const char *prefix, int count) {
    for (int k = 1; k <= count; k++) {
        json_t *entry = shard_entry(all, prefix, k, count);
        const char *note = json_string_value(json_object_get(entry, "note"));
        const char *expect = json_string_value(json_object_get(entry, "expect"));
        if (!entry || (note && strstr(note, "must fail")) || (expect && strcmp(expect, "reject") == 0)) return false;
    }
    return true;
}

static void run_set(const char *dir, json_t *all, const char *prefix, int count, Tally *t) {
    bool must_load = set_must_load(all, prefix, count);
    for (int k = 1; k <= count; k++) { /* by each of its shards */
        char name[600], path[4096];
        Gguf g;
        Budget budget;
        Err err = {0};
        json_t *entry = shard_entry(all, prefix, k, count);
        if (!entry) continue;
        snprintf(name, sizeof name, "%s-%05d-of-%05d.gguf", prefix, k, count);
        join(path, sizeof path, dir, name);
        th_budget_init(&budget, 16 * TH_MIB);
        bool open = th_gguf_open(&g, path, &budget, &err);
        size_t want = 0;
        for (int i = 1; i <= count; i++)
            want += json_array_size(json_object_get(shard_entry(all, prefix, i, count), "tensors"));
        if (open != must_load)
            tally_fail(t, "set of %s: expected %s: %s", name, must_load ? "to load" : "a refusal",
                       open ? "it was opened" : err.message);
        else if (open && (g.n_shards != (uint32_t)count || g.n_tensors != want))
            tally_fail(t, "set of %s: expected %d shards with %zu tensors, got %u with %zu", name, count, want,
                       g.n_shards, g.n_tensors);
        else
            tally_pass(t, "set of %s", name);
        th_gguf_close(&g);
        th_budget_free(&budget);
    }
}

bool vectors_gguf(const char *dir, Tally *t) {
    char path[4096], prefix[512];
    const char *name;
    json_t *want;
    int no, count;
    join(path, sizeof path, dir, "expected.json");
    json_t *all = json_load_file(path, 0, NULL);
    if (!json_is_object(all)) {
        json_decref(all);
        return false;
    }
    json_object_foreach(all, name, want) run_case(dir, name, want, t);
    json_object_foreach(all, name, want) {
        if (!is_shard(name, prefix, sizeof prefix, &no, &count)) continue;
        /* once per set: at its first listed shard */
        int first = 1;
        while (first < no && !shard_entry(all, prefix, first, count)) first++;
        if (first == no) run_set(dir, all, prefix, count, t);
    }
    json_decref(all);
    return true;
}
