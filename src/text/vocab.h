/* vocab.h: the vocabulary of a GGUF file (tokenizers specification, sections 1 and 5). */
#ifndef THIMBLE_VOCAB_H
#define THIMBLE_VOCAB_H

#include "base/log.h"
#include "gguf/gguf.h"

enum { VOCAB_NONE, VOCAB_SPM, VOCAB_BPE };
enum { TOKEN_UNDEFINED, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_UNUSED, TOKEN_BYTE };

typedef struct Vocab {
    Arena arena;
    int kind;                /* VOCAB_* */
    int n;                   /* entries */
    Str *text;               /* [n] as the file spells it; slices into one block */
    uint8_t *type;           /* [n] TOKEN_*, control texts of section 5 re-typed */
    float *score;            /* [n] SPM only */
    Map id_of;               /* text -> id, the later duplicate wins */
    int32_t bos, eos, unk;   /* -1: none */
    bool add_bos, add_eos, add_space_prefix, ignore_merges;
    Str pre;                 /* tokenizer.ggml.pre, "default" if missing */
    int32_t *eog;            /* ascending */
    int n_eog;
    int32_t *suppress;       /* tokenizer.ggml.suppress_tokens */
    int n_suppress;
    int32_t *special;        /* candidates of the partition, longest text first */
    int n_special;
    Map merge_rank;          /* BPE: "left right" -> rank; keys are slices of the merges block */
} Vocab;

/* E_UNSUPPORTED for tokenizer models we do not have ("bert", "t5", ...), E_FORMAT for broken ones. */
bool th_vocab_open(Vocab *v, const Gguf *g, Budget *budget, const ThimbleLog *log, Err *err);
void th_vocab_close(Vocab *v);
/* Upper bound of what th_vocab_open plus th_tokenizer_open will take, from the header alone. */
uint64_t th_vocab_bytes(const Gguf *g);
/* Only the end-of-generation set and bos/eos, without tables that last: for `info`; ids into arena. */
bool th_vocab_eog(const Gguf *g, Budget *budget, Arena *arena, int32_t **ids, int *n, Err *err);
bool th_vocab_is_eog(const Vocab *v, int32_t id);

#endif
