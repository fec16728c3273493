/* kl_base.h: the distributions of a base model over a text, kept in a file that other runs are compared with.
 *
 *     header (56 bytes)  "THKLBASE" version n_vocab window stride n_tokens n_rows hash-of-ids, little endian
 *     a row per counted token: check u32 | top id i32 | ln p of the token f64 | n_vocab codes u16
 *
 * A code c says ln p = -c / 1536: 0 to 42.6 nats at an error of at most 1/3072. 65534: less than that; 65535: p = 0.
 * Rows are normalised again when they are read, so that the rounding enters a divergence only by its square (below
 * 1e-6).
 * The file may come from anywhere: its size must be what its header says, every row carries a checksum and must sum up
 * to 1. It is written under a temporary name and renamed when it is whole. */
#ifndef TOOLS_KL_BASE_H
#define TOOLS_KL_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What two runs must have in common to be comparable. */
typedef struct KlHeader {
    uint32_t n_vocab, window, stride;
    uint64_t n_tokens, n_rows, hash;
} KlHeader;

typedef enum KlResult { KL_FINE, KL_REFUSED, KL_IO } KlResult;

typedef struct KlBase {
    KlHeader header;
    const char *path;
    char *temporary; /* NULL: an existing file is read */
    FILE *file;
    unsigned char *row; /* the one row that is in memory */
    size_t row_bytes;
    uint64_t n_done;
    char why[512]; /* a sentence when a call does not return KL_FINE */
} KlBase;

typedef struct KlRow {
    double divergence; /* of the model from the base; INFINITY where the model rules out what the base allows */
    double difference; /* ln p of the token, model less base; NAN if one of them is not finite */
    bool same_top;
} KlRow;

uint64_t kl_hash(uint64_t hash, const int32_t *id, size_t n); /* start with 0 */
/* Opens `path` for reading if it is there, and checks that it is a base of the same text, vocabulary and windows;
 * otherwise begins to write it. */
KlResult kl_open(KlBase *b, const char *path, const KlHeader *want);
static inline bool kl_writes(const KlBase *b) { return b->temporary != NULL; }
/* One row, in order: written, or compared. `total` is logprob_total of the logits, `token` the one that followed. */
KlResult kl_row(KlBase *b, const float *logits, double total, int32_t token, KlRow *out);
/* `whole`: all rows are there: a written file gets its name. Otherwise nothing is left behind. */
KlResult kl_close(KlBase *b, bool whole);
#endif
