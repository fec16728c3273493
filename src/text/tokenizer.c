/* tokenizer.c: see tokenizer.h: opening, and one encode from text to ids. An encode keeps nothing behind: the tokenizer
 * is read-only once it is open. */
#include "text/tokenizer.h"

#include <string.h>

#include "text/tokenizer_parts.h"

/* Working bytes entered when opening: words and units of about 4,000 characters fit. */
enum { WORK_BYTES = 256 * 1024 };
/* What the pattern library takes for the largest rule (deepseek-llm), compiled and translated; measured by the tests.
 */
enum { PRETOK_BYTES = 192 * 1024 };

/* ---- ids --------------------------------------------------------------------------------- */

bool th_token_buf_push(TokenBuf *b, int32_t id, Err *err) {
    if (b->n < b->cap) {
        b->ids[b->n++] = id;
        return true;
    }
    if (b->fixed) return b->n++, true;
    Buf bytes = {(char *)b->ids, b->n * sizeof id, b->cap * sizeof id};
    bool ok = th_buf_append(&bytes, &id, sizeof id, err);
    b->ids = (int32_t *)(void *)bytes.data;
    b->n = bytes.len / sizeof id;
    b->cap = bytes.cap / sizeof id;
    return ok;
}

void th_token_buf_free(TokenBuf *b) {
    Buf bytes = {.data = b->fixed ? NULL : (char *)b->ids};
    th_buf_free(&bytes);
    *b = (TokenBuf){0};
}

bool th_emit_bytes(Work *w, const char *p, size_t n, Err *err) {
    for (size_t i = 0; i < n; i++) {
        int32_t id = w->t->v->byte_id[(unsigned char)p[i]];
        if (id >= 0 && !th_token_buf_push(w->out, id, err)) return false;
    }
    return true;
}

/* ---- working memory ---------------------------------------------------------------------- */

bool th_work_room(Work *w, WorkBuf *b, size_t bytes, size_t keep, Err *err) {
    if (bytes <= b->bytes && b->data) return true;
    size_t wanted = th_max_size(th_max_size(bytes, b->bytes + b->bytes / 2), 1024);
    WorkBuf wider = {.bytes = wanted, .owner = &w->own};
    wider.data = th_mem_alloc(&w->own, MEM_METADATA, wanted, 64, NULL);
    if (!wider.data) {
        wider.owner = w->t->budget;
        wider.data = th_mem_alloc(wider.owner, MEM_METADATA, wanted, 64, err);
        if (!wider.data) return th_err_prefix(err, "splitting a long text into tokens: ");
    }
    if (keep && b->data) memcpy(wider.data, b->data, keep);
    th_work_drop(b);
    *b = wider;
    return true;
}

void th_work_drop(WorkBuf *b) {
    if (b->data) th_mem_free(b->owner, MEM_METADATA, b->data, b->bytes);
    *b = (WorkBuf){0};
}

/* ---- opening ----------------------------------------------------------------------------- */

uint64_t th_tokenizer_bytes(uint64_t n, uint64_t text_bytes) {
    /* Lengths that differ add up to at most all the text. */
    uint64_t classes = 0;
    while (classes < n && (classes + 1) * (classes + 2) / 2 <= text_bytes) classes++;
    return sizeof(Tokenizer) + classes * sizeof(SpecialClass) + TH_JOINED_BYTES + WORK_BYTES + PRETOK_BYTES;
}

bool th_tokenizer_open(Tokenizer **out, const Vocab *v, Budget *budget, Err *err) {
    *out = NULL;
    if (v->kind == VOCAB_NONE)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "the file has no tokenizer: give token ids instead");
    Tokenizer *t = th_mem_alloc(budget, MEM_METADATA, sizeof *t, 64, err);
    if (!t) return false;
    t->v = v;
    t->budget = budget;
    if (!th_budget_take(budget, MEM_METADATA, WORK_BYTES, err)) {
        th_mem_free(budget, MEM_METADATA, t, sizeof *t);
        return false;
    }
    for (int32_t id = 0; id < v->n; id++) t->longest_text = th_max_size(t->longest_text, th_vocab_text(v, id).len);
    bool ok = th_partition_open(t, err);
    if (ok && v->kind == VOCAB_SPM) ok = th_spm_open(t, err);
    if (ok && v->kind == VOCAB_BPE && !v->raw_utf8) ok = th_pretok_open(&t->pretok, v->pre, budget, err);
    if (!ok) {
        th_tokenizer_close(t);
        return false;
    }
    *out = t;
    return true;
}

void th_tokenizer_close(Tokenizer *t) {
    if (!t) return;
    Budget *budget = t->budget;
    th_pretok_close(t->pretok);
    th_mem_free(budget, MEM_METADATA, t->joined, TH_JOINED_BYTES);
    th_mem_free(budget, MEM_METADATA, t->classes, t->classes_bytes);
    th_budget_give(budget, MEM_METADATA, WORK_BYTES);
    th_mem_free(budget, MEM_METADATA, t, sizeof *t);
}

/* ---- encoding ---------------------------------------------------------------------------- */

bool th_fragment_encode(Work *w, Str fragment, Err *err) {
    if (w->t->v->kind == VOCAB_SPM) return th_spm_encode(w, fragment, err);
    return w->t->v->raw_utf8 ? th_raw_bpe_encode(w, fragment, err) : th_bpe_encode(w, fragment, err);
}

bool th_tokenizer_encode(const Tokenizer *t, Str text, bool add_special, bool parse_special, TokenBuf *out, Err *err) {
    const Vocab *v = t->v;
    size_t before = out->n;
    if (text.len > 256 * TH_MIB)
        return th_fail(err, THIMBLE_E_ARG, "a text of %zu bytes: at most 256 MiB at once", text.len);
    Work w = {.t = t, .out = out};
    th_budget_init(&w.own, WORK_BYTES);
    bool ok = !(add_special && v->add_bos && v->bos >= 0) || th_token_buf_push(out, v->bos, err);
    ok = ok && (text.len == 0 || th_partition(&w, text, parse_special, err));
    ok = ok && (!(add_special && v->add_eos && v->eos >= 0) || th_token_buf_push(out, v->eos, err));
    th_work_drop(&w.symbols.memory);
    th_work_drop(&w.text);
    th_work_drop(&w.repaired);
    th_budget_free(&w.own);
    if (!ok) out->n = before;
    return ok;
}
