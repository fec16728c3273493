/* vocab.h: the vocabulary of a GGUF file (tokenizers specification, sections 1 and 5).
 *
 *   text_block  the texts of all entries, one behind the other; text_at[id] .. text_at[id + 1] is one of them
 *   id_slots    open addressing: 24 bits of id + 1 under 8 bits of hash, so that a miss seldom touches a text
 *   merges      BPE: three columns of symbols, rank = row; merge_slots finds the row of a pair
 *
 * Everything lies in one block whose size follows from the file's header (th_vocab_bytes): 262,144 entries take about
 * 7 MB. A symbol is an id, or, in incomplete vocabularies, a text that is not a token: n + byte, then n + 256 + row. */
#ifndef THIMBLE_VOCAB_H
#define THIMBLE_VOCAB_H

#include "base/log.h"
#include "gguf/gguf.h"

enum { VOCAB_NONE, VOCAB_SPM, VOCAB_BPE };
/* TOKEN_MARKUP is ours: control for the encoder, shown as text by the decoder (gpt-oss, section 5). */
enum { TOKEN_UNDEFINED, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE,
       TOKEN_MARKUP };

typedef struct Vocab {
    Arena arena;
    int kind; /* VOCAB_* */
    int n;    /* entries */
    char *text_block;
    uint32_t *text_at;     /* [n + 1] */
    uint8_t *type;         /* [n] TOKEN_*, control texts of section 5 re-typed */
    float *score;          /* [n] SPM only */
    uint32_t *id_slots;    /* [n_id_slots] */
    uint32_t n_id_slots;
    int32_t byte_id[256];  /* the token of one byte: its character (BPE), "<0xHH>" or the bare byte (SPM); -1: none */
    int32_t bos, eos, unk; /* -1: none */
    bool add_bos, add_eos, add_space_prefix, ignore_merges;
    bool raw_utf8;         /* BPE over characters with U+2581 for spaces (section 4.6) */
    bool strips_after_special; /* phi-3: white space behind special tokens is dropped */
    Str pre;               /* tokenizer.ggml.pre, "default" if missing */
    int32_t *eog;          /* ascending */
    int n_eog;
    int32_t *suppress;     /* tokenizer.ggml.suppress_tokens, those below n */
    int n_suppress;
    int32_t *special;      /* candidates of the partition: longest text first, then by text, then by id */
    int n_special;
    uint32_t *merge_left, *merge_right, *merge_result; /* [n_merges] symbols */
    uint32_t *merge_slots; /* [n_merge_slots] row + 1 */
    uint32_t n_merges, n_merge_slots;
} Vocab;

/* E_UNSUPPORTED for tokenizer models we do not have ("bert", "t5", ...) and values of `pre` we do not know, E_FORMAT
 * for broken ones. A file without a tokenizer gives kind VOCAB_NONE with n = 0. log may be NULL. */
bool th_vocab_open(Vocab *v, const Gguf *g, Budget *budget, const ThimbleLog *log, Err *err);
void th_vocab_close(Vocab *v); /* accepts a zeroed or half-built Vocab */
/* Upper bound of what th_vocab_open, th_tokenizer_open and one encode of ordinary text will take, from the header
 * alone: entries in the Budget and the pattern library's own memory together. */
uint64_t th_vocab_bytes(const Gguf *g);
/* Only the end-of-generation set, ascending, without tables that last: for `info`; ids into arena. */
bool th_vocab_eog(const Gguf *g, Budget *budget, Arena *arena, int32_t **ids, int *n, Err *err);

/* Text of an entry as the file spells it, a slice into the vocabulary; empty outside [0, n). */
Str th_vocab_text(const Vocab *v, int32_t id);
int32_t th_vocab_find(const Vocab *v, Str text); /* the last entry with exactly this text, or -1 */
bool th_vocab_is_eog(const Vocab *v, int32_t id);
bool th_vocab_is_control(const Vocab *v, int32_t id); /* control, unknown or markup: never made from untrusted text */
/* BPE: rank of merging two symbols and the symbol they become; false if they do not merge. */
bool th_vocab_merge(const Vocab *v, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *result);

#endif
