/* fuzz_gguf_set.c: any bytes as the two shards of a set (the first two bytes say where to cut), opened by either shard
 * and by the folder: the verdict must be the same each way, and an opened set must keep the promises of gguf.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "gguf/gguf.h"

static char folder[64]; /* made once per process: links to the two descriptors of the moment */
enum { FIRST_FD = 200 };

static void must(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void shard_path(char out[128], int k) { snprintf(out, 128, "%s/m-%05d-of-00002.gguf", folder, k + 1); }

static void remove_folder(void) {
    char path[128];
    for (int k = 0; k < 2; k++) {
        shard_path(path, k);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void) {
    char path[128], target[64];
    strcpy(folder, "/tmp/thimble-fuzz-XXXXXX");
    if (!mkdtemp(folder)) exit(2);
    for (int k = 0; k < 2; k++) {
        shard_path(path, k);
        snprintf(target, sizeof target, "/proc/self/fd/%d", FIRST_FD + k);
        if (symlink(target, path) != 0) exit(2);
    }
    atexit(remove_folder);
}

static void put_shard(int k, const uint8_t *data, size_t size) {
    int fd = memfd_create("shard", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || dup2(fd, FIRST_FD + k) < 0) exit(2);
    close(fd);
}

static bool open_set(const char *path, size_t size) {
    Gguf g;
    Budget budget;
    Err err = {0};
    th_budget_init(&budget, 256 * TH_MIB);
    bool open = th_gguf_open(&g, path, &budget, &err);
    must(open || (err.code && err.message[0]), "a refusal with a sentence");
    must(budget.peak <= 512 * TH_KIB + 32 * (uint64_t)size, "memory in proportion to the files");
    for (size_t i = 0; open && i < g.n_tensors; i++) {
        const GgufTensor *t = &g.tensors[i];
        must(t->shard < g.n_shards, "a tensor's shard is open");
        must(t->bytes && t->bytes <= size && t->offset <= g.files[t->shard].size - t->bytes, "data inside the shard");
    }
    th_gguf_close(&g);
    must(budget.used == 0, "all memory given back");
    th_budget_free(&budget);
    return open;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char first[128], second[128];
    if (!folder[0]) make_folder();
    if (size < 2) return 0;
    size_t cut = (size_t)(data[0] | data[1] << 8);
    data += 2;
    size -= 2;
    cut = cut < size ? cut : size;
    put_shard(0, data, cut);
    put_shard(1, data + cut, size - cut);
    shard_path(first, 0);
    shard_path(second, 1);
    bool by_folder = open_set(folder, size);
    must(open_set(first, size) == by_folder, "the folder is its first shard");
    /* The second shard may be a sound file of its own without being one of a set. */
    if (by_folder) (void)open_set(second, size);
    return 0;
}
