/* tiny_vocab.h: small vocabularies for tests: tokens, types, merges and scores as a test says them, opened through a
 * real file.
 *
 *     TinyVocab t;
 *     tiny_vocab_begin(&t, "gpt2");
 *     tiny_vocab_add(&t, "a", TOKEN_NORMAL);        id 0
 *     tiny_vocab_merge(&t, "a a");
 *     gguf_writer_u32(&t.keys, "tokenizer.ggml.bos_token_id", 0);
 *     assert_true(tiny_vocab_open(&t, UINT64_MAX, &err));
 *     tiny_vocab_close(&t);                         whatever open said */
#ifndef THIMBLE_TINY_VOCAB_H
#define THIMBLE_TINY_VOCAB_H

#include "common/gguf_writer.h"
#include "common/scratch.h"
#include "text/tokenizer.h"

enum { TINY_VOCAB_MAX = 4096, TINY_TEXT_MAX = 96 };

typedef struct TinyVocab {
    GgufWriter keys; /* for more keys, before open */
    Scratch scratch;
    char text[TINY_VOCAB_MAX][TINY_TEXT_MAX];
    Str token[TINY_VOCAB_MAX];
    int32_t type[TINY_VOCAB_MAX];
    float score[TINY_VOCAB_MAX];
    char merge_text[TINY_VOCAB_MAX][TINY_TEXT_MAX];
    Str merge[TINY_VOCAB_MAX];
    size_t n, n_merges;
    bool omit_types, omit_scores;
    const char *model;
    Budget budget;
    uint64_t header_bytes; /* of the budget, before the vocabulary */
    Gguf gguf;
    Vocab vocab;
    Tokenizer *tokenizer;
} TinyVocab;

/* Tests keep it static: it is large. pre is gpt-2 for model gpt2. */
void tiny_vocab_begin(TinyVocab *t, const char *model);
int32_t tiny_vocab_add(TinyVocab *t, const char *text, int type);
int32_t tiny_vocab_add_text(TinyVocab *t, Str text, int type);
int32_t tiny_vocab_add_scored(TinyVocab *t, const char *text, float score);
void tiny_vocab_add_bytes(TinyVocab *t);       /* the 256 characters of the byte table */
void tiny_vocab_add_byte_tokens(TinyVocab *t); /* <0x00> .. <0xFF> */
void tiny_vocab_merge(TinyVocab *t, const char *left_right);
/* Writes the file and opens its header. */
void tiny_vocab_write(TinyVocab *t);
/* write, then vocabulary and tokenizer within room bytes; false with err. */
bool tiny_vocab_open(TinyVocab *t, uint64_t room, Err *err);
/* Only vocabulary and tokenizer again, of the file already written. */
bool tiny_vocab_reopen(TinyVocab *t, uint64_t room, Err *err);
void tiny_vocab_shut(TinyVocab *t); /* vocabulary and tokenizer */
void tiny_vocab_close(TinyVocab *t);

#endif
