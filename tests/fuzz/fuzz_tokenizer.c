/* fuzz_tokenizer.c: any bytes as a file with a vocabulary: refused with a sentence, or opened within the memory that
 * the header promised; then its own bytes as a text, whose tokens are ids of the vocabulary and decode within their
 * room. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "text/tokenizer.h"

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void encode(const Tokenizer *t, const Vocab *v, Str text, bool special) {
    TokenBuf ids = {0};
    Buf back = {0};
    Err err = {0};
    must(th_tokenizer_encode(t, text, special, special, &ids, &err), "small texts always become tokens");
    for (size_t i = 0; i < ids.n; i++) must(ids.ids[i] >= 0 && ids.ids[i] < v->n, "ids of the vocabulary");
    must(th_detokenize(v, ids.ids, ids.n, true, &back, &err), "tokens become text");
    unsigned char held[8];
    char out[3 * 64 + 12];
    size_t n_held = 0;
    for (size_t at = 0; at < back.len; at += 64) {
        size_t n = back.len - at < 64 ? back.len - at : 64;
        must(th_utf8_stream_push(held, &n_held, back.data + at, n, out) <= sizeof out && n_held <= 3,
             "the stream fits");
    }
    th_buf_free(&back);
    th_token_buf_free(&ids);
}

static void use(const Gguf *g, Budget *budget, Str bytes) {
    Vocab v;
    Tokenizer *t = NULL;
    Arena arena;
    Err err = {0};
    int32_t *eog;
    int n_eog;
    uint64_t header = budget->used, bound = th_vocab_bytes(g);
    th_budget_limit(budget, header + bound);
    budget->peak = header;
    bool ok = th_vocab_open(&v, g, budget, NULL, &err);
    must(ok || (err.code && err.code != THIMBLE_E_BUDGET && err.message[0]),
         "a refusal that is not for lack of memory");
    if (ok && v.kind != VOCAB_NONE) {
        bool open = th_tokenizer_open(&t, &v, budget, &err);
        must(open || (err.code == THIMBLE_E_UNSUPPORTED && err.message[0]),
             "only rules that are not known are refused");
        if (open) {
            encode(t, &v, bytes, false);
            encode(t, &v, bytes, true);
            encode(t, &v, TH_STR("Hello  world, it's 2026!\n\n\xE4\xBD\xA0\xE5\xA5\xBD <|im_start|>"), true);
        }
        th_tokenizer_close(t);
    }
    if (ok) th_vocab_close(&v);
    must(budget->used == header, "all memory given back");
    th_budget_limit(budget, UINT64_MAX);
    th_arena_init(&arena, budget, MEM_METADATA);
    if (th_vocab_eog(g, budget, &arena, &eog, &n_eog, &err))
        for (int i = 1; i < n_eog; i++) must(eog[i - 1] < eog[i], "an ascending set");
    th_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    Gguf g;
    Budget budget;
    Err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        if (fd >= 0) close(fd);
        return 0;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    th_budget_init(&budget, UINT64_MAX);
    if (th_gguf_open_single(&g, path, &budget, &err)) {
        use(&g, &budget, (Str){(const char *)data, size < 2048 ? size : 2048});
        th_gguf_close(&g);
    }
    must(budget.used == 0, "all memory given back");
    th_budget_free(&budget);
    close(fd);
    return 0;
}
