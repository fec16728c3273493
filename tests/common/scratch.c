/* scratch.c: see scratch.h. */
#define _GNU_SOURCE /* nftw's flags */
#include "common/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void check(bool good, const char *what) {
    if (good) return;
    fprintf(stderr, "scratch: %s: %s\n", what, strerror(errno));
    abort();
}

void th_scratch_open(Scratch *s) {
    const char *base = getenv("TMPDIR");
    int n = snprintf(s->dir, sizeof s->dir, "%s/thimble-test-XXXXXX", base && base[0] ? base : "/tmp");
    check(n > 0 && (size_t)n < sizeof s->dir && mkdtemp(s->dir), "cannot make a folder");
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *at) {
    (void)st, (void)flag, (void)at;
    return remove(path);
}

void th_scratch_close(Scratch *s) { check(nftw(s->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0, s->dir); }

const char *th_scratch_path(Scratch *s, const char *name) {
    int n = snprintf(s->path, sizeof s->path, "%s/%s", s->dir, name);
    check(n > 0 && (size_t)n < sizeof s->path, name);
    return s->path;
}

const char *th_scratch_write(Scratch *s, const char *name, const void *data, size_t bytes) {
    th_scratch_path(s, name);
    for (char *slash = s->path + strlen(s->dir) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        check(mkdir(s->path, 0700) == 0 || errno == EEXIST, s->path);
        *slash = '/';
    }
    int fd = open(s->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    check(fd >= 0, s->path);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)data + done, bytes - done);
        check(n > 0, s->path);
        done += (size_t)n;
    }
    check(close(fd) == 0, s->path);
    return s->path;
}

const char *th_scratch_text(Scratch *s, const char *name, const char *text) {
    return th_scratch_write(s, name, text, strlen(text));
}

const char *th_scratch_pattern(Scratch *s, const char *name, size_t bytes) {
    unsigned char *data = malloc(bytes ? bytes : 1);
    check(data != NULL, name);
    for (size_t i = 0; i < bytes; i++) data[i] = th_scratch_byte(i);
    th_scratch_write(s, name, data, bytes);
    free(data);
    return s->path;
}
