/* replay.c: runs a fuzz target without libFuzzer: build/tests/fuzz/replay_X takes every file of tests/fuzz/corpus/X as
 * it is, cut at many lengths and with many single bytes changed, always the same ones. A crash is the failure. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

enum { MAX_FILE = 256 * 1024, MUTANTS = 400 /* of a file, of each kind */ };

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void run(const unsigned char *bytes, size_t n) {
    /* A copy of exactly this length: a sanitizer sees the first byte read beyond it. */
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) abort();
    memcpy(copy, bytes, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static size_t replay_file(const char *path) {
    static unsigned char bytes[MAX_FILE]; /* a test program's own */
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    size_t n = fread(bytes, 1, sizeof bytes, f), runs = 1, step = n / MUTANTS + 1;
    fclose(f);
    run(bytes, n);
    for (size_t i = 0; i < n; i += step, runs++) run(bytes, i);
    for (size_t i = 0; i < n; i += step, runs++) {
        static const unsigned char values[] = {0xFF, 0x00, 0x80, 0x7F, 0x01};
        unsigned char kept = bytes[i];
        bytes[i] = kept == values[i % 5] ? (unsigned char)(kept ^ 1) : values[i % 5];
        run(bytes, n);
        bytes[i] = kept;
    }
    return runs;
}

int main(int argc, char **argv) {
    const char *name = strstr(argv[0], "replay_"); /* the last one: folders may be called so too */
    for (const char *next = name; next; next = strstr(next + 1, "replay_")) name = next;
    char dir[512], path[1024];
    snprintf(dir, sizeof dir, "%s/%s", argc > 1 ? argv[1] : "tests/fuzz/corpus", name ? name + 7 : "");
    DIR *d = opendir(dir);
    if (!d) {
        printf("not ok 1 - %s: no corpus\n", dir);
        return 1;
    }
    char *files[256];
    size_t n = 0;
    for (const struct dirent *e; n < 256 && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') files[n++] = strdup(e->d_name);
    closedir(d);
    qsort(files, n, sizeof *files, by_name);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        printf("# %s\n", files[i]); /* said before: a crash shows which one */
        fflush(stdout);
        size_t runs = replay_file(path);
        printf("%sok %zu - %s and %zu variants of it\n", runs ? "" : "not ", i + 1, files[i], runs ? runs - 1 : 0);
        free(files[i]);
    }
    if (n == 0) printf("not ok 1 - %s: empty corpus\n", dir);
    return n == 0;
}
