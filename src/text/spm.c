/* spm.c: SentencePiece-style merging by score (tokenizers specification, section 3).
 *
 * The rule merges over a whole fragment. A merge can only cross a border between two characters that stand side by side
 * in some token, so the fragment is cut where no token holds the pair: same tokens, and the working memory is that of a
 * word instead of that of a prompt. */
#include <string.h>

#include "text/tokenizer_parts.h"

static const char SPACE[] = "\xE2\x96\x81"; /* U+2581 */

size_t th_lead_length(const char *p, size_t n) {
    static const uint8_t by_nibble[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    return th_min_size(by_nibble[(unsigned char)p[0] >> 4], n);
}

static bool is_space(const char *p, size_t n) { return n == 3 && memcmp(p, SPACE, 3) == 0; }
static int first_class(const char *p, size_t n) { return is_space(p, n) ? BORDER_SPACE : (unsigned char)p[0]; }
static int last_class(const char *p, size_t n) { return is_space(p, n) ? BORDER_SPACE : (unsigned char)p[n - 1]; }
static size_t joined_bit(int last, int first) { return (size_t)last * BORDER_CLASSES + (size_t)first; }

bool th_spm_open(Tokenizer *t, Err *err) {
    t->joined = th_mem_alloc(t->budget, MEM_METADATA, TH_JOINED_BYTES, 64, err);
    if (!t->joined) return false;
    for (int32_t id = 0; id < t->v->n; id++) {
        Str text = th_vocab_text(t->v, id);
        int last = -1;
        for (size_t at = 0, length; at < text.len; at += length) {
            const char *p = text.data + at;
            length = th_lead_length(p, text.len - at);
            size_t bit = last < 0 ? 0 : joined_bit(last, first_class(p, length));
            if (last >= 0) t->joined[bit / 32] |= 1u << bit % 32;
            last = last_class(p, length);
        }
    }
    return true;
}

typedef struct SpmArg {
    const Vocab *v;
    const char *text;
} SpmArg;

/* Higher score first, as an unsigned number that is lower for it. Scores hold no NaN. */
static uint32_t descending(float score) {
    uint32_t bits;
    score += 0.0f; /* both zeros are one */
    memcpy(&bits, &score, 4);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static bool score_pair(const void *arg, const Symbols *s, uint32_t left, uint32_t right, uint32_t *priority,
                       uint32_t *result) {
    const SpmArg *a = arg;
    uint32_t begin = s->start[left], end = s->start[s->next[right]];
    int32_t id = th_vocab_find(a->v, (Str){a->text + begin, end - begin});
    if (id < 0) return false;
    *priority = descending(a->v->score[id]);
    *result = (uint32_t)id;
    return true;
}

/* Merges and emits what has been gathered. */
static bool encode_unit(Work *w, Err *err) {
    const char *text = w->text.data;
    size_t n = 0;
    for (size_t at = 0; at < w->unit_len; n++) at += th_lead_length(text + at, w->unit_len - at);
    if (!th_symbols_reserve(w, n, err)) return false;
    Symbols *s = &w->symbols;
    size_t at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->start[i] = (uint32_t)at;
        at += th_lead_length(text + at, w->unit_len - at);
    }
    s->start[s->n] = (uint32_t)w->unit_len;
    SpmArg arg = {w->t->v, text};
    th_symbols_merge(s, score_pair, &arg);
    for (uint32_t i = 0; i != s->n; i = s->next[i]) {
        Str piece = {text + s->start[i], s->start[s->next[i]] - s->start[i]};
        int32_t id = th_vocab_find(w->t->v, piece);
        if (id >= 0 ? !th_token_buf_push(w->out, id, err) : !th_emit_bytes(w, piece.data, piece.len, err)) return false;
    }
    w->unit_len = 0;
    w->unit_last = -1;
    return true;
}

static bool add_char(Work *w, const char *p, size_t n, Err *err) {
    if (w->unit_last >= 0) {
        size_t bit = joined_bit(w->unit_last, first_class(p, n));
        if (!(w->t->joined[bit / 32] >> bit % 32 & 1) && !encode_unit(w, err)) return false;
    }
    if (!th_work_room(w, &w->text, w->unit_len + n, w->unit_len, err)) return false;
    memcpy((char *)w->text.data + w->unit_len, p, n);
    w->unit_len += n;
    w->unit_last = last_class(p, n);
    return true;
}

/* Characters are cut from the text as it is after spaces have become U+2581: a broken lead byte may swallow part of
 * one. */
static bool add_bytes(Work *w, const char *p, size_t n, Err *err) {
    for (size_t i = 0; i < n; i++) {
        w->pending[w->n_pending++] = p[i];
        if (w->n_pending < th_lead_length(w->pending, sizeof w->pending)) continue;
        size_t length = w->n_pending;
        w->n_pending = 0;
        if (!add_char(w, w->pending, length, err)) return false;
    }
    return true;
}

bool th_spm_encode(Work *w, Str fragment, Err *err) {
    w->unit_len = 0;
    w->unit_last = -1;
    w->n_pending = 0;
    if (w->t->v->add_space_prefix && !add_bytes(w, SPACE, 3, err)) return false;
    for (size_t i = 0; i < fragment.len; i++) {
        const char *p = fragment.data + i;
        if (*p == ' ' ? !add_bytes(w, SPACE, 3, err) : !add_bytes(w, p, 1, err)) return false;
    }
    return (w->n_pending == 0 || add_char(w, w->pending, w->n_pending, err)) && encode_unit(w, err);
}
