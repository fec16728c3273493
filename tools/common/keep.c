/* keep.c: see keep.h. */
#include "common/keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MUCH = 32, LONGEST_NAME = 64 };

/* Once is enough: what goes wrong with a folder goes on going wrong. */
static void give_up(Keep *k, const ThimbleError *e) {
    term_notice(&k->cli->term, "prompts are not kept: %s", e->message);
    keep_close(k);
}

void keep_open(Keep *k, Cli *cli, ThimbleModel *m) {
    ThimbleError e = {0};
    *k = (Keep){.cli = cli};
    if (!cli->opt.cache_dir || !cli->opt.cache_dir[0]) return;
    if (thimble_store_open(&k->store, m, cli->opt.cache_dir, cli->opt.cache_size, &e) != THIMBLE_OK) give_up(k, &e);
}

void keep_close(Keep *k) {
    thimble_store_close(k->store);
    k->store = NULL;
}

static uint64_t evaluated(const ThimbleSession *s) {
    ThimbleStats stats = {.struct_size = sizeof stats};
    thimble_session_stats(s, &stats);
    return stats.prompt_tokens;
}

void keep_find(Keep *k, ThimbleSession *s, const Ids *ids) {
    ThimbleError e = {0};
    if (!k->store) return;
    k->evaluated = evaluated(s);
    if (thimble_store_restore(k->store, s, ids->id, ids->n, NULL, &e) != THIMBLE_OK) give_up(k, &e);
}

void keep_talk(Keep *k, ThimbleSession *s) {
    ThimbleError e = {0};
    if (!k->store || thimble_session_length(s) == 0) return;
    if (thimble_store_keep(k->store, s, NULL, &e) != THIMBLE_OK) give_up(k, &e);
}

void keep_prompt(Keep *k, ThimbleSession *s) {
    if (k->store && evaluated(s) - k->evaluated >= MUCH) keep_talk(k, s);
}

static bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool keep_is_name(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || n > LONGEST_NAME || !is_alnum(name[0])) return false;
    for (const char *c = name; *c; c++)
        if (!is_alnum(*c) && *c != '.' && *c != '_' && *c != '-') return false;
    return true;
}

/* mkdir -p, for its owner alone. */
static bool make_folders(char *path) {
    for (char *c = path + 1; *c; c++) {
        if (*c != '/') continue;
        *c = 0;
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *c = '/';
        if (failed) return false;
    }
    return true;
}

bool keep_path(Cli *cli, const char *name, bool make, char *path, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME"), *dir = cli->opt.cache_dir;
    int n = dir && dir[0]       ? snprintf(path, size, "%s/%s.talk", dir, name)
            : state && state[0] ? snprintf(path, size, "%s/thimble/%s.talk", state, name)
            : home && home[0]   ? snprintf(path, size, "%s/.local/state/thimble/%s.talk", home, name)
                                : 0;
    if (n <= 0 || (size_t)n >= size) {
        term_notice(&cli->term, "there is no folder for talks: give --cache-dir DIR");
        return false;
    }
    if (!make || make_folders(path)) return true;
    term_notice(&cli->term, "%s: its folder cannot be made: %s", path, strerror(errno));
    return false;
}
