/* shards.c: split models: several files, opened as one (gguf-container specification, section 7).
 *
 *     given: any shard, or the folder     ->  <prefix>-00001-of-0000N.gguf first (metadata), then 2 .. N
 *
 * Paths are built from the path the user gave and two numbers, never from a text in a file. The prefix is what remains
 * when the exact suffix that the file's own numbers predict is removed, so sets with similar names cannot mix. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "gguf/loader.h"

enum { SUFFIX_BYTES = 64, PATH_BYTES = 4096 };

static void make_suffix(char out[SUFFIX_BYTES], int64_t no, int64_t count) {
    snprintf(out, SUFFIX_BYTES, "-%05lld-of-%05lld.gguf", (long long)no + 1, (long long)count);
}

static bool add_shard(Loader *l, const char *first, size_t prefix, int64_t no, int64_t count, Err *err) {
    char path[PATH_BYTES], suffix[SUFFIX_BYTES];
    make_suffix(suffix, no, count);
    if (prefix + strlen(suffix) >= sizeof path)
        return th_fail(err, THIMBLE_E_ARG, "the path is longer than %d bytes", PATH_BYTES);
    memcpy(path, first, prefix);
    memcpy(path + prefix, suffix, strlen(suffix) + 1);
    if (!th_loader_add_file(l, path, true, err)) {
        bool io = err && err->code == THIMBLE_E_IO;
        return th_err_prefix(err, "shard %lld of %lld%s: ", (long long)no + 1, (long long)count,
                             io ? " cannot be read (all shards have to lie in one folder)" : "");
    }
    const ShardInfo *s = &l->shards[l->g->n_shards - 1];
    char name[160];
    th_str_escape(th_str(th_path_name(path)), name, sizeof name);
    if (s->split_no != no || s->split_count != count)
        return th_fail(err, THIMBLE_E_FORMAT,
                       "%s: its keys say shard %lld of %lld (split.no %lld), its name says %lld of %lld", name,
                       (long long)s->split_no + 1, (long long)s->split_count, (long long)s->split_no, (long long)no + 1,
                       (long long)count);
    if (s->split_tensors != l->shards[0].split_tensors)
        return th_fail(err, THIMBLE_E_FORMAT,
                       "%s: split.tensors.count is %lld, the first shard says %lld: this file belongs to another model",
                       name, (long long)s->split_tensors, (long long)l->shards[0].split_tensors);
    return true;
}

static bool check_total(const Loader *l, Err *err) {
    int64_t said = l->shards[0].split_tensors;
    if (said == (int64_t)l->g->n_tensors) return true;
    if (said < 0)
        th_fail(err, THIMBLE_E_FORMAT, "the key split.tensors.count is missing in the first shard");
    else
        th_fail(err, THIMBLE_E_FORMAT,
                "split.tensors.count says %lld tensors, the %u shards hold %zu: one of them is damaged or belongs to "
                "another model",
                (long long)said, l->g->n_shards, l->g->n_tensors);
    return th_sniff_prefix(l->g->files[0].path, err);
}

/* The length of `path` without the suffix that no and count predict; 0 if it does not end in it. */
static size_t prefix_length(const char *path, int64_t no, int64_t count) {
    char suffix[SUFFIX_BYTES];
    make_suffix(suffix, no, count);
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && memcmp(path + n - m, suffix, m) == 0 ? n - m : 0;
}

static bool open_set(Loader *l, const char *path, Budget *budget, Err *err) {
    Gguf *g = l->g;
    const ShardInfo given = l->shards[0];
    int64_t no = given.split_no, count = given.split_count;
    char name[160], suffix[SUFFIX_BYTES];
    th_str_escape(th_str(th_path_name(path)), name, sizeof name);
    if (no < 0 || no >= count)
        return th_fail(err, THIMBLE_E_FORMAT, "%s: split.no is %lld, split.count %lld", name, (long long)no,
                       (long long)count);
    make_suffix(suffix, no, count);
    size_t prefix = prefix_length(path, no, count);
    if (prefix == 0) {
        if (!th_loader_settle(l, err)) return false; /* a file joined with cat gets its own sentence */
        return th_fail(err, THIMBLE_E_FORMAT,
                       "%s: this is shard %lld of a set of %lld, but its name does not end in %s: give the shards "
                       "their original names",
                       name, (long long)no + 1, (long long)count, suffix);
    }
    if (no != 0) { /* the metadata are in the first one: begin anew */
        th_gguf_close(g);
        th_loader_begin(l, g, budget);
        if (!add_shard(l, path, prefix, 0, count, err)) return false;
    }
    for (int64_t k = 1; k < count; k++)
        if (!add_shard(l, path, prefix, k, count, err)) return false;
    return th_loader_settle(l, err) && check_total(l, err);
}

static bool open_file(Gguf *g, const char *path, Budget *budget, Err *err) {
    Loader l;
    th_loader_begin(&l, g, budget);
    if (!th_loader_add_file(&l, path, true, err)) goto fail;
    if (l.shards[0].split_count > 1) {
        if (!open_set(&l, path, budget, err)) goto fail;
    } else if (!th_loader_settle(&l, err)) {
        goto fail;
    }
    return true;
fail:
    th_gguf_close(g);
    return false;
}

/* ---- folders ---- */

/* What a folder holds, as far as it matters: one set, one plain file, or too many of a kind. */
typedef struct Found {
    char set[256], set_first[256], other_set[256]; /* set: prefix and count; other: what makes it ambiguous */
    char plain[256], other_plain[256];
    size_t n_sets, n_plain;
} Found;

static bool digits(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)p[i])) return false;
    return n >= 5;
}

/* "<prefix>-NNNNN-of-MMMMM.gguf": lengths of the prefix and of both numbers. */
static bool parse_shard_name(const char *name, size_t *prefix, size_t *n_count) {
    size_t end = strlen(name) - 5, m = 0, k = 0;
    while (m < end && isdigit((unsigned char)name[end - m - 1])) m++;
    if (!digits(name + end - m, m) || end < m + 4 || memcmp(name + end - m - 4, "-of-", 4) != 0) return false;
    size_t mid = end - m - 4;
    while (k < mid && isdigit((unsigned char)name[mid - k - 1])) k++;
    if (!digits(name + mid - k, k) || mid < k + 1 || name[mid - k - 1] != '-') return false;
    *prefix = mid - k - 1;
    *n_count = m;
    return true;
}

static void note_name(Found *f, const char *name) {
    size_t n = strlen(name), prefix, n_count;
    if (n <= 5 || n >= sizeof f->set || strcmp(name + n - 5, ".gguf") != 0 || name[0] == '.') return;
    if (!parse_shard_name(name, &prefix, &n_count)) {
        memcpy(f->n_plain++ ? f->other_plain : f->plain, name, n + 1);
        return;
    }
    char key[256], first[256];
    const char *count = name + n - 5 - n_count;
    snprintf(key, sizeof key, "%.*s-of-%.*s", (int)prefix, name, (int)n_count, count);
    snprintf(first, sizeof first, "%.*s-00001-of-%.*s.gguf", (int)prefix, name, (int)n_count, count);
    if (f->n_sets && strcmp(key, f->set) == 0) return;
    if (f->n_sets++ == 0) {
        memcpy(f->set, key, sizeof f->set);
        memcpy(f->set_first, first, sizeof f->set_first);
    } else {
        memcpy(f->other_set, first, sizeof f->other_set);
    }
}

static bool choose(const Found *f, const char *folder, const char **name, Err *err) {
    char a[300], b[300];
    th_str_escape(th_str(f->n_sets ? f->set_first : f->plain), a, sizeof a);
    th_str_escape(th_str(f->n_sets ? f->other_set : f->other_plain), b, sizeof b);
    if (f->n_sets > 1)
        return th_fail(err, THIMBLE_E_ARG, "%s holds more than one split model (%s, %s): give one of the files", folder,
                       a, b);
    if (f->n_sets == 0 && f->n_plain > 1)
        return th_fail(err, THIMBLE_E_ARG, "%s holds %zu GGUF files (%s, %s): give one of them", folder, f->n_plain, a,
                       b);
    if (f->n_sets == 0 && f->n_plain == 0)
        return th_fail(err, THIMBLE_E_IO, "%s is a folder without a GGUF file", folder);
    *name = f->n_sets ? f->set_first : f->plain;
    return true;
}

static bool find_in_folder(DIR *dir, const char *folder, char out[PATH_BYTES], Err *err) {
    Found found = {0};
    const struct dirent *entry;
    const char *name = NULL;
    while ((entry = readdir(dir)) != NULL) note_name(&found, entry->d_name);
    if (!choose(&found, folder, &name, err)) return false;
    size_t n = strlen(folder);
    int len = snprintf(out, PATH_BYTES, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
    if (len < 0 || len >= PATH_BYTES)
        return th_fail(err, THIMBLE_E_ARG, "the path of %s is longer than %d bytes", name, PATH_BYTES);
    return true;
}

bool th_gguf_open(Gguf *g, const char *path, Budget *budget, Err *err) {
    *g = (Gguf){0};
    DIR *dir = opendir(path);
    if (!dir) return open_file(g, path, budget, err);
    char inside[PATH_BYTES];
    bool found = find_in_folder(dir, path, inside, err);
    closedir(dir);
    return found && open_file(g, inside, budget, err);
}
