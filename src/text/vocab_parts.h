/* vocab_parts.h: how vocab.c, vocab_special.c and vocab_merges.c share the work of opening (private to src/text).
 *
 *     measure -> one block -> texts, types, scores (vocab.c) -> special ids, end-of-generation set, partition
 *     candidates (vocab_special.c) -> merges (vocab_merges.c) */
#ifndef THIMBLE_VOCAB_PARTS_H
#define THIMBLE_VOCAB_PARTS_H

#include "gguf/strings.h"
#include "text/vocab.h"

/* Ids live in 24 bits of a slot; the largest vocabulary known has 262,400 entries. */
enum { VOCAB_MAX = (1 << 24) - 2, MERGES_MAX = 1 << 26 };

/* Byte to character and back (section 4.3). th_byte_char: the two-byte or one-byte UTF-8 form, returns its length. */
size_t th_byte_char(unsigned char byte, char out[2]);
int th_char_byte(uint32_t code_point); /* -1: not in the table */
/* Code point of the sequence at p (n > 0 bytes left) and its length; 0 if it is not valid UTF-8. */
size_t th_utf8_decode(const char *p, size_t n, uint32_t *code_point);

/* bos, eos and the rest from the keys, EOG set, re-typing, suppressed ids, partition candidates. */
bool th_vocab_read_special(Vocab *v, const Gguf *g, Budget *budget, Err *err);
/* Fills the merge columns and slots, which have room for n_merges rows. */
bool th_vocab_read_merges(Vocab *v, const Gguf *g, const GgufKv *kv, Budget *budget, Err *err);

#endif
