/* partition.c: splits a text at its special tokens (tokenizers specification, section 2).
 *
 * The rule goes candidate by candidate: the longest text takes its matches everywhere before a shorter one is tried.
 * Here it goes length by length: one pass finds what any candidate of that length matches, a match is taken where
 * nothing lies yet. A taken range is never shorter than the one being placed, so looking at both ends is enough. Time
 * is text length times number of different lengths (a few dozen in vocabularies with thousands of candidates). */
#include <string.h>

#include "text/tokenizer_parts.h"

typedef struct Partition {
    Work *w;
    Str text;
    bool parse_special;
    WorkBuf taken;  /* bitmap over the text, made with the first match */
    WorkBuf found;  /* matches of the present length: id << 32 | position */
    WorkBuf placed; /* position << 32 | id */
    size_t n_found, n_placed;
    bool mixed; /* matches of different candidates overlap in found */
} Partition;

/* ---- opening ----------------------------------------------------------------------------- */

static bool starts_with(const SpecialClass *c, bool all, unsigned char byte) {
    return c->starts[all][byte / 32] >> byte % 32 & 1;
}

static size_t text_length(const Vocab *v, int candidate) { return th_vocab_text(v, v->special[candidate]).len; }

bool th_partition_open(Tokenizer *t, Err *err) {
    const Vocab *v = t->v;
    for (int i = 0; i < v->n_special; i++) t->n_classes += i == 0 || text_length(v, i) != text_length(v, i - 1);
    t->classes_bytes = (size_t)t->n_classes * sizeof *t->classes;
    t->classes = th_mem_alloc(t->budget, MEM_METADATA, t->classes_bytes, 64, err);
    if (!t->classes) return false;
    SpecialClass *c = t->classes - 1;
    for (int i = 0; i < v->n_special; i++) {
        Str text = th_vocab_text(v, v->special[i]);
        if (i == 0 || text.len != c->length) *++c = (SpecialClass){.length = (uint32_t)text.len, .first = i};
        c->count++;
        unsigned char byte = (unsigned char)text.data[0];
        c->starts[1][byte / 32] |= 1u << byte % 32;
        if (v->type[v->special[i]] == TOKEN_USER) c->starts[0][byte / 32] |= 1u << byte % 32;
    }
    return true;
}

/* ---- matching ---------------------------------------------------------------------------- */

/* The candidate of class c whose text lies at p, or -1: the lowest id among equal texts. */
static int32_t candidate_at(const Partition *a, const SpecialClass *c, const char *p) {
    const Vocab *v = a->w->t->v;
    int low = c->first, high = c->first + c->count, end = high;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (memcmp(th_vocab_text(v, v->special[middle]).data, p, c->length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < end && memcmp(th_vocab_text(v, v->special[low]).data, p, c->length) == 0; low++)
        if (a->parse_special || v->type[v->special[low]] == TOKEN_USER) return v->special[low];
    return -1;
}

static bool is_taken(const Partition *a, size_t at) {
    return a->taken.data && (((const uint8_t *)a->taken.data)[at / 8] >> at % 8 & 1);
}

static bool append(Partition *a, WorkBuf *b, size_t *n, uint64_t value, Err *err) {
    if (!th_work_room(a->w, b, (*n + 1) * sizeof value, *n * sizeof value, err)) return false;
    ((uint64_t *)b->data)[(*n)++] = value;
    return true;
}

static bool take(Partition *a, uint32_t at, uint32_t length, int32_t id, Err *err) {
    if (is_taken(a, at) || is_taken(a, at + length - 1)) return true;
    if (!a->taken.data) {
        if (!th_work_room(a->w, &a->taken, a->text.len / 8 + 1, 0, err)) return false;
        memset(a->taken.data, 0, a->taken.bytes);
    }
    uint8_t *bits = a->taken.data;
    for (uint32_t i = at; i < at + length; i++) bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << i % 8);
    return append(a, &a->placed, &a->n_placed, (uint64_t)at << 32 | (uint32_t)id, err);
}

static void sift_down(uint64_t *keys, size_t at, size_t n) {
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && keys[child + 1] > keys[child]) child++;
        if (keys[at] >= keys[child]) return;
        uint64_t other = keys[at];
        keys[at] = keys[child];
        keys[child] = other;
    }
}

static void sort_keys(uint64_t *keys, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift_down(keys, i, n);
    for (size_t end = n; end-- > 1;) {
        uint64_t last = keys[end];
        keys[end] = keys[0];
        keys[0] = last;
        sift_down(keys, 0, end);
    }
}

static bool find_all(Partition *a, const SpecialClass *c, Err *err) {
    a->n_found = 0;
    a->mixed = false;
    if (a->text.len < c->length) return true;
    uint32_t last_at = 0;
    int32_t last_id = -1;
    for (size_t at = 0; at + c->length <= a->text.len; at++) {
        const char *p = a->text.data + at;
        if (!starts_with(c, a->parse_special, (unsigned char)*p)) continue;
        int32_t id = is_taken(a, at) || is_taken(a, at + c->length - 1) ? -1 : candidate_at(a, c, p);
        if (id < 0) continue;
        if (last_id >= 0 && id != last_id && at < last_at + c->length) a->mixed = true;
        last_at = (uint32_t)at;
        last_id = id;
        if (!append(a, &a->found, &a->n_found, (uint64_t)id << 32 | (uint32_t)at, err)) return false;
    }
    return true;
}

static bool match_class(Partition *a, const SpecialClass *c, const uint32_t present[8], Err *err) {
    uint32_t any = 0;
    for (int i = 0; i < 8; i++) any |= c->starts[a->parse_special][i] & present[i];
    if (!any) return true;
    if (!find_all(a, c, err)) return false;
    uint64_t *found = a->found.data;
    /* Candidates that overlap each other go in the order of their ids; otherwise from the left is the same. */
    if (a->mixed) sort_keys(found, a->n_found);
    for (size_t i = 0; i < a->n_found; i++)
        if (!take(a, (uint32_t)found[i], c->length, (int32_t)(found[i] >> 32), err)) return false;
    return true;
}

/* ---- fragments --------------------------------------------------------------------------- */

/* phi-3: white space behind special tokens disappears, except behind these. */
static bool strips(const Vocab *v, int32_t id) {
    Str text = th_vocab_text(v, id);
    return v->strips_after_special && !th_str_is(text, "<unk>") && !th_str_is(text, "<s>") &&
           !th_str_is(text, "<|endoftext|>");
}

static bool emit_fragments(Partition *a, Err *err) {
    const Vocab *v = a->w->t->v;
    const uint64_t *placed = a->placed.data;
    size_t begin = 0;
    for (size_t i = 0; i < a->n_placed; i++) {
        size_t at = (size_t)(placed[i] >> 32);
        int32_t id = (int32_t)(uint32_t)placed[i];
        if (at > begin && !th_fragment_encode(a->w, (Str){a->text.data + begin, at - begin}, err)) return false;
        if (!th_token_buf_push(a->w->out, id, err)) return false;
        begin = at + th_vocab_text(v, id).len;
        size_t end = i + 1 < a->n_placed ? (size_t)(placed[i + 1] >> 32) : a->text.len;
        while (strips(v, id) && begin < end && memchr(" \t\n\v\f\r", a->text.data[begin], 6)) begin++;
    }
    return begin == a->text.len || th_fragment_encode(a->w, (Str){a->text.data + begin, a->text.len - begin}, err);
}

bool th_partition(Work *w, Str text, bool parse_special, Err *err) {
    Partition a = {.w = w, .text = text, .parse_special = parse_special};
    uint32_t present[8] = {0};
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        present[byte / 32] |= 1u << byte % 32;
    }
    bool ok = true;
    for (int i = 0; ok && i < w->t->n_classes; i++) ok = match_class(&a, &w->t->classes[i], present, err);
    if (a.n_placed) sort_keys(a.placed.data, a.n_placed);
    th_work_drop(&a.taken);
    th_work_drop(&a.found);
    ok = ok && emit_fragments(&a, err);
    th_work_drop(&a.placed);
    return ok;
}
