/* file.c: reads that are whole or fail with a sentence.
 *
 *     th_file_read ------------------------> fd         (page cache)
 *     th_file_read_span --probed--> fd_direct --refused midway or a cut block--> fd for the rest
 *                       --otherwise--> fd, then the page cache is dropped behind it
 *
 * One loop serves both: it goes on after short reads and EINTR and repeats EIO a few times, because flash behind a bus
 * recovers sometimes. What it reports is exact: file, offset, wanted, got, reason. Direct reads may be refused by the
 * read although open accepted them (SD cards, FUSE, overlays), so the probe reads for real, at both ends of the file,
 * and compares with what the page cache says. */
#define _GNU_SOURCE /* O_DIRECT, statx */
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "os/vm.h"

enum {
    ALIGN_USUAL = 4096,
    ALIGN_LARGEST = 64 * 1024,
    CALL_BYTES = 1 << 30, /* one pread asks for at most this: the kernel cuts at 2 GiB, and not at our alignment */
    EIO_TRIES = 4
};

/* ---- open, close, check ------------------------------------------------------------------------------------------ */

static int open_again(const char *path, int flags) {
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | flags);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static int64_t mtime_ns(const struct stat *st) {
    return (int64_t)((uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec);
}

bool th_file_open(File *f, const char *path, Err *err) {
    *f = (File){.fd = -1, .fd_direct = -1, .align = ALIGN_USUAL};
    struct stat st;
    Buf name = {0};
    if (!th_buf_append(&name, path, strlen(path) + 1, err)) return false;
    f->path = name.data;
    f->fd = open_again(path, O_NONBLOCK); /* without it a FIFO would wait for a writer; regular files do not care */
    if (f->fd < 0) {
        th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot open", path);
        goto fail;
    }
    if (fstat(f->fd, &st) != 0) {
        th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot read its size", path);
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        th_fail(err, THIMBLE_E_IO, "%s: %s", path, S_ISDIR(st.st_mode) ? "is a folder" : "is not a regular file");
        goto fail;
    }
    f->size = (uint64_t)st.st_size;
    f->inode = (uint64_t)st.st_ino;
    f->device = (uint64_t)st.st_dev;
    f->mtime_ns = mtime_ns(&st);
    return true;
fail:
    th_file_close(f);
    return false;
}

void th_file_close(File *f) {
    /* A zeroed File was never opened: its descriptor 0 is not ours. */
    if (f->path) {
        if (f->fd >= 0) close(f->fd);
        if (f->fd_direct >= 0) close(f->fd_direct);
        Buf name = {.data = f->path};
        th_buf_free(&name);
    }
    *f = (File){.fd = -1, .fd_direct = -1};
}

bool th_file_check(const File *f, Err *err) {
    struct stat st;
    if (fstat(f->fd, &st) != 0) return th_fail_errno(err, THIMBLE_E_IO, errno, "%s: no longer there", f->path);
    if ((uint64_t)st.st_size != f->size)
        return th_fail(err, THIMBLE_E_IO, "%s: changed while in use: it had %llu bytes and has %llu now", f->path,
                       (unsigned long long)f->size, (unsigned long long)st.st_size);
    if ((uint64_t)st.st_ino != f->inode || (uint64_t)st.st_dev != f->device)
        return th_fail(err, THIMBLE_E_IO, "%s: replaced by another file while in use", f->path);
    if (mtime_ns(&st) != f->mtime_ns)
        return th_fail(err, THIMBLE_E_IO, "%s: written to while in use; load it again", f->path);
    return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static ptrdiff_t pread_once(const File *f, int fd, void *buffer, size_t bytes, uint64_t offset) {
    bytes = th_min_size(bytes, CALL_BYTES);
    if (f->hook.pread) return f->hook.pread(f->hook.arg, fd, buffer, bytes, offset);
    return pread(fd, buffer, bytes, (off_t)offset);
}

static void pause_before_retry(int tries) {
    struct timespec t = {0, 1000000L << (2 * tries)}; /* 4, 16, 64 ms */
    nanosleep(&t, NULL);
}

/* Reads until at least `wanted` of `bytes` arrived; *reason is errno, or 0 at the end of the file. */
static size_t read_most(const File *f, int fd, char *buffer, size_t bytes, size_t wanted, uint64_t offset,
                        int *reason) {
    size_t got = 0;
    int tries = 0;
    *reason = 0;
    while (got < wanted) {
        ptrdiff_t n = pread_once(f, fd, buffer + got, bytes - got, offset + got);
        if (n > 0) {
            got += th_min_size((size_t)n, bytes - got);
            if (fd != f->fd && got < wanted && got % f->align != 0) break; /* the next one could not be direct */
        } else if (n == 0) {
            break;
        } else if (errno == EIO && ++tries < EIO_TRIES) {
            pause_before_retry(tries);
        } else if (errno != EINTR) {
            *reason = errno;
            break;
        }
    }
    return got;
}

static bool fail_read(const File *f, size_t wanted, uint64_t offset, size_t got, int reason, Err *err) {
    struct stat st;
    uint64_t size = fstat(f->fd, &st) == 0 ? (uint64_t)st.st_size : f->size;
    unsigned long long at = offset, now = size, then = f->size;
    if (reason)
        return th_fail_errno(err, THIMBLE_E_IO, reason, "%s: reading %zu bytes at offset %llu got %zu", f->path, wanted,
                             at, got);
    if (size != f->size)
        return th_fail(err, THIMBLE_E_IO,
                       "%s: reading %zu bytes at offset %llu got %zu: the file changed while in use: it had %llu bytes "
                       "and has %llu now",
                       f->path, wanted, at, got, then, now);
    return th_fail(err, THIMBLE_E_IO, "%s: reading %zu bytes at offset %llu got %zu: the file ends at %llu", f->path,
                   wanted, at, got, now);
}

/* No file is that long; off_t must not turn negative. */
static bool in_reach(const File *f, size_t bytes, uint64_t offset, Err *err) {
    uint64_t end;
    if (th_size_add(offset, bytes, &end) && end <= INT64_MAX - 2 * (uint64_t)ALIGN_LARGEST) return true;
    return th_fail(err, THIMBLE_E_IO, "%s: reading %zu bytes at offset %llu: beyond any file", f->path, bytes,
                   (unsigned long long)offset);
}

bool th_file_read(const File *f, void *buffer, size_t bytes, uint64_t offset, Err *err) {
    if (!in_reach(f, bytes, offset, err)) return false;
    int reason;
    size_t got = read_most(f, f->fd, buffer, bytes, bytes, offset, &reason);
    return got >= bytes || fail_read(f, bytes, offset, got, reason, err);
}

size_t th_file_span(const File *f, uint64_t offset, size_t bytes) {
    (void)offset;
    uint64_t span = th_align_up(bytes, f->align);
    return span > SIZE_MAX - f->align ? SIZE_MAX : (size_t)span + f->align;
}

bool th_file_read_span(const File *f, void *buffer, size_t bytes, uint64_t offset, size_t *skip, Err *err) {
    if (!in_reach(f, bytes, offset, err)) return false;
    uint64_t begin = th_align_down(offset, f->align), end = th_align_up(offset + bytes, f->align);
    size_t head = (size_t)(offset - begin), got = 0; /* got counts from `begin` */
    int reason = 0;
    *skip = head;
    if (f->fd_direct >= 0) {
        got = read_most(f, f->fd_direct, buffer, (size_t)(end - begin), head + bytes, begin, &reason);
        if (got >= head + bytes) return true;
    }
    /* Not direct at all, or the rest of what direct reading left over: it may refuse what it took before (the cut last
     * block, a failing device); the page cache decides. */
    size_t from = th_max_size(got, head), more = head + bytes - from;
    size_t rest = read_most(f, f->fd, (char *)buffer + from, more, more, begin + from, &reason);
    th_file_drop_cache(f, begin + from, rest);
    return rest >= more || fail_read(f, bytes, offset, from - head + rest, reason, err);
}

void th_file_drop_cache(const File *f, uint64_t offset, uint64_t bytes) {
#ifdef POSIX_FADV_DONTNEED
    /* Only whole pages are dropped: widened, or each read would leave its two edges behind. */
    uint64_t page = th_vm_page(), begin = th_align_down(offset, page), end;
    if (!th_size_add(offset, bytes, &end) || end > INT64_MAX - page) end = INT64_MAX - page;
    end = th_align_up(end, page);
    if (end > begin) (void)posix_fadvise(f->fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_DONTNEED);
#else
    (void)f, (void)offset, (void)bytes;
#endif
}

/* ---- direct reads ------------------------------------------------------------------------------------------------ */

#ifdef O_DIRECT
/* What the file system says it needs; 0 if it says that direct reads do not work, the usual size if it says nothing. */
static size_t stated_align(int fd) {
#ifdef STATX_DIOALIGN
    struct statx sx = {0};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 && (sx.stx_mask & STATX_DIOALIGN) != 0) {
        size_t align = th_max_size(sx.stx_dio_offset_align, sx.stx_dio_mem_align);
        if (sx.stx_dio_offset_align == 0 || align > ALIGN_LARGEST || (align & (align - 1)) != 0) return 0;
        return th_max_size(align, ALIGN_USUAL);
    }
#else
    (void)fd;
#endif
    return ALIGN_USUAL;
}

/* The same file again, even if another one stands at its path by now. */
static int open_direct(const File *f) {
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    const char *paths[] = {self, f->path};
    for (size_t i = 0; i < TH_COUNT(paths); i++) {
        struct stat st;
        int fd = open_again(paths[i], O_DIRECT);
        if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_ino == f->inode && (uint64_t)st.st_dev == f->device)
            return fd;
        if (fd >= 0) close(fd);
    }
    return -1;
}

/* One block at offset, direct and buffered, must be equal. `space` holds two blocks. */
static bool block_agrees(const File *f, int fd, uint64_t offset, char *space, size_t align) {
    int reason;
    size_t bytes = (size_t)(f->size - offset < align ? f->size - offset : align);
    ptrdiff_t n;
    do {
        n = pread_once(f, fd, space, align, offset);
    } while (n < 0 && errno == EINTR);
    if (n < 0 || (size_t)n < bytes) return false;
    return read_most(f, f->fd, space + align, bytes, bytes, offset, &reason) == bytes &&
           memcmp(space, space + align, bytes) == 0;
}

static bool probe(File *f, int fd) {
    const size_t space_bytes = 3 * (size_t)ALIGN_LARGEST;
    char *space = th_vm_alloc(NULL, MEM_IO, space_bytes, false, NULL);
    if (!space) return false;
    char *aligned = space + (ALIGN_LARGEST - (uintptr_t)space % ALIGN_LARGEST) % ALIGN_LARGEST;
    size_t align = stated_align(fd);
    bool works = false;
    for (; align && align <= ALIGN_LARGEST && !works; align *= 4) {
        works = block_agrees(f, fd, 0, aligned, align) &&
                block_agrees(f, fd, th_align_down(f->size - 1, align), aligned, align);
        if (works) f->align = align;
    }
    th_file_drop_cache(f, 0, ALIGN_LARGEST);
    th_vm_free(NULL, MEM_IO, space, space_bytes, false);
    return works;
}
#endif

bool th_file_probe_direct(File *f) {
    if (f->fd_direct >= 0) return true;
#ifdef O_DIRECT
    int fd = f->size > 0 ? open_direct(f) : -1;
    if (fd >= 0 && probe(f, fd)) {
        f->fd_direct = fd;
        return true;
    }
    if (fd >= 0) close(fd);
#endif
#ifdef POSIX_FADV_RANDOM
    /* From now on reads are large and their cache is dropped behind them: pages the kernel reads ahead would stay. */
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
#endif
    return false;
}
