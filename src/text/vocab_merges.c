/* vocab_merges.c: the merges of byte-level BPE as rows of symbols.
 *
 * Row k of the file, "left right", becomes {left, right, result} as symbols, and the encoder never sees a text again.
 * In a complete vocabulary every part is a token and one walk is enough. In an incomplete one, a text that is no token
 * can still be the road to one: such results become symbols of their own, numbered by the first row that makes them,
 * and a second walk resolves the parts. merge_slots serves as their index until the pairs move in. */
#include <string.h>

#include "text/vocab_parts.h"

static const uint32_t MISSING = UINT32_MAX;

/* Results that are not tokens: text of row k at texts[at[k] .. at[k] + length[k]). Made when the first one is met. */
typedef struct Extras {
    Budget *budget;
    char *texts;
    uint32_t *at, *length;
    size_t bytes, used, rows;
} Extras;

static bool make_room(Extras *x, size_t rows, size_t bytes, Err *err) {
    if (x->texts) return true;
    x->rows = rows;
    x->bytes = bytes;
    x->at = th_mem_alloc(x->budget, MEM_METADATA, rows * 8, 64, err);
    x->texts = x->at ? th_mem_alloc(x->budget, MEM_METADATA, bytes, 64, err) : NULL;
    x->length = x->at ? x->at + rows : NULL;
    return x->texts != NULL;
}

static void free_extras(Extras *x) {
    th_mem_free(x->budget, MEM_METADATA, x->texts, x->bytes);
    th_mem_free(x->budget, MEM_METADATA, x->at, x->rows * 8);
}

static uint32_t *extra_slot(Vocab *v, const Extras *x, Str text) {
    uint32_t i = (uint32_t)((th_str_hash(text) & UINT32_MAX) * v->n_merge_slots >> 32);
    for (;; i = i + 1 == v->n_merge_slots ? 0 : i + 1) {
        uint32_t row = v->merge_slots[i];
        if (row == 0 || th_str_eq(text, (Str){x->texts + x->at[row - 1], x->length[row - 1]}))
            return &v->merge_slots[i];
    }
}

static uint32_t symbol_of(Vocab *v, const Extras *x, Str text) {
    int32_t id = th_vocab_find(v, text);
    if (id >= 0) return (uint32_t)id;
    uint32_t code;
    if (!v->raw_utf8 && text.len && th_utf8_decode(text.data, text.len, &code) == text.len && th_char_byte(code) >= 0)
        return (uint32_t)v->n + (uint32_t)th_char_byte(code);
    uint32_t row = x->texts ? *extra_slot(v, x, text) : 0;
    return row ? (uint32_t)v->n + 256 + row - 1 : MISSING;
}

/* Splits at the first space at or after index 1 (section 1). A row without one never applies. */
static bool split(Str merge, Str *left, Str *right) {
    const char *space = merge.len > 2 ? memchr(merge.data + 1, ' ', merge.len - 1) : NULL;
    if (!space) return false;
    size_t at = (size_t)(space - merge.data);
    *left = (Str){merge.data, at};
    *right = (Str){space + 1, merge.len - at - 1};
    return right->len > 0;
}

static bool read_row(Vocab *v, Extras *x, uint32_t k, Str merge, char *joined, size_t texts_bytes, Err *err) {
    Str left, right;
    v->merge_left[k] = v->merge_right[k] = v->merge_result[k] = MISSING;
    if (!split(merge, &left, &right)) return true;
    memcpy(joined, left.data, left.len);
    memcpy(joined + left.len, right.data, right.len);
    Str result = {joined, left.len + right.len};
    v->merge_left[k] = symbol_of(v, x, left);
    v->merge_right[k] = symbol_of(v, x, right);
    v->merge_result[k] = symbol_of(v, x, result);
    if (v->merge_result[k] != MISSING) return true;
    if (!make_room(x, v->n_merges, texts_bytes, err)) return false;
    if (result.len > x->bytes - x->used)
        return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.merges changed while it was read");
    memcpy(x->texts + x->used, joined, result.len);
    x->at[k] = (uint32_t)x->used;
    x->length[k] = (uint32_t)result.len;
    x->used += result.len;
    *extra_slot(v, x, result) = k + 1;
    v->merge_result[k] = (uint32_t)v->n + 256 + k;
    return true;
}

/* The second walk: parts that were not known when their row was read. */
static void resolve_row(Vocab *v, const Extras *x, uint32_t k, Str merge) {
    Str left, right;
    if (v->merge_result[k] == MISSING || !split(merge, &left, &right)) return;
    if (v->merge_left[k] == MISSING) v->merge_left[k] = symbol_of(v, x, left);
    if (v->merge_right[k] == MISSING) v->merge_right[k] = symbol_of(v, x, right);
}

static bool walk(Vocab *v, const Gguf *g, const GgufKv *kv, Extras *x, bool second, Err *err) {
    GgufStrings strings;
    char *joined = NULL;
    bool ok = th_gguf_strings_open(&strings, g, kv, x->budget, err);
    if (ok) joined = th_mem_alloc(x->budget, MEM_METADATA, GGUF_STRINGS_BYTES, 64, err);
    ok = ok && joined;
    for (uint32_t k = 0; ok && k < v->n_merges; k++) {
        Str merge;
        ok = th_gguf_strings_next(&strings, &merge, err);
        if (ok && second) resolve_row(v, x, k, merge);
        if (ok && !second) ok = read_row(v, x, k, merge, joined, (size_t)(kv->payload - 8 * kv->count), err);
    }
    th_mem_free(x->budget, MEM_METADATA, joined, GGUF_STRINGS_BYTES);
    th_gguf_strings_close(&strings);
    return ok;
}

static uint32_t pair_slot(const Vocab *v, uint32_t left, uint32_t right) {
    uint64_t mixed = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u;
    return (uint32_t)((mixed >> 32) * v->n_merge_slots >> 32);
}

static void index_pairs(Vocab *v) {
    memset(v->merge_slots, 0, (size_t)v->n_merge_slots * sizeof *v->merge_slots);
    for (uint32_t k = 0; k < v->n_merges; k++) {
        uint32_t left = v->merge_left[k], right = v->merge_right[k], rank, result;
        /* The first of two equal rows has the lower rank. */
        if (left == MISSING || right == MISSING || th_vocab_merge(v, left, right, &rank, &result)) continue;
        uint32_t i = pair_slot(v, left, right);
        while (v->merge_slots[i]) i = i + 1 == v->n_merge_slots ? 0 : i + 1;
        v->merge_slots[i] = k + 1;
    }
}

bool th_vocab_merge(const Vocab *v, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *result) {
    if (v->n_merges == 0) return false;
    for (uint32_t i = pair_slot(v, left, right); v->merge_slots[i]; i = i + 1 == v->n_merge_slots ? 0 : i + 1) {
        uint32_t k = v->merge_slots[i] - 1;
        if (v->merge_left[k] != left || v->merge_right[k] != right) continue;
        *rank = k;
        *result = v->merge_result[k];
        return true;
    }
    return false;
}

bool th_vocab_read_merges(Vocab *v, const Gguf *g, const GgufKv *kv, Budget *budget, Err *err) {
    Extras x = {.budget = budget};
    bool ok = walk(v, g, kv, &x, false, err) && (!x.texts || walk(v, g, kv, &x, true, err));
    if (ok) index_pairs(v);
    free_extras(&x);
    return ok;
}
