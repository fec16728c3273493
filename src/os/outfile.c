/* outfile.c: temporary file, lock, write, rename. Errors of every step count: a full disk may show at write, fsync or
 * close (B54). */
#define _GNU_SOURCE
#include "os/outfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char PREFIX[] = ".thimble-part-";

/* "dir/" of a path, "" if it has none. */
static size_t folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

static bool check_room(const OutFile *o, Err *err) {
    struct statvfs fs;
    if (fstatvfs(o->fd, &fs) != 0) return true; /* the writes will tell */
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= o->bytes || fs.f_blocks == 0) return true;
    return th_fail(err, THIMBLE_E_IO, "%s: no space: %llu bytes are needed, %llu are free", o->path,
                   (unsigned long long)o->bytes, (unsigned long long)free_bytes);
}

bool th_outfile_open(OutFile *o, const char *path, uint64_t bytes, Err *err) {
    *o = (OutFile){.fd = -1, .bytes = bytes};
    size_t folder = folder_length(path);
    if (strlen(path) >= sizeof o->path || path[folder] == 0)
        return th_fail(err, THIMBLE_E_ARG, "\"%.80s\" is no path for a file to write", path);
    snprintf(o->path, sizeof o->path, "%s", path);
    for (int i = 0; o->fd < 0 && i < 100; i++) {
        snprintf(o->temporary, sizeof o->temporary, "%.*s%s%ld-%d", (int)folder, path, PREFIX, (long)getpid(), i);
        o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (o->fd < 0 && errno != EEXIST && errno != EINTR) break;
    }
    if (o->fd < 0) return th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot be written", path);
    flock(o->fd, LOCK_EX | LOCK_NB); /* nobody else has it; where locks do not work, sweeping removes nothing */
    if (check_room(o, err)) return true;
    th_outfile_abort(o);
    return false;
}

bool th_outfile_write(OutFile *o, const void *data, size_t bytes, Err *err) {
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = write(o->fd, at, bytes < (1u << 30) ? bytes : 1u << 30);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return th_fail_errno(err, THIMBLE_E_IO, n < 0 ? errno : ENOSPC,
                                 "%s: writing failed after %llu of %llu bytes", o->path, (unsigned long long)o->written,
                                 (unsigned long long)o->bytes);
        at += n;
        bytes -= (size_t)n;
        o->written += (uint64_t)n;
    }
    return true;
}

/* The folder's entry, too, has to reach the device; file systems that cannot sync folders are none of our business. */
static void sync_folder(const char *path) {
    char dir[1024];
    size_t n = folder_length(path);
    snprintf(dir, sizeof dir, "%.*s", n ? (int)n : 1, n ? path : ".");
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

bool th_outfile_commit(OutFile *o, bool durable, Err *err) {
    int fd = o->fd;
    bool ok = !durable || fsync(fd) == 0;
    if (!ok) th_fail_errno(err, THIMBLE_E_IO, errno, "%s: writing to the device failed", o->path);
    if (ok && rename(o->temporary, o->path) != 0) /* still open, thus locked: no sweep comes in between */
        ok = th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot be put in place", o->path);
    if (!ok) {
        th_outfile_abort(o);
        return false;
    }
    o->fd = -1;
    if (close(fd) != 0 && errno != EINTR) {
        th_fail_errno(err, THIMBLE_E_IO, errno, "%s: closing failed", o->path);
        unlink(o->path);
        return false;
    }
    if (durable) sync_folder(o->path);
    return true;
}

void th_outfile_abort(OutFile *o) {
    if (o->fd < 0) return;
    unlink(o->temporary);
    close(o->fd);
    o->fd = -1;
}

static bool is_leftover(int dir, const char *name) {
    struct stat st;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    bool dead = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    return dead;
}

int th_outfile_sweep(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (!strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) && is_leftover(dirfd(d), e->d_name) &&
            unlinkat(dirfd(d), e->d_name, 0) == 0)
            n++;
    closedir(d);
    return n;
}
