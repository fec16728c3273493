/* tiny_vocab.c: see tiny_vocab.h. */
#include "common/tiny_vocab.h"

#include <stdio.h>
#include <stdlib.h>

#include "text/vocab_parts.h"

void tiny_vocab_begin(TinyVocab *t, const char *model) {
    memset(t, 0, sizeof *t);
    gguf_writer_init(&t->keys);
    gguf_writer_str(&t->keys, "general.architecture", "llama");
    if (model) gguf_writer_str(&t->keys, "tokenizer.ggml.model", model);
    if (model && strcmp(model, "gpt2") == 0) gguf_writer_str(&t->keys, "tokenizer.ggml.pre", "gpt-2");
    t->model = model;
    th_budget_init(&t->budget, UINT64_MAX);
    th_scratch_open(&t->scratch);
}

static Str keep(char room[TINY_TEXT_MAX], Str text) {
    if (text.len >= TINY_TEXT_MAX) abort();
    if (text.len) memcpy(room, text.data, text.len);
    return (Str){room, text.len};
}

int32_t tiny_vocab_add_text(TinyVocab *t, Str text, int type) {
    if (t->n == TINY_VOCAB_MAX) abort();
    t->token[t->n] = keep(t->text[t->n], text);
    t->type[t->n] = type;
    return (int32_t)t->n++;
}

int32_t tiny_vocab_add(TinyVocab *t, const char *text, int type) { return tiny_vocab_add_text(t, th_str(text), type); }

int32_t tiny_vocab_add_scored(TinyVocab *t, const char *text, float score) {
    int32_t id = tiny_vocab_add(t, text, TOKEN_NORMAL);
    t->score[id] = score;
    return id;
}

void tiny_vocab_add_bytes(TinyVocab *t) {
    for (int b = 0; b < 256; b++) {
        char text[2];
        size_t n = th_byte_char((unsigned char)b, text);
        tiny_vocab_add_text(t, (Str){text, n}, TOKEN_NORMAL);
    }
}

void tiny_vocab_add_byte_tokens(TinyVocab *t) {
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        tiny_vocab_add(t, text, TOKEN_BYTE);
    }
}

void tiny_vocab_merge(TinyVocab *t, const char *left_right) {
    if (t->n_merges == TINY_VOCAB_MAX) abort();
    t->merge[t->n_merges] = keep(t->merge_text[t->n_merges], th_str(left_right));
    t->n_merges++;
}

void tiny_vocab_write(TinyVocab *t) {
    Err err = {0};
    if (t->n) {
        gguf_writer_texts(&t->keys, "tokenizer.ggml.tokens", t->token, t->n);
        if (!t->omit_types) gguf_writer_array(&t->keys, "tokenizer.ggml.token_type", GGUF_I32, t->type, t->n);
        if (t->model && strcmp(t->model, "llama") == 0 && !t->omit_scores)
            gguf_writer_array(&t->keys, "tokenizer.ggml.scores", GGUF_F32, t->score, t->n);
        if (t->n_merges) gguf_writer_texts(&t->keys, "tokenizer.ggml.merges", t->merge, t->n_merges);
    }
    const char *path = th_scratch_path(&t->scratch, "vocab.gguf");
    if (!gguf_writer_save(&t->keys, path) || !th_gguf_open(&t->gguf, path, &t->budget, &err)) {
        fprintf(stderr, "tiny vocabulary: %s\n", err.message);
        abort();
    }
    t->header_bytes = t->budget.used;
}

bool tiny_vocab_reopen(TinyVocab *t, uint64_t room, Err *err) {
    th_budget_limit(&t->budget, room > UINT64_MAX - t->header_bytes ? UINT64_MAX : t->header_bytes + room);
    t->budget.peak = t->budget.used;
    return th_vocab_open(&t->vocab, &t->gguf, &t->budget, NULL, err) &&
           (t->vocab.kind == VOCAB_NONE || th_tokenizer_open(&t->tokenizer, &t->vocab, &t->budget, err));
}

bool tiny_vocab_open(TinyVocab *t, uint64_t room, Err *err) {
    tiny_vocab_write(t);
    return tiny_vocab_reopen(t, room, err);
}

void tiny_vocab_shut(TinyVocab *t) {
    th_tokenizer_close(t->tokenizer);
    th_vocab_close(&t->vocab);
    t->tokenizer = NULL;
}

void tiny_vocab_close(TinyVocab *t) {
    tiny_vocab_shut(t);
    th_gguf_close(&t->gguf);
    gguf_writer_free(&t->keys);
    th_scratch_close(&t->scratch);
    th_budget_free(&t->budget);
}
