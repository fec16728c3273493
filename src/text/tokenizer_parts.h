/* tokenizer_parts.h: what tokenizer.c, partition.c, symbols.c, bpe.c and spm.c share (private to src/text).
 *
 *     text -> partition -> fragments -> bpe (pretok -> words) or spm (units) -> symbols -> ids */
#ifndef THIMBLE_TOKENIZER_PARTS_H
#define THIMBLE_TOKENIZER_PARTS_H

#include "text/tokenizer.h"
#include "text/vocab_parts.h"

/* Candidates of one length: v->special[first .. first + count), by text, then by id. */
typedef struct SpecialClass {
    uint32_t length;
    int first, count;
    /* First bytes that occur: [0] among user-defined tokens, [1] among all. */
    uint32_t starts[2][8];
} SpecialClass;

/* Adjacent characters by the last byte of one and the first byte of the other; U+2581 is a class of its own, because it
 * shares its first byte with most punctuation and is where words end. */
enum { BORDER_SPACE = 256, BORDER_CLASSES = 257, TH_JOINED_BYTES = (BORDER_CLASSES * BORDER_CLASSES / 32 + 1) * 4 };

struct Tokenizer {
    const Vocab *v;
    Budget *budget;
    Pretok *pretok;        /* byte-level BPE only */
    SpecialClass *classes; /* longest first */
    int n_classes;
    size_t classes_bytes, longest_text;
    uint32_t *joined; /* SPM: bits [last][first]: some token holds this pair, so merges may cross it */
};

/* Memory of one encode: first from the working bytes that the tokenizer entered when it was opened, then, for texts
 * without borders, from the budget itself. */
typedef struct WorkBuf {
    void *data;
    size_t bytes;
    Budget *owner;
} WorkBuf;

/* Symbols of one word in a doubly linked list over arrays. Symbol i spans the bytes start[i] .. start[next[i]]. */
typedef struct Symbols {
    WorkBuf memory;
    size_t cap;
    uint32_t n;                                     /* symbols at the beginning; next == n: the last one */
    uint64_t *heap;                                 /* priority << 32 | left */
    uint32_t *start;                                /* [n + 1] */
    uint32_t *prev, *next, *id, *priority, *result; /* priority and result of the pair that begins here */
} Symbols;

typedef struct Work {
    const Tokenizer *t;
    Budget own;
    TokenBuf *out;
    Symbols symbols;
    WorkBuf text; /* SPM: the unit; BPE: an encoded word, a repaired fragment */
    WorkBuf repaired;
    size_t unit_len; /* of text, SPM */
    int unit_last;   /* border class of the unit's last character; -1: empty */
    char pending[4]; /* of a character that is not whole yet, SPM */
    size_t n_pending;
    Err *err;
} Work;

/* Makes b hold at least bytes; its contents are lost unless keep bytes are asked for. */
bool th_work_room(Work *w, WorkBuf *b, size_t bytes, size_t keep, Err *err);
void th_work_drop(WorkBuf *b);

/* Room for n symbols; then the caller fills start[0..n] and id[0..n). */
bool th_symbols_reserve(Work *w, size_t n, Err *err);
/* Priority (lower is earlier, below UINT32_MAX) and result of merging two neighbours; false if they do not merge. */
typedef bool PairFn(const void *arg, const Symbols *s, uint32_t left, uint32_t right, uint32_t *priority,
                    uint32_t *result);
/* Merges the pair of the lowest priority, the leftmost among equals, until none is left. O(n log n). */
void th_symbols_merge(Symbols *s, PairFn *pair, const void *arg);

/* Splits text at special tokens and hands the rest to th_fragment_encode, in order. */
bool th_partition(Work *w, Str text, bool parse_special, Err *err);
bool th_partition_open(Tokenizer *t, Err *err);
bool th_fragment_encode(Work *w, Str fragment, Err *err);
bool th_bpe_encode(Work *w, Str fragment, Err *err);
bool th_raw_bpe_encode(Work *w, Str fragment, Err *err);
bool th_spm_encode(Work *w, Str fragment, Err *err);
bool th_spm_open(Tokenizer *t, Err *err);
/* Length of the character at the beginning of a text by its lead byte alone (section 3); cut at the end. */
size_t th_lead_length(const char *p, size_t n);
/* One token per byte that has one. */
bool th_emit_bytes(Work *w, const char *p, size_t n, Err *err);

#endif
