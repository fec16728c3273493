/* tokenizer.h: text to tokens and back (tokenizers specification, sections 2 to 4 and 6). */
#ifndef THIMBLE_TOKENIZER_H
#define THIMBLE_TOKENIZER_H

#include "text/vocab.h"

typedef struct Tokenizer Tokenizer;
/* Compiles the pre-tokenizer. The vocabulary must outlive it. E_UNSUPPORTED names a `pre` we do not know. Enters
 * working memory for one encode at a time in the budget; long texts without borders enter more while they last. */
bool th_tokenizer_open(Tokenizer **out, const Vocab *v, Budget *budget, Err *err);
void th_tokenizer_close(Tokenizer *t); /* NULL allowed */
/* Upper bound of what open and one encode of ordinary text take for n entries with text_bytes of text. */
uint64_t th_tokenizer_bytes(uint64_t n, uint64_t text_bytes);

/* Grows by realloc; free with th_token_buf_free. `fixed`: ids [cap] is the caller's, the rest is only counted. */
typedef struct TokenBuf { int32_t *ids; size_t n, cap; bool fixed; } TokenBuf;
bool th_token_buf_push(TokenBuf *b, int32_t id, Err *err);
void th_token_buf_free(TokenBuf *b);

/* Appends the tokens of text. add_special: BOS and EOS by the vocabulary's rule. Time O(n log n). */
bool th_tokenizer_encode(const Tokenizer *t, Str text, bool add_special, bool parse_special, TokenBuf *out, Err *err);
/* Bytes of one token (section 6.1): full length, writes at most cap. */
size_t th_token_bytes(const Vocab *v, int32_t id, bool show_special, char *out, size_t cap);
/* Whole sequences from their start (section 6.2): SPM loses one leading space where the rule says so. */
bool th_detokenize(const Vocab *v, const int32_t *ids, size_t n, bool show_special, Buf *out, Err *err);

/* Valid UTF-8 out of a stream of bytes (section 6.4). held: at most 3 bytes. out has room for 3 * n + 12;
 * bytes may be the last n of them. */
size_t th_utf8_stream_push(unsigned char held[8], size_t *n_held, const char *bytes, size_t n, char *out);
size_t th_utf8_stream_end(unsigned char held[8], size_t *n_held, char *out);

/* pretok.c: pieces of a text (valid UTF-8, E_ARG otherwise) under one `pre`. emit returns false to stop, which makes
 * th_pretok_split return false with err as emit left it. For tests as well. */
typedef struct Pretok Pretok;
bool th_pretok_open(Pretok **out, Str pre, Budget *budget, Err *err);
void th_pretok_close(Pretok *p); /* NULL allowed */
bool th_pretok_split(const Pretok *p, Str text, bool (*emit)(void *arg, Str piece), void *arg, Err *err);
/* Properties of a `pre` name; false if it is unknown. */
bool th_pretok_traits(Str pre, bool *ignore_merges, bool *add_bos_default);

#endif
