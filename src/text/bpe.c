/* bpe.c: byte-level BPE (tokenizers specification, section 4) and its relative over raw characters (4.6). Words come
 * from the pre-tokenizer; merges never cross them, so working memory follows the longest word, not the text. */
#include <string.h>

#include "text/tokenizer_parts.h"

static bool merge_pair(const void *arg, const Symbols *s, uint32_t left, uint32_t right, uint32_t *priority,
                       uint32_t *result) {
    return th_vocab_merge(arg, s->id[left], s->id[right], priority, result);
}

static bool emit_symbols(Work *w, const char *text, Err *err) {
    const Symbols *s = &w->symbols;
    for (uint32_t i = 0; i != s->n; i = s->next[i]) {
        uint32_t begin = s->start[i], end = s->start[s->next[i]];
        if (s->id[i] < (uint32_t)w->t->v->n ? !th_token_buf_push(w->out, (int32_t)s->id[i], err)
                                            : !th_emit_bytes(w, text + begin, end - begin, err))
            return false;
    }
    return true;
}

/* The word as the vocabulary spells it, if it is a token. */
static bool find_whole(Work *w, Str word, int32_t *id, Err *err) {
    *id = -1;
    if (word.len > w->t->longest_text) return true;
    if (!th_work_room(w, &w->text, 2 * word.len, 0, err)) return false;
    char *p = w->text.data;
    size_t n = 0;
    for (size_t i = 0; i < word.len; i++) n += th_byte_char((unsigned char)word.data[i], p + n);
    *id = th_vocab_find(w->t->v, (Str){p, n});
    return true;
}

static bool encode_word(void *arg, Str word) {
    Work *w = arg;
    const Vocab *v = w->t->v;
    if (v->ignore_merges) {
        int32_t whole;
        if (!find_whole(w, word, &whole, w->err)) return false;
        if (whole >= 0) return th_token_buf_push(w->out, whole, w->err);
    }
    if (!th_symbols_reserve(w, word.len, w->err)) return false;
    Symbols *s = &w->symbols;
    for (uint32_t i = 0; i < s->n; i++) {
        unsigned char byte = (unsigned char)word.data[i];
        s->start[i] = i;
        s->id[i] = v->byte_id[byte] >= 0 ? (uint32_t)v->byte_id[byte] : (uint32_t)v->n + byte;
    }
    s->start[s->n] = s->n;
    th_symbols_merge(s, merge_pair, v);
    return emit_symbols(w, word.data, w->err);
}

/* Length of the longest valid beginning. */
static size_t valid_prefix(Str text) {
    size_t at = 0;
    while (at < text.len) {
        if ((unsigned char)text.data[at] < 0x80) {
            at++;
            continue;
        }
        uint32_t c;
        size_t n = th_utf8_decode(text.data + at, text.len - at, &c);
        if (n == 0) break;
        at += n;
    }
    return at;
}

/* A copy with each invalid byte replaced by U+FFFD (section 4, step 1). */
static bool repair(Work *w, Str *text, Err *err) {
    if (!th_work_room(w, &w->repaired, 3 * text->len, 0, err)) return false;
    char *out = w->repaired.data;
    size_t n = 0;
    for (Str rest = *text; rest.len;) {
        size_t valid = valid_prefix(rest);
        memcpy(out + n, rest.data, valid);
        n += valid;
        rest.data += valid;
        rest.len -= valid;
        if (rest.len == 0) break;
        memcpy(out + n, "\xEF\xBF\xBD", 3);
        n += 3;
        rest.data++;
        rest.len--;
    }
    *text = (Str){out, n};
    return true;
}

bool th_bpe_encode(Work *w, Str fragment, Err *err) {
    if (valid_prefix(fragment) < fragment.len && !repair(w, &fragment, err)) return false;
    w->err = err;
    return th_pretok_split(w->t->pretok, fragment, encode_word, w, err);
}

/* ---- raw characters ---------------------------------------------------------------------- */

static bool encode_line(Work *w, Str line, Err *err) {
    const Vocab *v = w->t->v;
    int32_t whole = line.data[0] == '\n' ? th_vocab_find(v, line) : -1;
    if (whole >= 0) return th_token_buf_push(w->out, whole, err);
    size_t n = 0;
    for (size_t at = 0; at < line.len; n++) at += th_lead_length(line.data + at, line.len - at);
    if (!th_symbols_reserve(w, n, err)) return false;
    Symbols *s = &w->symbols;
    size_t at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        size_t length = th_lead_length(line.data + at, line.len - at);
        s->start[i] = (uint32_t)at;
        s->id[i] =
            (uint32_t)th_vocab_find(v, (Str){line.data + at, length}); /* -1 is above every symbol: no merge has it */
        at += length;
    }
    s->start[s->n] = (uint32_t)line.len;
    th_symbols_merge(s, merge_pair, v);
    return emit_symbols(w, line.data, err);
}

bool th_raw_bpe_encode(Work *w, Str fragment, Err *err) {
    if (!th_work_room(w, &w->text, 3 * fragment.len, 0, err)) return false;
    char *text = w->text.data;
    size_t n = 0;
    for (size_t i = 0; i < fragment.len; i++) {
        if (fragment.data[i] != ' ') {
            text[n++] = fragment.data[i];
            continue;
        }
        memcpy(text + n, "\xE2\x96\x81", 3);
        n += 3;
    }
    for (size_t begin = 0, end; begin < n; begin = end) {
        end = begin + 1;
        while (end < n && (text[end] == '\n') == (text[begin] == '\n')) end++;
        if (!encode_line(w, (Str){text + begin, end - begin}, err)) return false;
    }
    return true;
}
