/* file.h: reading files by offset: whole or not at all, direct where the file allows it.
 *
 * A File remembers size, mtime and inode of the moment it was opened; th_file_check says if they changed (fault B53).
 * th_file_read loops over short reads and EINTR, retries EIO a bounded number of times, and reports file, offset,
 * wanted, got and reason (B51). */
#ifndef THIMBLE_FILE_H
#define THIMBLE_FILE_H

#include "base/err.h"

/* Seam for tests: when set in a File, replaces pread(2) on its descriptors. Same contract and errno as pread. */
typedef struct FileHook {
    ptrdiff_t (*pread)(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset);
    void *arg;
} FileHook;

typedef struct File {
    int fd;        /* buffered; -1 when closed                                                       */
    int fd_direct; /* O_DIRECT, or -1 where it does not work                                         */
    size_t align;  /* offsets, lengths and addresses of direct reads are multiples of it (512..64 KiB) */
    char *path;
    uint64_t size, inode, device;
    int64_t mtime_ns;
    FileHook hook;
} File;

bool th_file_open(File *f, const char *path, Err *err); /* regular files only; read-only; close-on-exec */
void th_file_close(File *f);                            /* accepts a zeroed or failed File */
/* Tries O_DIRECT with a real read of one aligned block into an aligned buffer (B52). True if direct reads work from
 * now on; false leaves the file buffered. Never an error. */
bool th_file_probe_direct(File *f);
/* Buffered read of exactly bytes; E_IO otherwise (also at end of file). Any thread. */
bool th_file_read(const File *f, void *buffer, size_t bytes, uint64_t offset, Err *err);
/* Reads [offset, offset+bytes) widened to the file's alignment into `buffer`, which must be aligned to 4096 (and to
 * f->align) and hold th_file_span(f, offset, bytes) bytes. *skip is where the wanted bytes begin. Direct if probed
 * so, otherwise buffered with the page cache dropped behind it (posix_fadvise DONTNEED). End of file may cut the
 * widened tail, never the wanted bytes. Any thread. */
bool th_file_read_span(const File *f, void *buffer, size_t bytes, uint64_t offset, size_t *skip, Err *err);
size_t th_file_span(const File *f, uint64_t offset, size_t bytes); /* upper bound for any offset: bytes + 2 * align */
/* E_IO with a sentence if size, mtime, inode of the open descriptor changed since opening. */
bool th_file_check(const File *f, Err *err);
void th_file_drop_cache(const File *f, uint64_t offset, uint64_t bytes);

#endif
