/* folder.c: see folder.h. */
#define _GNU_SOURCE
#include "os/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool th_folder_make(const char *path, Err *err) {
    struct stat st;
    if (mkdir(path, 0700) == 0) return true;
    if (errno != EEXIST) return th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot be made", path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return true;
    return th_fail(err, THIMBLE_E_IO, "%s: is no folder", path);
}

bool th_folder_list(const char *path, FolderFn fn, void *arg, Err *err) {
    DIR *d = opendir(path);
    if (!d) return th_fail_errno(err, THIMBLE_E_IO, errno, "%s: cannot be read", path);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
        double when = (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
        if (!fn(arg, e->d_name, (uint64_t)st.st_size, when)) break;
    }
    closedir(d);
    return true;
}

/* Does not follow path/name out of the folder: names come from listing it. */
static bool join(char *out, size_t cap, const char *path, const char *name) {
    int n = snprintf(out, cap, "%s/%s", path, name);
    return n > 0 && (size_t)n < cap;
}

bool th_folder_remove(const char *path, const char *name) {
    char full[1200];
    return join(full, sizeof full, path, name) && unlink(full) == 0;
}

bool th_folder_stamp(const char *path, const char *name, double when) {
    char full[1200];
    double seconds = floor(when);
    struct timespec t[2] = {{.tv_nsec = UTIME_OMIT},
                            {.tv_sec = (time_t)seconds, .tv_nsec = (long)((when - seconds) * 1e9)}};
    return join(full, sizeof full, path, name) && utimensat(AT_FDCWD, full, t, AT_SYMLINK_NOFOLLOW) == 0;
}

double th_folder_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
