/* store.c: see store.h. The folder is the only truth: it is listed for every question, which takes a fraction of a
 * millisecond per snapshot, beside prompts that take seconds. */
#include "session/store.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "os/folder.h"
#include "os/outfile.h"

enum { WORTH_KEEPING = 32, WORTH_LOADING = 16, MOST_TRIES = 8, NAME_BYTES = 80 };
static const double HALF_LIFE = 6 * 3600;

/* ---- names and scores
 * ------------------------------------------------------------------------------------------------ */

static uint64_t key_of(const SnapshotHeader *h) {
    const uint64_t types = h->cache_type | (uint64_t)h->state_type << 32;
    const uint64_t parts[] = {h->model[0], h->model[1], h->rules, types, h->isa};
    return XXH3_64bits(parts, sizeof parts);
}

static void make_name(char name[NAME_BYTES], const SnapshotHeader *h) {
    snprintf(name, NAME_BYTES, "%016llx-%016llx-%d.snap", (unsigned long long)key_of(h),
             (unsigned long long)h->token_hash, h->n_tokens);
}

/* Is this a name of ours? Then n_tokens is what it says. */
static bool read_name(const char *name, int *n_tokens) {
    char again[NAME_BYTES], *end;
    unsigned long long key = strtoull(name, &end, 16);
    if (*end != '-') return false;
    unsigned long long hash = strtoull(end + 1, &end, 16);
    long tokens = *end == '-' ? strtol(end + 1, NULL, 10) : 0;
    if (tokens < 1 || tokens > INT_MAX) return false;
    *n_tokens = (int)tokens;
    snprintf(again, sizeof again, "%016llx-%016llx-%d.snap", key, hash, *n_tokens);
    return strcmp(name, again) == 0;
}

double th_store_used(double when, double now) {
    double worth = exp2(fmin((when - now) / HALF_LIFE, 30)); /* of the uses so far */
    return now + HALF_LIFE * log2(1 + worth);
}

double th_store_score(double when, int n_tokens, uint64_t bytes) {
    return when / HALF_LIFE + log2((double)n_tokens / (double)th_max_size(1, (size_t)bytes));
}

/* ---- finding
 * --------------------------------------------------------------------------------------------------------- */

static bool read_from_file(void *file, uint64_t offset, void *data, size_t bytes, Err *err) {
    return th_file_read(file, data, bytes, offset, err);
}

static bool open_snapshot(const Store *st, const char *name, File *f, Err *err) {
    char path[1000];
    snprintf(path, sizeof path, "%s/%s", st->dir, name);
    return th_file_open(f, path, err);
}

/* How many of the snapshot's tokens are the same. */
static int count_common(File *f, const SnapshotHeader *h, const int32_t *tokens, size_t n) {
    int32_t chunk[1024];
    size_t most = th_min_size(n, (size_t)h->n_tokens);
    for (size_t done = 0; done < most;) {
        size_t k = th_min_size(TH_COUNT(chunk), most - done);
        if (!th_file_read(f, chunk, k * sizeof *chunk, th_snapshot_tokens_at(h) + done * sizeof *chunk, NULL)) return 0;
        for (size_t i = 0; i < k; i++)
            if (chunk[i] != tokens[done + i]) return (int)(done + i);
        done += k;
    }
    return (int)most;
}

/* What sync would keep of n tokens after loading the snapshot, `common` of which agree. */
static int usable(const Session *s, const SnapshotHeader *h, const SnapshotPoint *points, int common, int n) {
    SeqState as = s->state; /* only its numbers are looked at */
    th_state_restored(&as, h->n_tokens);
    if (common == h->n_tokens && (common < n || h->has_logits)) return common;
    int most = common < n ? common : n - 1, best = 0;
    if (th_state_can_rewind(&as, most)) return most;
    for (uint32_t i = 0; i < h->n_checkpoints && s->checkpoints.n > 0; i++) {
        int at = points[i].position;
        bool whole = at == n && common == n && points[i].flags & POINT_LOGITS;
        if (at > best && (at <= most || whole) && th_state_can_load(&as, at)) best = at;
    }
    return best;
}

typedef struct Hunt {
    Store *store;
    Session *s;
    const int32_t *tokens;
    int n, best; /* tokens kept by the best so far */
    uint64_t best_bytes;
    char name[NAME_BYTES];
} Hunt;

static bool read_header(const Store *st, Session *s, File *f, SnapshotHeader *h) {
    return th_snapshot_header(s, read_from_file, f, f->size, h, NULL) && h->isa == st->engine->model.options.isa;
}

static bool consider(void *arg, const char *name, uint64_t bytes, double when) {
    (void)when;
    Hunt *hunt = arg;
    File f;
    SnapshotHeader h;
    SnapshotPoint points[SNAPSHOT_MOST_CHECKPOINTS];
    int n_tokens;
    if (!read_name(name, &n_tokens) || !open_snapshot(hunt->store, name, &f, NULL)) return true;
    if (read_header(hunt->store, hunt->s, &f, &h) &&
        th_file_read(&f, points, h.n_checkpoints * sizeof *points, sizeof h, NULL)) {
        int keeps = usable(hunt->s, &h, points, count_common(&f, &h, hunt->tokens, (size_t)hunt->n), hunt->n);
        if (keeps > hunt->best || (keeps == hunt->best && hunt->name[0] && bytes < hunt->best_bytes)) {
            hunt->best = keeps, hunt->best_bytes = bytes;
            snprintf(hunt->name, sizeof hunt->name, "%s", name);
        }
    }
    th_file_close(&f);
    return true;
}

static void note_use(const Store *st, const char *name, double when) {
    th_folder_stamp(st->dir, name, th_store_used(when, th_folder_now()));
}

static bool load_best(Store *st, Session *s, const Hunt *hunt, Err *err) {
    File f;
    if (!open_snapshot(st, hunt->name, &f, err)) return false;
    double when = (double)f.mtime_ns * 1e-9;
    bool ok = th_snapshot_load(s, read_from_file, &f, f.size, hunt->best, err);
    th_file_close(&f);
    if (ok) note_use(st, hunt->name, when);
    return ok;
}

bool th_store_restore(Store *st, Session *s, const int32_t *tokens, size_t n, size_t *kept, Err *err) {
    *kept = th_session_reusable(s, tokens, n);
    if (n == 0 || n > (size_t)s->state.context) return true; /* sync says what is wrong with that */
    for (int i = 0; i < MOST_TRIES; i++) {
        Hunt hunt = {.store = st, .s = s, .tokens = tokens, .n = (int)n, .best = (int)*kept + WORTH_LOADING - 1};
        if (!th_folder_list(st->dir, consider, &hunt, err)) return false;
        if (!hunt.name[0]) return true;
        Err why = {0};
        bool ok = load_best(st, s, &hunt, &why);
        *kept = th_session_reusable(s, tokens, n);
        if (ok) return true;
        th_log(&st->engine->options.log, THIMBLE_LOG_WARN, "%s/%s is removed: %s", st->dir, hunt.name, why.message);
        if (!th_folder_remove(st->dir, hunt.name)) return true; /* else it would be found again */
    }
    return true;
}

/* ---- keeping
 * --------------------------------------------------------------------------------------------------------- */

typedef struct Census {
    uint64_t bytes;
    double lowest;
    const char *sought; /* a name */
    double sought_when;
    bool found;
    char worst[NAME_BYTES];
} Census;

static bool count_file(void *arg, const char *name, uint64_t bytes, double when) {
    Census *c = arg;
    int n_tokens;
    if (!read_name(name, &n_tokens)) return true;
    double score = th_store_score(when, n_tokens, bytes);
    if (!c->worst[0] || score < c->lowest) {
        c->lowest = score;
        snprintf(c->worst, sizeof c->worst, "%s", name);
    }
    c->bytes += bytes;
    if (strcmp(name, c->sought) == 0) c->found = true, c->sought_when = when;
    return true;
}

/* Until `bytes` more are within the bound. True with c->found: it is there already. */
static bool make_room(Store *st, uint64_t bytes, const char *name, Census *c, Err *err) {
    for (;;) {
        *c = (Census){.sought = name};
        if (!th_folder_list(st->dir, count_file, c, err)) return false;
        if (c->found || c->bytes <= st->most_bytes - bytes || !c->worst[0]) return true;
        if (!th_folder_remove(st->dir, c->worst))
            return th_fail(err, THIMBLE_E_IO, "%s/%s cannot be removed to make room", st->dir, c->worst);
    }
}

bool th_store_open(Store *st, Engine *e, const char *dir, uint64_t most_bytes, Err *err) {
    *st = (Store){.engine = e, .most_bytes = most_bytes};
    if (strlen(dir) >= sizeof st->dir || dir[0] == 0)
        return th_fail(err, THIMBLE_E_ARG, "\"%.80s\" is no path of a folder", dir);
    snprintf(st->dir, sizeof st->dir, "%s", dir);
    if (!th_folder_make(st->dir, err)) return false;
    int n = th_outfile_sweep(st->dir);
    if (n > 0) th_log(&e->options.log, THIMBLE_LOG_NOTICE, "%s: removed %d unfinished files of a crash", st->dir, n);
    Census census;
    return make_room(st, 0, "", &census, err); /* it may have been larger once */
}

/* A file that lost its header would never be loaded, and its name would be taken for ever. */
static bool is_sound(Store *st, Session *s, const char *name) {
    File f;
    SnapshotHeader h;
    if (!open_snapshot(st, name, &f, NULL)) return false;
    bool ok = read_header(st, s, &f, &h);
    th_file_close(&f);
    return ok;
}

bool th_store_keep(Store *st, Session *s, bool *stored, Err *err) {
    SnapshotHeader h;
    Census census;
    char name[NAME_BYTES], path[1000];
    *stored = false;
    if (s->length < WORTH_KEEPING) return true;
    if (!th_snapshot_describe(s, &h, err)) return false;
    if (h.total_bytes > st->most_bytes) {
        th_log(&st->engine->options.log, THIMBLE_LOG_NOTICE,
               "%s: %llu bytes for %d tokens are more than the store may hold", st->dir,
               (unsigned long long)h.total_bytes, h.n_tokens);
        return true;
    }
    make_name(name, &h);
    if (!make_room(st, h.total_bytes, name, &census, err)) return false;
    if (census.found && is_sound(st, s, name)) {
        note_use(st, name, census.sought_when);
        *stored = true;
        return true;
    }
    snprintf(path, sizeof path, "%s/%s", st->dir, name);
    /* Not synced: a cache that a power cut tears is found out by its checksum. */
    return *stored = th_snapshot_save_file(s, path, false, err);
}

/* ---- by text
 * --------------------------------------------------------------------------------------------------------- */

typedef struct TextHunt {
    Store *store;
    Session *s;
    Str text;
    uint64_t best;
    char name[NAME_BYTES];
} TextHunt;

static bool consider_text(void *arg, const char *name, uint64_t bytes, double when) {
    (void)when, (void)bytes;
    TextHunt *hunt = arg;
    File f;
    SnapshotHeader h;
    int n_tokens;
    if (!read_name(name, &n_tokens) || !open_snapshot(hunt->store, name, &f, NULL)) return true;
    if (read_header(hunt->store, hunt->s, &f, &h) && h.text_bytes > hunt->best && h.text_bytes <= hunt->text.len &&
        XXH3_64bits(hunt->text.data, (size_t)h.text_bytes) == h.text_hash) {
        hunt->best = h.text_bytes;
        snprintf(hunt->name, sizeof hunt->name, "%s", name);
    }
    th_file_close(&f);
    return true;
}

/* Do the tokens stand for exactly this text? The header only said so. */
static bool spells(const Vocab *v, const int32_t *tokens, size_t n, Str text) {
    char bytes[SNAPSHOT_TOKEN_BYTES];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] >= v->n) return false;
        size_t len = th_min_size(th_token_bytes(v, tokens[i], true, bytes, sizeof bytes), sizeof bytes);
        if (len > text.len - at || memcmp(bytes, text.data + at, len) != 0) return false;
        at += len;
    }
    return at == text.len;
}

bool th_store_match(Store *st, Session *s, Str text, int32_t *tokens, size_t cap, size_t *n, size_t *bytes, Err *err) {
    TextHunt hunt = {.store = st, .s = s, .text = text};
    SnapshotHeader h;
    File f;
    *n = *bytes = 0;
    if (!st->engine->has_vocab || text.len == 0) return true;
    if (!th_folder_list(st->dir, consider_text, &hunt, err)) return false;
    if (!hunt.name[0] || !open_snapshot(st, hunt.name, &f, NULL)) return true;
    if (read_header(st, s, &f, &h)) {
        size_t all = (size_t)h.n_tokens;
        bool fits = all <= cap;
        if (fits && th_file_read(&f, tokens, all * sizeof *tokens, th_snapshot_tokens_at(&h), NULL) &&
            spells(&st->engine->vocab, tokens, all, (Str){text.data, (size_t)h.text_bytes}))
            *n = all, *bytes = (size_t)h.text_bytes;
        if (!fits) *n = all;
    }
    th_file_close(&f);
    return true;
}
