/* vocab_special.c: which entries are more than text (tokenizers specification, section 5): the ids of the keys, the
 * end-of-generation set, texts that are control tokens whatever their type says, candidates of the partition. */
#include <string.h>

#include "text/vocab_parts.h"

/* What a text of the list below means. Several may exist in one vocabulary; all of them count. */
enum { ENDS = 1, FIM_ENDS = 2, CONTROL = 4, MARKUP = 8 };

typedef struct Known {
    const char *text;
    int role;
} Known;

enum { RETURN, CALL, END, TOOL_RESPONSE, SLASH_S }; /* the first rows: exceptions ask for them */
static const Known known[] = {
    {"<|return|>", ENDS | CONTROL},
    {"<|call|>", ENDS | CONTROL},
    {"<|end|>", ENDS | CONTROL | MARKUP},
    {"<|tool_response>", ENDS | CONTROL},
    {"</s>", ENDS | CONTROL},
    {"<|eot_id|>", ENDS | CONTROL},
    {"<|im_end|>", ENDS | CONTROL},
    {"<|flush|>", ENDS | CONTROL},
    {"<|calls|>", ENDS | CONTROL},
    {"<end_of_turn>", ENDS | CONTROL},
    {"<|endoftext|>", ENDS | CONTROL},
    {"<|eom_id|>", ENDS | CONTROL},
    {"<EOT>", ENDS | CONTROL},
    {"_<EOT>", ENDS | CONTROL},
    {"[EOT]", ENDS | CONTROL},
    {"[EOS]", ENDS | CONTROL},
    {"<|end_of_text|>", ENDS | CONTROL},
    {"<end_of_utterance>", ENDS | CONTROL},
    {"<eos>", ENDS | CONTROL},
    {"<turn|>", ENDS | CONTROL},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     ENDS | CONTROL},
    {"[e~[", ENDS | CONTROL},
    {"<|channel|>", MARKUP},
    {"<|message|>", MARKUP},
    {"<|start|>", MARKUP},
    {"<|constrain|>", MARKUP},
    {"<|fim_prefix|>", CONTROL},
    {"<|fim_suffix|>", CONTROL},
    {"<|fim_middle|>", CONTROL},
    {"<|code_prefix|>", CONTROL},
    {"<|code_suffix|>", CONTROL},
    {"<|code_middle|>", CONTROL},
    {"<|fim_pad|>", FIM_ENDS | CONTROL},
    {"<fim-pad>", FIM_ENDS},
    {"<fim_pad>", FIM_ENDS},
    {"<|fim_repo|>", FIM_ENDS | CONTROL},
    {"<|repo_name|>", FIM_ENDS | CONTROL},
    {"<fim-repo>", FIM_ENDS},
    {"<reponame>", FIM_ENDS},
    {"<|file_sep|>", FIM_ENDS | CONTROL},
};
enum { N_KNOWN = TH_COUNT(known), EOG_MAX = N_KNOWN + 6, KNOWN_LONGEST = 32 };

/* ---- ids from keys ----------------------------------------------------------------------- */

/* An id at or above n (0xFFFFFFFF is usual) means: none. */
static bool key_id(const Gguf *g, const char *key, int64_t n, int64_t otherwise, int32_t *id, Err *err) {
    int64_t value = otherwise;
    if (!th_gguf_get_int(g, key, INT64_MIN, INT64_MAX, &value, err)) return false;
    *id = value >= 0 && value < n ? (int32_t)value : -1;
    return true;
}

static void sort_ids(int32_t *ids, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && ids[j - 1] > ids[j]; j--) {
            int32_t other = ids[j];
            ids[j] = ids[j - 1];
            ids[j - 1] = other;
        }
}

static void add_id(int32_t *ids, int *n, int32_t id) {
    for (int i = 0; i < *n; i++)
        if (ids[i] == id) return;
    if (id >= 0) ids[(*n)++] = id;
}

static void drop_id(int32_t *ids, int *n, int32_t id) {
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (ids[i] != id) ids[kept++] = ids[i];
    *n = kept;
}

static bool is_gpt_oss(const int32_t *id_of) { return id_of[RETURN] >= 0 && id_of[CALL] >= 0; }

/* The set from the keys and from the ids of the known texts (-1: absent). eos: as the keys and defaults say. */
static bool collect_eog(const Gguf *g, const int32_t id_of[N_KNOWN], int64_t n, int32_t eos, int32_t ids[EOG_MAX],
                        int *n_ids, Err *err) {
    static const char *const keys[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id",
                                       "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
                                       "tokenizer.ggml.fim_sep_token_id"};
    *n_ids = 0;
    add_id(ids, n_ids, eos);
    for (size_t i = 0; i < TH_COUNT(keys); i++) {
        int32_t id;
        if (!key_id(g, keys[i], n, -1, &id, err)) return false;
        add_id(ids, n_ids, id);
    }
    for (int i = 0; i < (int)N_KNOWN; i++)
        if (known[i].role & (ENDS | FIM_ENDS)) add_id(ids, n_ids, id_of[i]);
    if (is_gpt_oss(id_of)) drop_id(ids, n_ids, id_of[END]);
    if (id_of[TOOL_RESPONSE] >= 0) drop_id(ids, n_ids, id_of[SLASH_S]);
    sort_ids(ids, *n_ids);
    return true;
}

static void default_ids(const Gguf *g, int64_t *bos, int64_t *eos, int64_t *unk) {
    Str model = {0};
    (void)th_gguf_get_str(g, "tokenizer.ggml.model", &model, NULL);
    bool spm = th_str_is(model, "llama"), bpe = th_str_is(model, "gpt2");
    *bos = spm ? 1 : bpe ? 11 : -1;
    *eos = spm ? 2 : bpe ? 11 : -1;
    *unk = spm ? 0 : -1;
}

/* ---- partition candidates ---------------------------------------------------------------- */

static bool goes_before(const Vocab *v, int32_t a, int32_t b) {
    Str x = th_vocab_text(v, a), y = th_vocab_text(v, b);
    if (x.len != y.len) return x.len > y.len;
    int order = memcmp(x.data, y.data, x.len);
    return order ? order < 0 : a < b;
}

static void sift_down(const Vocab *v, int32_t *ids, int at, int n) {
    for (int child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && goes_before(v, ids[child], ids[child + 1])) child++;
        if (!goes_before(v, ids[at], ids[child])) return;
        int32_t other = ids[at];
        ids[at] = ids[child];
        ids[child] = other;
    }
}

/* Heap sort: a hostile vocabulary cannot make it slow, and qsort has no room for v. */
static void sort_candidates(const Vocab *v, int32_t *ids, int n) {
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(v, ids, i, n);
    for (int end = n - 1; end > 0; end--) {
        int32_t last = ids[end];
        ids[end] = ids[0];
        ids[0] = last;
        sift_down(v, ids, 0, end);
    }
}

static bool is_candidate(const Vocab *v, int32_t id) {
    int type = v->type[id];
    return (type == TOKEN_CONTROL || type == TOKEN_USER || type == TOKEN_UNKNOWN || type == TOKEN_MARKUP) &&
           v->text_at[id] != v->text_at[id + 1];
}

static bool list_candidates(Vocab *v, Err *err) {
    for (int32_t id = 0; id < v->n; id++) v->n_special += is_candidate(v, id);
    v->special = th_arena_array(&v->arena, (size_t)v->n_special, sizeof *v->special, err);
    if (!v->special) return false;
    int n = 0;
    for (int32_t id = 0; id < v->n; id++)
        if (is_candidate(v, id)) v->special[n++] = id;
    sort_candidates(v, v->special, n);
    return true;
}

/* ---- opening ----------------------------------------------------------------------------- */

static bool read_suppressed(Vocab *v, const Gguf *g, Budget *budget, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, "tokenizer.ggml.suppress_tokens");
    if (!kv) return true;
    if (kv->type != GGUF_ARRAY || kv->count > (uint64_t)v->n)
        return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.suppress_tokens: an array of at most %d ids is needed",
                       v->n);
    if (kv->count == 0) return true;
    Arena passing;
    th_arena_init(&passing, budget, MEM_METADATA);
    int32_t *ids;
    bool ok = th_gguf_read_ints(g, kv, &passing, INT32_MIN, INT32_MAX, &ids, err);
    if (ok) v->suppress = th_arena_array(&v->arena, (size_t)kv->count, sizeof *v->suppress, err);
    ok = ok && v->suppress;
    for (uint64_t i = 0; ok && i < kv->count; i++)
        if (ids[i] >= 0 && ids[i] < v->n) v->suppress[v->n_suppress++] = ids[i];
    th_arena_free(&passing);
    return ok;
}

static void retype(Vocab *v, const int32_t id_of[N_KNOWN]) {
    for (int i = 0; i < (int)N_KNOWN; i++) {
        if (id_of[i] < 0) continue;
        if (known[i].role & CONTROL) v->type[id_of[i]] = TOKEN_CONTROL;
        if (known[i].role & MARKUP && is_gpt_oss(id_of)) v->type[id_of[i]] = TOKEN_MARKUP;
    }
}

bool th_vocab_read_special(Vocab *v, const Gguf *g, Budget *budget, Err *err) {
    int64_t bos, eos, unk;
    default_ids(g, &bos, &eos, &unk);
    if (!key_id(g, "tokenizer.ggml.bos_token_id", v->n, bos, &v->bos, err) ||
        !key_id(g, "tokenizer.ggml.eos_token_id", v->n, eos, &v->eos, err) ||
        !key_id(g, "tokenizer.ggml.unknown_token_id", v->n, unk, &v->unk, err))
        return false;
    int32_t id_of[N_KNOWN];
    for (int i = 0; i < (int)N_KNOWN; i++) id_of[i] = th_vocab_find(v, th_str(known[i].text));
    v->eog = th_arena_array(&v->arena, EOG_MAX, sizeof *v->eog, err);
    if (!v->eog || !collect_eog(g, id_of, v->n, v->eos, v->eog, &v->n_eog, err)) return false;
    retype(v, id_of);
    return read_suppressed(v, g, budget, err) && list_candidates(v, err);
}

bool th_vocab_is_eog(const Vocab *v, int32_t id) {
    int low = 0, high = v->n_eog;
    while (low < high) {
        int middle = (low + high) / 2;
        if (v->eog[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < v->n_eog && v->eog[low] == id;
}

bool th_vocab_is_control(const Vocab *v, int32_t id) {
    if (id < 0 || id >= v->n) return false;
    int type = v->type[id];
    return type == TOKEN_CONTROL || type == TOKEN_UNKNOWN || type == TOKEN_MARKUP;
}

/* ---- the set alone ----------------------------------------------------------------------- */

static bool find_known(const Gguf *g, const GgufKv *tokens, Budget *budget, int32_t id_of[N_KNOWN], Err *err) {
    for (int i = 0; i < (int)N_KNOWN; i++) id_of[i] = -1;
    if (tokens->count == 0) return true;
    GgufStrings walk;
    bool ok = th_gguf_strings_open(&walk, g, tokens, budget, err);
    for (uint64_t id = 0; ok && id < tokens->count; id++) {
        Str text;
        ok = th_gguf_strings_next(&walk, &text, err);
        if (!ok || text.len < 4 || text.len > KNOWN_LONGEST || !strchr("<[_", text.data[0])) continue;
        for (int i = 0; i < (int)N_KNOWN; i++)
            if (th_str_is(text, known[i].text)) id_of[i] = (int32_t)id;
    }
    th_gguf_strings_close(&walk);
    return ok;
}

bool th_vocab_eog(const Gguf *g, Budget *budget, Arena *arena, int32_t **ids, int *n, Err *err) {
    *ids = NULL;
    *n = 0;
    const GgufKv *tokens = th_gguf_kv(g, "tokenizer.ggml.tokens");
    if (!tokens) return true;
    if (tokens->type != GGUF_ARRAY || tokens->count > VOCAB_MAX)
        return th_fail(err, THIMBLE_E_FORMAT, "tokenizer.ggml.tokens: an array of at most %d strings is needed",
                       VOCAB_MAX);
    int64_t bos, eos_default, unk, count = (int64_t)tokens->count;
    int32_t id_of[N_KNOWN], eos;
    default_ids(g, &bos, &eos_default, &unk);
    *ids = th_arena_array(arena, EOG_MAX, sizeof **ids, err);
    return *ids && find_known(g, tokens, budget, id_of, err) &&
           key_id(g, "tokenizer.ggml.eos_token_id", count, eos_default, &eos, err) &&
           collect_eog(g, id_of, count, eos, *ids, n, err);
}
