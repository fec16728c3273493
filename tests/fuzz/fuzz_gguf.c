/* fuzz_gguf.c: any bytes as a GGUF file: refused with a sentence, or opened with every promise of gguf.h kept. The file
 * lives in memory (memfd), so that the code under test is the one that reads real files. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "gguf/gguf.h"

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void read_everything(const Gguf *g, const GgufKv *kv, Budget *budget) {
    int64_t i = 0, ints[4];
    double r = 0, reals[4];
    bool b = false, present;
    Str s = {0}, *texts;
    int32_t *narrow;
    float *floats;
    Err err = {0};
    const char *key = kv->key.data;
    must(key[kv->key.len] == 0, "a key ends with NUL");
    if (th_gguf_get_int(g, key, -10, 1000, &i, &err)) must(i >= -10 && i <= 1000, "an integer in its range");
    if (th_gguf_get_real(g, key, -1.5, 1e6, &r, &err)) must(r >= -1.5 && r <= 1e6, "a real in its range");
    (void)th_gguf_get_bool(g, key, &b, &err);
    (void)th_gguf_get_str(g, key, &s, &err);
    (void)th_gguf_get_ints(g, key, 4, 2, 0, INT64_MAX, ints, &present, &err);
    (void)th_gguf_get_reals(g, key, 4, 2, 0, 1, reals, &present, &err);
    Arena arena;
    th_arena_init(&arena, budget, MEM_METADATA);
    if (th_gguf_read_text(g, kv, &arena, &s, &err)) must(s.len == kv->count && s.data[s.len] == 0, "a whole text");
    if (th_gguf_read_strings(g, kv, &arena, &texts, &err))
        for (uint64_t t = 0; t < kv->count; t++) must(th_str_hash(texts[t]) != 1, "texts can be read");
    (void)th_gguf_read_ints(g, kv, &arena, INT32_MIN, INT32_MAX, &narrow, &err);
    (void)th_gguf_read_reals(g, kv, &arena, &floats, &err);
    th_arena_free(&arena);
}

static void check_tensor(const Gguf *g, const GgufTensor *t, size_t size) {
    uint64_t bytes = t->row_bytes * t->dim[1] * t->dim[2] * t->dim[3];
    must(t->n_dims >= 1 && t->n_dims <= 4 && t->dim[0] > 0, "dimensions in range");
    must(t->row_bytes == th_type_row_bytes(t->type, t->dim[0]), "rows of whole blocks");
    must(bytes == t->bytes && bytes > 0 && t->bytes <= size && t->offset <= size - t->bytes, "data inside the file");
    must(th_gguf_tensor(g, t->name.data) != NULL, "a tensor is found by its name");
    unsigned char byte;
    Err err = {0};
    must(th_file_read(&g->files[t->shard], &byte, 1, t->offset + t->bytes - 1, &err), "the last byte can be read");
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
    th_budget_init(&budget, 256 * TH_MIB);
    bool open = th_gguf_open_single(&g, path, &budget, &err);
    must(open || (err.code && err.message[0]), "a refusal with a sentence");
    must(budget.peak <= 512 * TH_KIB + 32 * (uint64_t)size, "memory in proportion to the file");
    for (size_t i = 0; open && i < g.n_kv; i++) read_everything(&g, &g.kv[i], &budget);
    for (size_t i = 0; open && i < g.n_tensors; i++) /* names with NUL inside are found by another name or not at all */
        if (strlen(g.tensors[i].name.data) == g.tensors[i].name.len) check_tensor(&g, &g.tensors[i], size);
    th_gguf_close(&g);
    must(budget.used == 0, "all memory given back");
    th_budget_free(&budget);
    close(fd);
    return 0;
}
