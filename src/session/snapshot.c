/* snapshot.c: see snapshot.h. Nothing is staged: bytes go from where they lie to the caller and back, so that saving
 * and loading take no memory beyond what the plan gave the session. */
#include "session/snapshot.h"

#include <limits.h>
#include <stdio.h>

#define XXH_STATIC_LINKING_ONLY /* the state on the stack */
#include <xxhash.h>

#include "os/outfile.h"

enum { SMALL_CHUNK = 4096, SAMPLE = 256, LARGE_CHUNK = 1 << 20 };
static const char MAGIC[8] = {'T', 'H', 'M', 'B', 'S', 'E', 'S', 'S'};

/* ---- what a snapshot is bound to ------------------------------------------------------------------------------------
 */

/* Everything before the data of a shard, and its size. */
static bool hash_shard(const Gguf *g, uint32_t shard, XXH3_state_t *sum, Err *err) {
    const File *f = &g->files[shard];
    uint64_t end = f->size;
    char chunk[SMALL_CHUNK * 4];
    for (size_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].shard == shard && g->tensors[i].offset < end) end = g->tensors[i].offset;
    XXH3_128bits_update(sum, &f->size, sizeof f->size);
    for (uint64_t at = 0; at < end;) {
        size_t n = th_min_size(sizeof chunk, (size_t)(end - at));
        if (!th_file_read(f, chunk, n, at, err)) return false;
        XXH3_128bits_update(sum, chunk, n);
        at += n;
    }
    return true;
}

/* The middle of each tensor: files of one exporter may differ in nothing but their values. */
static bool hash_samples(const Gguf *g, uint32_t shard, XXH3_state_t *sum, Err *err) {
    char sample[SAMPLE];
    for (size_t i = 0; i < g->n_tensors; i++) {
        const GgufTensor *t = &g->tensors[i];
        size_t n = th_min_size(sizeof sample, (size_t)t->bytes);
        if (t->shard != shard || n == 0) continue;
        if (!th_file_read(&g->files[shard], sample, n, t->offset + (t->bytes - n) / 2, err)) return false;
        XXH3_128bits_update(sum, sample, n);
    }
    return true;
}

/* What else the numbers of a state depend on. The frequencies stand for all rules of positions and context. */
static uint64_t hash_rules(const Model *m) {
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    for (int i = 0; i < m->n_ropes; i++) {
        const Rope *r = &m->rope[i];
        XXH3_64bits_update(&sum, &r->kind, sizeof r->kind);
        XXH3_64bits_update(&sum, &r->magnitude, sizeof r->magnitude);
        XXH3_64bits_update(&sum, r->sections, sizeof r->sections);
        XXH3_64bits_update(&sum, r->freq, (size_t)(r->dims / 2) * sizeof *r->freq);
    }
    XXH3_64bits_update(&sum, &m->options.experts, sizeof m->options.experts);
    XXH3_64bits_update(&sum, &m->options.route_bias, sizeof m->options.route_bias);
    return XXH3_64bits_digest(&sum);
}

/* Read once, when the first snapshot asks: megabytes where the vocabulary is large, a page of each tensor. */
static bool identify(Engine *e, Err *err) {
    bool ok = true;
    pthread_mutex_lock(&e->lock);
    if (!e->has_identity) {
        XXH3_state_t sum;
        XXH3_128bits_reset(&sum);
        for (uint32_t i = 0; ok && i < e->gguf.n_shards; i++)
            ok = hash_shard(&e->gguf, i, &sum, err) && hash_samples(&e->gguf, i, &sum, err);
        XXH128_hash_t hash = XXH3_128bits_digest(&sum);
        e->identity[0] = hash.low64, e->identity[1] = hash.high64;
        e->rules = hash_rules(&e->model);
        e->has_identity = ok;
    }
    pthread_mutex_unlock(&e->lock);
    return ok;
}

/* ---- sizes ----------------------------------------------------------------------------------------------------------
 */

/* In range: every size is of memory that exists or of a header whose counts were compared with the session. */
static uint64_t logits_bytes(const SnapshotHeader *h) { return (uint64_t)h->n_vocab * sizeof(float); }

static uint64_t point_bytes(const SnapshotHeader *h, const SnapshotPoint *p) {
    return h->memory_bytes + (p->flags & POINT_LOGITS ? logits_bytes(h) : 0);
}

static uint64_t total_bytes(const SnapshotHeader *h, const SnapshotPoint *points) {
    uint64_t bytes =
        th_snapshot_tokens_at(h) + (uint64_t)h->n_tokens * sizeof(int32_t) + h->cache_bytes + h->memory_bytes;
    if (h->has_logits) bytes += logits_bytes(h);
    for (uint32_t i = 0; i < h->n_checkpoints; i++) bytes += point_bytes(h, &points[i]);
    return bytes + sizeof(uint64_t);
}

uint64_t th_snapshot_token_hash(const int32_t *tokens, size_t n) { return XXH3_64bits(tokens, n * sizeof *tokens); }

/* ---- saving ---------------------------------------------------------------------------------------------------------
 */

/* A few of the session's checkpoints, spread over it, ascending: each takes as much as the memory itself. */
static uint32_t choose_points(const Session *s, SnapshotPoint *points, const char **memory) {
    const Checkpoints *c = &s->checkpoints;
    int order[MOST_CHECKPOINTS] = {0}, n = 0;
    for (int i = 0; i < c->n; i++) {
        int at = c->slot[i].position, k = n;
        if (at == 0 || at >= s->length) continue;
        for (; k > 0 && c->slot[order[k - 1]].position > at; k--) order[k] = order[k - 1];
        order[k] = i;
        n++;
    }
    uint32_t used = (uint32_t)th_min_int(n, SNAPSHOT_MOST_CHECKPOINTS);
    for (uint32_t k = 0; k < used; k++) {
        int i = order[used > 1 ? (int)k * (n - 1) / (int)(used - 1) : n - 1];
        points[k] = (SnapshotPoint){.position = c->slot[i].position,
                                    .flags = (uint32_t)c->slot[i].kinds | (c->slot[i].has_logits ? POINT_LOGITS : 0)};
        memory[k] = th_checkpoints_memory(c, i);
    }
    return used;
}

static void hash_text(const Session *s, SnapshotHeader *h) {
    const Engine *e = s->engine;
    char bytes[SNAPSHOT_TOKEN_BYTES];
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    for (int i = 0; e->has_vocab && i < s->length; i++) {
        if (s->tokens[i] >= e->vocab.n) continue;
        size_t n = th_min_size(th_token_bytes(&e->vocab, s->tokens[i], true, bytes, sizeof bytes), sizeof bytes);
        XXH3_64bits_update(&sum, bytes, n);
        h->text_bytes += n;
    }
    h->text_hash = XXH3_64bits_digest(&sum);
}

static bool describe(Session *s, SnapshotHeader *h, SnapshotPoint *points, const char **memory, Err *err) {
    Engine *e = s->engine;
    if (s->length == 0) return th_fail(err, THIMBLE_E_STATE, "there is nothing to save: no token was evaluated");
    if (!th_state_intact(&s->state))
        return th_fail(err, THIMBLE_E_STATE, "a failed pass spoilt the session's memory: sync it before saving it");
    if (!identify(e, err)) return false;
    *h = (SnapshotHeader){.version = SNAPSHOT_VERSION,
                          .header_bytes = sizeof *h,
                          .model = {e->identity[0], e->identity[1]},
                          .rules = e->rules,
                          .cache_type = (uint32_t)s->state.cache_type,
                          .state_type = (uint32_t)s->state.state_type,
                          .isa = e->model.options.isa,
                          .n_tokens = s->length,
                          .n_vocab = e->model.hp.n_vocab,
                          .has_logits = s->has_logits,
                          .cache_bytes = th_state_pieces_bytes(&s->state, s->length),
                          .memory_bytes = s->state.slot_bytes,
                          .token_hash = th_snapshot_token_hash(s->tokens, (size_t)s->length)};
    memcpy(h->magic, MAGIC, sizeof h->magic);
    snprintf(h->architecture, sizeof h->architecture, "%.31s", e->architecture);
    h->n_checkpoints = choose_points(s, points, memory);
    h->total_bytes = total_bytes(h, points);
    return true;
}

bool th_snapshot_describe(Session *s, SnapshotHeader *h, Err *err) {
    SnapshotPoint points[SNAPSHOT_MOST_CHECKPOINTS];
    const char *memory[SNAPSHOT_MOST_CHECKPOINTS];
    return describe(s, h, points, memory, err);
}

bool th_snapshot_bytes(const Session *s, uint64_t *bytes, Err *err) {
    SnapshotPoint points[SNAPSHOT_MOST_CHECKPOINTS];
    const char *memory[SNAPSHOT_MOST_CHECKPOINTS];
    SnapshotHeader h = {.n_tokens = s->length, .n_vocab = s->engine->model.hp.n_vocab, .has_logits = s->has_logits};
    if (s->length == 0) return th_fail(err, THIMBLE_E_STATE, "there is nothing to save: no token was evaluated");
    h.cache_bytes = th_state_pieces_bytes(&s->state, s->length);
    h.memory_bytes = s->state.slot_bytes;
    h.n_checkpoints = choose_points(s, points, memory);
    *bytes = total_bytes(&h, points);
    return true;
}

typedef struct Sink {
    XXH3_state_t sum; /* first: it is aligned to 64 bytes */
    SnapshotWriteFn fn;
    void *arg;
    Err *err;
} Sink;

static bool put(void *sink, char *data, size_t bytes) {
    Sink *out = sink;
    XXH3_64bits_update(&out->sum, data, bytes);
    return bytes == 0 || out->fn(out->arg, data, bytes, out->err);
}

static bool put_const(Sink *out, const void *data, size_t bytes) {
    XXH3_64bits_update(&out->sum, data, bytes);
    return bytes == 0 || out->fn(out->arg, data, bytes, out->err);
}

static bool put_memories(Sink *out, const Session *s, const SnapshotHeader *h, const SnapshotPoint *points,
                         const char *const *memory) {
    if (h->memory_bytes > 0 && !put_const(out, th_state_recurrent(&s->state), (size_t)h->memory_bytes)) return false;
    for (uint32_t i = 0; i < h->n_checkpoints; i++) {
        if (!put_const(out, memory[i], (size_t)h->memory_bytes)) return false;
        if (points[i].flags & POINT_LOGITS &&
            !put_const(out, memory[i] + s->checkpoints.logits_at, (size_t)logits_bytes(h)))
            return false;
    }
    return true;
}

bool th_snapshot_save(Session *s, SnapshotWriteFn fn, void *arg, Err *err) {
    SnapshotHeader h = {0};
    SnapshotPoint points[SNAPSHOT_MOST_CHECKPOINTS] = {0};
    const char *memory[SNAPSHOT_MOST_CHECKPOINTS] = {NULL};
    Sink out = {.fn = fn, .arg = arg, .err = err};
    XXH3_64bits_reset(&out.sum);
    if (!describe(s, &h, points, memory, err)) return false;
    hash_text(s, &h);
    h.checksum = XXH3_64bits(&h, offsetof(SnapshotHeader, checksum));
    bool ok = put_const(&out, &h, sizeof h) && put_const(&out, points, h.n_checkpoints * sizeof *points) &&
              put_const(&out, s->tokens, (size_t)h.n_tokens * sizeof *s->tokens) &&
              (!h.has_logits || put_const(&out, s->logits, (size_t)logits_bytes(&h))) &&
              th_state_pieces(&s->state, s->length, put, &out) && put_memories(&out, s, &h, points, memory);
    uint64_t checksum = XXH3_64bits_digest(&out.sum);
    return ok && fn(arg, &checksum, sizeof checksum, err);
}

/* ---- judging --------------------------------------------------------------------------------------------------------
 */

static bool other_model(const SnapshotHeader *h, Err *err) {
    char name[4 * sizeof h->architecture + 1];
    th_str_escape((Str){h->architecture, strnlen(h->architecture, sizeof h->architecture)}, name, sizeof name);
    return th_fail(err, THIMBLE_E_STATE, "the snapshot belongs to another model (%s)", name);
}

static bool check_binding(Session *s, const SnapshotHeader *h, Err *err) {
    Engine *e = s->engine;
    static const char *const cache[] = {"f16", "f32", "q8_0"}, *const memory[] = {"f32", "f16"};
    if (!identify(e, err)) return false;
    if (h->model[0] != e->identity[0] || h->model[1] != e->identity[1] || h->n_vocab != e->model.hp.n_vocab)
        return other_model(h, err);
    if (h->state_type >= TH_COUNT(memory) || h->state_type != (uint32_t)s->state.state_type)
        return th_fail(err, THIMBLE_E_STATE, "the snapshot has recurrent memory of %s, the session of %s",
                       h->state_type < TH_COUNT(memory) ? memory[h->state_type] : "an unknown type",
                       memory[s->state.state_type]);
    if (h->memory_bytes != s->state.slot_bytes) return other_model(h, err);
    if (h->cache_type >= TH_COUNT(cache) || h->cache_type != (uint32_t)s->state.cache_type)
        return th_fail(err, THIMBLE_E_STATE, "the snapshot has a cache of %s, the session one of %s",
                       h->cache_type < TH_COUNT(cache) ? cache[h->cache_type] : "an unknown type",
                       cache[s->state.cache_type]);
    if (h->rules != e->rules)
        return th_fail(err, THIMBLE_E_STATE,
                       "the snapshot was made with other rules for positions, or other lossy options");
    if (h->n_tokens > s->state.context)
        return th_fail(err, THIMBLE_E_CONTEXT_FULL, "the %d tokens of the snapshot do not fit a context of %d",
                       h->n_tokens, s->state.context);
    return true;
}

bool th_snapshot_header(Session *s, SnapshotReadFn fn, void *arg, uint64_t bytes, SnapshotHeader *h, Err *err) {
    if (bytes < sizeof *h + sizeof(uint64_t))
        return th_fail(err, THIMBLE_E_FORMAT, "no snapshot of a session: it has %llu bytes", (unsigned long long)bytes);
    if (!fn(arg, 0, h, sizeof *h, err)) return false;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return th_fail(err, THIMBLE_E_FORMAT, "no snapshot of a session: it begins otherwise");
    if (h->version != SNAPSHOT_VERSION)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "a snapshot of version %u; this program reads version %d",
                       h->version, SNAPSHOT_VERSION);
    if (h->header_bytes != sizeof *h || h->checksum != XXH3_64bits(h, offsetof(SnapshotHeader, checksum)))
        return th_fail(err, THIMBLE_E_FORMAT, "the snapshot is damaged: its header has another checksum");
    if (h->total_bytes != bytes)
        return th_fail(err, THIMBLE_E_FORMAT, "the snapshot is damaged: %llu bytes of %llu", (unsigned long long)bytes,
                       (unsigned long long)h->total_bytes);
    if (!check_binding(s, h, err)) return false;
    if (h->n_tokens < 1 || h->has_logits > 1 || h->n_checkpoints > SNAPSHOT_MOST_CHECKPOINTS || h->unused[0] ||
        h->unused[1] || h->unused[2] || (h->n_checkpoints > 0 && h->memory_bytes == 0) ||
        h->cache_bytes != th_state_pieces_bytes(&s->state, h->n_tokens))
        return th_fail(err, THIMBLE_E_FORMAT, "the snapshot is damaged: its header makes no sense");
    return true;
}

static bool check_points(const SnapshotHeader *h, const SnapshotPoint *points, Err *err) {
    int before = 0;
    const uint32_t known = CHECKPOINT_ALIGNED | CHECKPOINT_TURN | POINT_LOGITS;
    for (uint32_t i = 0; i < h->n_checkpoints; before = points[i++].position)
        if (points[i].position <= before || points[i].position >= h->n_tokens || points[i].flags & ~known)
            return th_fail(err, THIMBLE_E_FORMAT, "the snapshot is damaged: its table of checkpoints makes no sense");
    if (h->total_bytes == total_bytes(h, points)) return true;
    return th_fail(err, THIMBLE_E_FORMAT, "the snapshot is damaged: its sizes do not add up");
}

/* Reading in order, with the sum of what was read. */
typedef struct Source {
    XXH3_state_t sum; /* first: it is aligned to 64 bytes */
    SnapshotReadFn fn;
    void *arg;
    uint64_t at;
    char *chunk; /* for what goes nowhere */
    size_t chunk_bytes;
    Err *err;
} Source;

static bool take(void *source, char *to, size_t bytes) {
    Source *in = source;
    if (bytes == 0) return true;
    if (!in->fn(in->arg, in->at, to, bytes, in->err)) return false;
    XXH3_64bits_update(&in->sum, to, bytes);
    in->at += bytes;
    return true;
}

static bool skip(Source *in, uint64_t bytes) {
    while (bytes > 0) {
        size_t n = th_min_size(in->chunk_bytes, (size_t)bytes);
        if (!take(in, in->chunk, n)) return false;
        bytes -= n;
    }
    return true;
}

static bool ends_well(Source *in) {
    uint64_t want = XXH3_64bits_digest(&in->sum), got;
    if (!in->fn(in->arg, in->at, &got, sizeof got, in->err)) return false;
    return got == want || th_fail(in->err, THIMBLE_E_FORMAT, "the snapshot is damaged: it has another checksum");
}

static bool check_tokens(Source *in, const SnapshotHeader *h) {
    size_t left = (size_t)h->n_tokens;
    XXH3_state_t sum;
    XXH3_64bits_reset(&sum);
    while (left > 0) {
        size_t n = th_min_size(in->chunk_bytes / sizeof(int32_t), left);
        const int32_t *tokens = (const int32_t *)(const void *)in->chunk;
        if (!take(in, in->chunk, n * sizeof *tokens)) return false;
        for (size_t i = 0; i < n; i++)
            if (tokens[i] < 0 || tokens[i] >= h->n_vocab)
                return th_fail(in->err, THIMBLE_E_FORMAT, "the snapshot is damaged: token %d is not in 0..%d",
                               tokens[i], h->n_vocab - 1);
        XXH3_64bits_update(&sum, tokens, n * sizeof *tokens);
        left -= n;
    }
    return XXH3_64bits_digest(&sum) == h->token_hash ||
           th_fail(in->err, THIMBLE_E_FORMAT, "the snapshot is damaged: its tokens have another checksum");
}

static void rewound(Source *in) {
    in->at = 0;
    XXH3_64bits_reset(&in->sum);
}

/* All of it, without touching the session. */
static bool judge(Source *in, const SnapshotHeader *h, SnapshotPoint *points) {
    SnapshotHeader again;
    rewound(in);
    return take(in, (char *)&again, sizeof again) && take(in, (char *)points, h->n_checkpoints * sizeof *points) &&
           check_points(h, points, in->err) && check_tokens(in, h) &&
           skip(in, h->total_bytes - sizeof(uint64_t) - in->at) && ends_well(in);
}

/* ---- loading --------------------------------------------------------------------------------------------------------
 */

static bool fill_checkpoints(Session *s, Source *in, const SnapshotHeader *h, const SnapshotPoint *points, int wanted) {
    for (uint32_t i = 0; i < h->n_checkpoints; i++) {
        bool has_logits = points[i].flags & POINT_LOGITS;
        int kinds = (int)points[i].flags & (CHECKPOINT_ALIGNED | CHECKPOINT_TURN);
        Checkpoints *c = &s->checkpoints;
        int at = points[i].position;
        char *to = at <= wanted ? th_checkpoints_place(c, at, kinds, has_logits) : NULL;
        /* Aligned to another step: then it counts as a turn. */
        if (!to && at <= wanted) to = th_checkpoints_place(c, at, CHECKPOINT_TURN, has_logits);
        if (!to && !skip(in, point_bytes(h, &points[i]))) return false;
        if (to && !take(in, to, (size_t)h->memory_bytes)) return false;
        if (to && has_logits && !take(in, to + s->checkpoints.logits_at, (size_t)logits_bytes(h))) return false;
    }
    return true;
}

static bool fill(Session *s, Source *in, const SnapshotHeader *h, const SnapshotPoint *points, int wanted) {
    rewound(in);
    if (!skip(in, th_snapshot_tokens_at(h)) || !take(in, (char *)s->tokens, (size_t)h->n_tokens * sizeof *s->tokens) ||
        (h->has_logits && !take(in, (char *)s->logits, (size_t)logits_bytes(h))) ||
        !th_state_pieces(&s->state, h->n_tokens, take, in))
        return false;
    th_state_restored(&s->state, h->n_tokens);
    if (h->memory_bytes > 0 && !take(in, th_state_recurrent(&s->state), (size_t)h->memory_bytes)) return false;
    return fill_checkpoints(s, in, h, points, wanted) && ends_well(in);
}

static void make_empty(Session *s) {
    th_state_rewind(&s->state, 0);
    th_checkpoints_cut(&s->checkpoints, 0);
    s->length = s->hidden_at = s->foresight_at = 0; /* a draft head waits for the trunk's next pass */
    s->has_logits = s->has_pending = false;
}

bool th_snapshot_load(Session *s, SnapshotReadFn fn, void *arg, uint64_t bytes, int wanted, Err *err) {
    SnapshotHeader h = {0};
    SnapshotPoint points[SNAPSHOT_MOST_CHECKPOINTS] = {0};
    _Alignas(16) char small[SMALL_CHUNK];
    Source in = {.fn = fn, .arg = arg, .chunk = small, .chunk_bytes = sizeof small, .err = err};
    /* The sampler's scratch is free now, and large where vocabularies are. */
    size_t large = (size_t)s->engine->model.hp.n_vocab * sizeof(Candidate) / SMALL_CHUNK * SMALL_CHUNK;
    if (large > sizeof small) in.chunk = s->candidates, in.chunk_bytes = th_min_size(large, LARGE_CHUNK);
    if (!th_snapshot_header(s, fn, arg, bytes, &h, err) || !judge(&in, &h, points)) return false;
    make_empty(s);
    if (!fill(s, &in, &h, points, wanted)) {
        make_empty(s);
        return th_err_prefix(err, "the snapshot changed while it was read, the session is empty: ");
    }
    s->length = h.n_tokens;
    s->has_logits = h.has_logits;
    /* Talks come back to where they were loaded. */
    if (wanted >= s->length)
        th_checkpoints_take(&s->checkpoints, &s->state, CHECKPOINT_TURN, s->has_logits ? s->logits : NULL);
    return true;
}

/* ---- files ----------------------------------------------------------------------------------------------------------
 */

static bool write_to_file(void *file, const void *data, size_t bytes, Err *err) {
    return th_outfile_write(file, data, bytes, err);
}

static bool read_from_file(void *file, uint64_t offset, void *data, size_t bytes, Err *err) {
    return th_file_read(file, data, bytes, offset, err);
}

bool th_snapshot_save_file(Session *s, const char *path, bool durable, Err *err) {
    OutFile out;
    uint64_t bytes = 0;
    if (!th_snapshot_bytes(s, &bytes, err) || !th_outfile_open(&out, path, bytes, err)) return false;
    if (th_snapshot_save(s, write_to_file, &out, err)) return th_outfile_commit(&out, durable, err);
    th_outfile_abort(&out);
    return false;
}

bool th_snapshot_load_file(Session *s, const char *path, Err *err) {
    File f;
    if (!th_file_open(&f, path, err)) return false;
    bool ok = th_snapshot_load(s, read_from_file, &f, f.size, INT_MAX, err) || th_err_prefix(err, "%s: ", path);
    th_file_close(&f);
    return ok;
}
