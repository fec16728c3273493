/* vocab.c: see vocab.h. Sizes are measured from the header first, so that everything fits one block and th_vocab_bytes
 * says the truth; the texts are then walked once in the file. What the file holds is hostile: every count is compared
 * with the number of entries before it is used. */
#include "text/vocab.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/vocab_parts.h"

/* Where the parts of the block lie; all offsets multiples of 16. */
typedef struct Layout {
    int kind;
    const GgufKv *tokens, *merges, *types, *scores;
    uint64_t n, n_merges, n_id_slots, n_merge_slots;
    uint64_t text_at, type, score, id_slots, merge_left, merge_right, merge_result, merge_slots, text, total;
} Layout;

static const char *const unsupported[] = {"bert", "t5", "rwkv", "plamo2"};

/* ---- layout ------------------------------------------------------------------------------ */

static bool model_kind(const Gguf *g, int *kind, bool *raw_utf8, Err *err) {
    Str model = {0}, pre = {0};
    if (!th_gguf_get_str(g, "tokenizer.ggml.model", &model, err) ||
        !th_gguf_get_str(g, "tokenizer.ggml.pre", &pre, err))
        return false;
    *kind = VOCAB_NONE;
    *raw_utf8 = false;
    if (model.len == 0 || th_str_is(model, "none") || th_str_is(model, "no_vocab")) return true;
    if (th_str_is(model, "gemma4") || (th_str_is(model, "gpt2") && th_str_is(pre, "sarvam-moe"))) *raw_utf8 = true;
    if (th_str_is(model, "llama")) *kind = VOCAB_SPM;
    if (th_str_is(model, "gpt2") || *raw_utf8) *kind = VOCAB_BPE;
    if (*kind != VOCAB_NONE) return true;
    for (size_t i = 0; i < TH_COUNT(unsupported); i++)
        if (th_str_is(model, unsupported[i]))
            return th_fail(err, THIMBLE_E_UNSUPPORTED, "unsupported tokenizer: %s (known: llama, gpt2, gemma4)",
                           unsupported[i]);
    char name[64];
    th_str_escape(model, name, sizeof name);
    return th_fail(err, THIMBLE_E_UNSUPPORTED, "unknown tokenizer.ggml.model \"%s\" (known: llama, gpt2, gemma4)",
                   name);
}

static bool array_of(const GgufKv *kv, const char *name, uint64_t max, Err *err) {
    if (kv->type != GGUF_ARRAY) return th_fail(err, THIMBLE_E_FORMAT, "%s: an array is needed", name);
    if (kv->count > max)
        return th_fail(err, THIMBLE_E_FORMAT, "%s: %llu entries, at most %llu are possible", name,
                       (unsigned long long)kv->count, (unsigned long long)max);
    return true;
}

static bool strings_of(const GgufKv *kv, const char *name, uint64_t max, Err *err) {
    if (!array_of(kv, name, max, err)) return false;
    if (kv->count && kv->element != GGUF_STRING)
        return th_fail(err, THIMBLE_E_FORMAT, "%s: an array of strings is needed", name);
    /* A gigabyte of texts would wrap the 32-bit offsets; the largest known vocabulary holds 3 MB. */
    if (kv->count && (kv->payload < 8 * kv->count || kv->payload - 8 * kv->count > 1024 * TH_MIB))
        return th_fail(err, THIMBLE_E_FORMAT, "%s: %llu bytes of text are not plausible", name,
                       (unsigned long long)kv->payload);
    return true;
}

static uint64_t place(Layout *l, uint64_t bytes) {
    uint64_t at = l->total;
    l->total += th_align_up(bytes, 16);
    return at;
}

/* Rows and slots of a table that is at most two thirds full. */
static uint64_t slots_for(uint64_t n) { return n + n / 2 + 1; }

static bool measure(const Gguf *g, Layout *l, Err *err) {
    *l = (Layout){0};
    bool raw;
    if (!model_kind(g, &l->kind, &raw, err)) return false;
    if (l->kind == VOCAB_NONE) return true;
    l->tokens = th_gguf_kv(g, "tokenizer.ggml.tokens");
    l->types = th_gguf_kv(g, "tokenizer.ggml.token_type");
    if (!l->tokens) return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.tokens is missing");
    if (!strings_of(l->tokens, "tokenizer.ggml.tokens", VOCAB_MAX, err)) return false;
    l->n = l->tokens->count;
    if (l->n == 0) return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.tokens is empty");
    if (l->types && !array_of(l->types, "tokenizer.ggml.token_type", l->n, err)) return false;
    if (l->types && l->types->count != l->n)
        return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.token_type has %llu entries for %llu tokens",
                       (unsigned long long)l->types->count, (unsigned long long)l->n);
    l->n_id_slots = slots_for(l->n);
    l->text_at = place(l, 4 * (l->n + 1));
    l->id_slots = place(l, 4 * l->n_id_slots);
    l->type = place(l, l->n);
    if (l->kind == VOCAB_SPM) {
        l->scores = th_gguf_kv(g, "tokenizer.ggml.scores");
        if (l->scores && !array_of(l->scores, "tokenizer.ggml.scores", l->n, err)) return false;
        if (l->scores && l->scores->count != l->n)
            return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.scores has %llu entries for %llu tokens",
                           (unsigned long long)l->scores->count, (unsigned long long)l->n);
        l->score = place(l, 4 * l->n);
    } else {
        l->merges = th_gguf_kv(g, "tokenizer.ggml.merges");
        if (l->merges && !strings_of(l->merges, "tokenizer.ggml.merges", MERGES_MAX, err)) return false;
        l->n_merges = l->merges ? l->merges->count : 0;
        l->n_merge_slots = slots_for(l->n_merges);
        l->merge_left = place(l, 4 * l->n_merges);
        l->merge_right = place(l, 4 * l->n_merges);
        l->merge_result = place(l, 4 * l->n_merges);
        l->merge_slots = place(l, 4 * l->n_merge_slots);
    }
    l->text = place(l, l->tokens->payload - 8 * l->n);
    return true;
}

uint64_t th_vocab_bytes(const Gguf *g) {
    Layout l;
    if (!measure(g, &l, NULL) || l.kind == VOCAB_NONE) return 0;
    /* While opening: one 32-bit copy of types or scores, or the texts of merges that are no tokens. */
    uint64_t passing = 4 * l.n + 2 * GGUF_STRINGS_BYTES;
    if (l.merges && l.merges->payload + 2 * GGUF_STRINGS_BYTES > passing)
        passing = l.merges->payload + 2 * GGUF_STRINGS_BYTES;
    const GgufKv *suppress = th_gguf_kv(g, "tokenizer.ggml.suppress_tokens");
    uint64_t listed = suppress && suppress->type == GGUF_ARRAY ? 8 * th_min_size(suppress->count, l.n) : 0;
    /* What passes while opening has gone when the tokenizer comes. Every token may be a partition candidate. */
    uint64_t tokenizer = th_tokenizer_bytes(l.n, l.tokens->payload - 8 * l.n);
    return l.total + listed + 4 * l.n + 32 * TH_KIB + (passing > tokenizer ? passing : tokenizer);
}

/* ---- texts ------------------------------------------------------------------------------- */

Str th_vocab_text(const Vocab *v, int32_t id) {
    if (id < 0 || id >= v->n) return (Str){"", 0};
    return (Str){v->text_block + v->text_at[id], v->text_at[id + 1] - v->text_at[id]};
}

static uint32_t first_slot(const Vocab *v, uint64_t hash) {
    return (uint32_t)((hash & UINT32_MAX) * v->n_id_slots >> 32);
}

/* The slot that holds text, or the empty one where it belongs. */
static uint32_t *slot_of(const Vocab *v, Str text, uint64_t hash) {
    uint32_t tag = (uint32_t)(hash >> 56) << 24;
    for (uint32_t i = first_slot(v, hash);; i = i + 1 == v->n_id_slots ? 0 : i + 1) {
        uint32_t slot = v->id_slots[i];
        if (slot == 0) return &v->id_slots[i];
        if ((slot & 0xFF000000u) == tag && th_str_eq(th_vocab_text(v, (int32_t)(slot & 0xFFFFFF) - 1), text))
            return &v->id_slots[i];
    }
}

/* Hashes run a few entries ahead of the slots they lead to, because each slot is a miss of the cache. */
static void index_texts(Vocab *v) {
    enum { AHEAD = 16 };
    uint64_t hashes[AHEAD] = {0};
    for (int64_t id = -AHEAD; id < v->n; id++) {
        uint64_t hash = id >= 0 ? hashes[id % AHEAD] : 0;
        if (id + AHEAD < v->n) {
            uint64_t later = th_str_hash(th_vocab_text(v, (int32_t)(id + AHEAD)));
            hashes[(id + AHEAD) % AHEAD] = later;
            __builtin_prefetch(&v->id_slots[first_slot(v, later)], 1);
        }
        Str text = th_vocab_text(v, (int32_t)id);
        if (text.len) *slot_of(v, text, hash) = (uint32_t)(hash >> 56) << 24 | (uint32_t)(id + 1);
    }
}

/* An empty entry n answers to "[EMPTY_n]" (section 1); those texts are not stored. */
static int32_t find_empty(const Vocab *v, Str text) {
    if (text.len < 9 || text.len > 20 || !th_str_starts(text, TH_STR("[EMPTY_"))) return -1;
    int64_t id = 0;
    for (size_t i = 7; i + 1 < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return -1;
        id = id * 10 + (text.data[i] - '0');
    }
    char name[24];
    if (id >= v->n || th_vocab_text(v, (int32_t)id).len) return -1;
    int len = snprintf(name, sizeof name, "[EMPTY_%d]", (int)id);
    return th_str_eq(text, (Str){name, (size_t)len}) ? (int32_t)id : -1;
}

int32_t th_vocab_find(const Vocab *v, Str text) {
    if (v->n == 0 || text.len == 0) return -1;
    uint32_t slot = *slot_of(v, text, th_str_hash(text));
    if (slot) return (int32_t)(slot & 0xFFFFFF) - 1;
    return text.data[0] == '[' ? find_empty(v, text) : -1;
}

static bool read_texts(Vocab *v, const Gguf *g, const Layout *l, Budget *budget, Err *err) {
    GgufStrings walk;
    bool ok = th_gguf_strings_open(&walk, g, l->tokens, budget, err);
    uint64_t room = l->tokens->payload - 8 * l->n;
    uint32_t used = 0;
    for (int id = 0; ok && id < v->n; id++) {
        Str text;
        ok = th_gguf_strings_next(&walk, &text, err);
        if (!ok) break;
        if (text.len > room - used) {
            ok = th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.tokens: the texts are longer than the header said");
            break;
        }
        if (text.len) memcpy(v->text_block + used, text.data, text.len);
        v->text_at[id] = used;
        used += (uint32_t)text.len;
        v->text_at[id + 1] = used;
    }
    th_gguf_strings_close(&walk);
    if (ok) index_texts(v);
    return ok;
}

/* ---- columns ----------------------------------------------------------------------------- */

static bool read_types(Vocab *v, const Gguf *g, const Layout *l, Budget *budget, Err *err) {
    memset(v->type, TOKEN_NORMAL, (size_t)v->n);
    if (!l->types) return true;
    Arena passing;
    th_arena_init(&passing, budget, MEM_METADATA);
    int32_t *types;
    bool ok = th_gguf_read_ints(g, l->types, &passing, INT32_MIN, INT32_MAX, &types, err);
    /* Numbers we do not know decode to nothing, like undefined ones. */
    for (int id = 0; ok && id < v->n; id++)
        v->type[id] = types[id] >= 0 && types[id] <= TOKEN_BYTE ? (uint8_t)types[id] : TOKEN_UNDEFINED;
    th_arena_free(&passing);
    return ok;
}

static bool read_scores(Vocab *v, const Gguf *g, const Layout *l, Budget *budget, const ThimbleLog *log, Err *err) {
    if (!l->scores) {
        th_log(log, THIMBLE_LOG_WARN, "tokenizer.ggml.scores is missing: all pieces count alike");
        return true;
    }
    Arena passing;
    th_arena_init(&passing, budget, MEM_METADATA);
    float *scores;
    bool ok = th_gguf_read_reals(g, l->scores, &passing, &scores, err);
    for (int id = 0; ok && id < v->n; id++) v->score[id] = isnan(scores[id]) ? -INFINITY : scores[id];
    th_arena_free(&passing);
    return ok;
}

static void find_bytes(Vocab *v) {
    for (int b = 0; b < 256; b++) {
        char text[8];
        if (v->kind == VOCAB_BPE && !v->raw_utf8) {
            v->byte_id[b] = th_vocab_find(v, (Str){text, th_byte_char((unsigned char)b, text)});
            continue;
        }
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        v->byte_id[b] = th_vocab_find(v, (Str){text, 6});
        text[0] = (char)b;
        if (v->byte_id[b] < 0) v->byte_id[b] = th_vocab_find(v, (Str){text, 1});
    }
}

/* ---- opening ----------------------------------------------------------------------------- */

static bool carve(Vocab *v, const Layout *l, Err *err) {
    char *block = th_arena_alloc(&v->arena, (size_t)l->total, err);
    if (!block) return false;
    v->n = (int)l->n;
    v->n_id_slots = (uint32_t)l->n_id_slots;
    v->n_merges = (uint32_t)l->n_merges;
    v->n_merge_slots = (uint32_t)l->n_merge_slots;
    v->text_at = (uint32_t *)(void *)(block + l->text_at);
    v->id_slots = (uint32_t *)(void *)(block + l->id_slots);
    v->type = (uint8_t *)(block + l->type);
    v->text_block = block + l->text;
    if (v->kind == VOCAB_SPM) v->score = (float *)(void *)(block + l->score);
    if (v->kind != VOCAB_BPE) return true;
    v->merge_left = (uint32_t *)(void *)(block + l->merge_left);
    v->merge_right = (uint32_t *)(void *)(block + l->merge_right);
    v->merge_result = (uint32_t *)(void *)(block + l->merge_result);
    v->merge_slots = (uint32_t *)(void *)(block + l->merge_slots);
    return true;
}

/* The name of the model family, for the one family that strips white space. */
static bool is_phi3(const Gguf *g) {
    Str name = {0};
    if (!th_gguf_get_str(g, "general.name", &name, NULL)) return false;
    for (size_t i = 0; i + 4 <= name.len; i++) {
        const char *p = name.data + i;
        if ((p[0] | 32) != 'p' || (p[1] | 32) != 'h' || (p[2] | 32) != 'i') continue;
        if (p[3] == '3' || (p[3] == '-' && i + 5 <= name.len && p[4] == '3')) return true;
    }
    return false;
}

static bool read_rules(Vocab *v, const Gguf *g, const ThimbleLog *log, Err *err) {
    Str pre = {0};
    bool add_bos = v->kind == VOCAB_SPM || v->raw_utf8;
    if (!th_gguf_get_str(g, "tokenizer.ggml.pre", &pre, err)) return false;
    if (pre.len == 0 && v->kind == VOCAB_BPE && !v->raw_utf8)
        th_log(log, THIMBLE_LOG_WARN,
               "tokenizer.ggml.pre is missing: text is split by the default rules, which may be wrong");
    v->pre.len = pre.len ? pre.len : 7;
    v->pre.data = th_arena_dup(&v->arena, pre.len ? pre.data : "default", v->pre.len, err);
    if (!v->pre.data) return false;
    if (v->kind == VOCAB_BPE && !v->raw_utf8 && !th_pretok_traits(v->pre, &v->ignore_merges, &add_bos)) {
        char name[64];
        th_str_escape(v->pre, name, sizeof name);
        return th_fail(err, THIMBLE_E_UNSUPPORTED,
                       "unknown tokenizer.ggml.pre \"%s\": its rules for splitting text are not known", name);
    }
    v->add_space_prefix = v->kind == VOCAB_SPM;
    v->add_bos = add_bos;
    v->strips_after_special = is_phi3(g);
    if (!th_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &v->add_bos, err) ||
        !th_gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &v->add_eos, err) ||
        !th_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &v->add_space_prefix, err))
        return false;
    Str model = {0};
    if (th_gguf_get_str(g, "tokenizer.ggml.model", &model, err) && th_str_is(model, "gemma4"))
        v->add_bos = true; /* forced */
    return true;
}

bool th_vocab_open(Vocab *v, const Gguf *g, Budget *budget, const ThimbleLog *log, Err *err) {
    *v = (Vocab){.bos = -1, .eos = -1, .unk = -1};
    th_arena_init(&v->arena, budget, MEM_METADATA);
    v->arena.block_bytes = 512; /* what comes behind the one large block is small or of exact size */
    for (int b = 0; b < 256; b++) v->byte_id[b] = -1;
    Layout l;
    if (!measure(g, &l, err) || !model_kind(g, &v->kind, &v->raw_utf8, err)) goto fail;
    if (v->kind == VOCAB_NONE) return true;
    if (!carve(v, &l, err) || !read_texts(v, g, &l, budget, err) || !read_types(v, g, &l, budget, err)) goto fail;
    if (v->kind == VOCAB_SPM && !read_scores(v, g, &l, budget, log, err)) goto fail;
    find_bytes(v);
    if (!read_rules(v, g, log, err) || !th_vocab_read_special(v, g, budget, err)) goto fail;
    if (v->kind == VOCAB_BPE && l.n_merges == 0)
        th_log(log, THIMBLE_LOG_WARN, "tokenizer.ggml.merges is missing or empty: text becomes single bytes");
    if (l.n_merges && !th_vocab_read_merges(v, g, l.merges, budget, err)) goto fail;
    return true;
fail:
    th_vocab_close(v);
    return false;
}

void th_vocab_close(Vocab *v) {
    if (v->arena.budget) th_arena_free(&v->arena);
    *v = (Vocab){.bos = -1, .eos = -1, .unk = -1};
}
