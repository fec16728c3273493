/* fuzz_kl_base.c: hostile files for `perplexity --kl-base`. The input is offered as it is, and with what a forger would
 * set right: the header and the check of every row. Refused comes with a sentence; what is accepted is a distance: not
 * negative, never NaN.
 *
 * The corpus is what the writer makes of the same rows. */
#define _GNU_SOURCE /* memfd_create */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "tools/common/kl_base.h"
#include "tools/common/logprob.h"

enum { HEADER = 56, VOCAB = 6, ROW = 16 + 2 * VOCAB, ROWS = 3 };
static const KlHeader want = {.n_vocab = VOCAB, .window = 8, .stride = 4, .n_tokens = 9, .n_rows = ROWS, .hash = 77};

static void must(bool truth, const char *what) {
    if (truth) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void read_rows(KlBase *b) {
    static const float logits[VOCAB] = {0.5F, -1, 3, -INFINITY, 0, 2};
    const double total = logprob_total(logits, VOCAB);
    for (int i = 0; i < ROWS; i++) {
        KlRow row = {0};
        KlResult r = kl_row(b, logits, total, i, &row);
        if (r != KL_FINE) {
            must(b->why[0] != 0, "a refusal with a sentence");
            return;
        }
        must(row.divergence >= 0, "a divergence is not negative");
        must(!isinf(row.difference), "a difference is finite or unknown");
    }
}

static void offer(const uint8_t *data, size_t size) {
    char path[64];
    KlBase b;
    int fd = memfd_create("base", 0);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    KlResult r = kl_open(&b, path, &want);
    if (r == KL_FINE) {
        must(!kl_writes(&b), "an existing file is read");
        must(size == HEADER + ROWS * ROW, "the size is the header's");
        read_rows(&b);
    } else {
        must(b.why[0] != 0, "a refusal with a sentence");
    }
    must(kl_close(&b, r == KL_FINE) == KL_FINE, "closing a file that was read");
    close(fd);
}

static void put(uint8_t *to, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> (8 * i));
}

/* As the writer would have, over whatever the rows say. */
static void forge(uint8_t *file) {
    memcpy(file, "THKLBASE", 8);
    put(file + 8, 1, 4), put(file + 12, VOCAB, 4), put(file + 16, want.window, 4), put(file + 20, want.stride, 4);
    put(file + 24, want.n_tokens, 8), put(file + 32, ROWS, 8), put(file + 40, want.hash, 8);
    for (uint8_t *row = file + HEADER; row < file + HEADER + ROWS * ROW; row += ROW) {
        uint64_t h = 0xCBF29CE484222325u;
        for (int i = 4; i + 2 <= ROW; i += 2) h = (h ^ (uint64_t)(row[i] | row[i + 1] << 8)) * 0x100000001B3u;
        put(row, h ^ h >> 32, 4);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t file[HEADER + ROWS * ROW] = {0};
    offer(data, size);
    memcpy(file, data, size < sizeof file ? size : sizeof file);
    forge(file);
    offer(file, sizeof file);
    return 0;
}
