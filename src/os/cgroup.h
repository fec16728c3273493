/* cgroup.h: what the kernel tells in small text files, and the control groups this process is in (versions 1 and 2).
 *
 * Nothing here allocates. `root` is put in front of every path: "" is this machine, tests give their own folder. */
#ifndef THIMBLE_CGROUP_H
#define THIMBLE_CGROUP_H

#include "base/base.h"

/* Reads at most cap - 1 bytes and ends them with NUL; false if there is no such file. */
bool th_text_read(const char *root, const char *path, char *out, size_t cap);
/* The decimal number that `text` begins with; false if there is none or it does not fit. */
bool th_text_parse(const char *text, uint64_t *out);
/* A number at the start of the file; false if there is none ("max"). */
bool th_text_number(const char *root, const char *path, uint64_t *out);

/* Called for the group of this process and every ancestor that is visible; version is 1 or 2. `dir` without root. */
typedef void (*CgroupVisit)(void *arg, const char *root, const char *dir, int version);
/* controller: "memory", "cpu". */
void th_cgroup_each(const char *root, const char *controller, CgroupVisit visit, void *arg);

#endif
