/* read_shim.c: preloaded by reads.sh: pread as broken devices do it. READ_SHIM says how, READ_SHIM_AFTER how many calls
 * come first that nothing happens to. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ssize_t (*Pread)(int fd, void *buffer, size_t bytes, off_t offset);

static ssize_t real(int fd, void *buffer, size_t bytes, off_t offset) {
    static Pread found;
    if (!found) *(void **)&found = dlsym(RTLD_NEXT, "pread64");
    return found(fd, buffer, bytes, offset);
}

static ssize_t fail_with(int number) {
    errno = number;
    return -1;
}

static ssize_t broken(int fd, void *buffer, size_t bytes, off_t offset) {
    static long calls;
    const char *how = getenv("READ_SHIM"), *after = getenv("READ_SHIM_AFTER");
    long call = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (!how || (after && call < atol(after))) return real(fd, buffer, bytes, offset);
    if (!strcmp(how, "error")) return fail_with(EIO);
    if (!strcmp(how, "error-once") && call % 4 == 0) return fail_with(EIO);
    if (!strcmp(how, "interrupt") && call % 2) return fail_with(EINTR);
    if (!strcmp(how, "nothing")) return 0;
    if (!strcmp(how, "short") && bytes >= 1024) bytes = bytes / 2 / 512 * 512;
    if (!strcmp(how, "no-direct") && (fcntl(fd, F_GETFL) & O_DIRECT)) return fail_with(EINVAL);
    return real(fd, buffer, bytes, offset);
}

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset) { return broken(fd, buffer, bytes, offset); }
ssize_t pread64(int fd, void *buffer, size_t bytes, off_t offset) { return broken(fd, buffer, bytes, offset); }
