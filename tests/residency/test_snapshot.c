/* test_snapshot.c: what is saved comes back with the same bits under any settings, and nothing else comes back: every
 * damaged, cut, foreign or forged snapshot is refused with the session as it was. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/random_model.h"
#include "common/scratch.h"
#include "quant/type.h"
#include "thimble/thimble.h"

/* Where the fields of a header lie: the format is fixed, so is this. */
enum {
    HEADER = 168,
    AT_VERSION = 8,
    AT_TOTAL = 16,
    AT_CACHE_TYPE = 48 + 0,
    AT_ISA = 52,
    AT_TOKENS = 56,
    AT_VOCAB = 60,
    AT_LOGITS = 64,
    AT_POINTS = 68,
    AT_CACHE_BYTES = 72,
    AT_MEMORY_BYTES = 80,
    AT_TOKEN_HASH = 88,
    AT_TEXT = 96,
    AT_ARCHITECTURE = 112,
    AT_STATE_TYPE = 144,
    AT_UNUSED = 148,
    AT_CHECKSUM = 160
};
enum { MORE = 6, MAX_LENGTH = 400 };

static Scratch dir;
static int state_type; /* THIMBLE_STATE_* */

typedef struct Blob {
    unsigned char *data;
    size_t bytes, cap;
} Blob;

static int write_blob(void *arg, const void *data, size_t bytes) {
    Blob *b = arg;
    if (b->bytes + bytes > b->cap) b->data = realloc(b->data, b->cap = 2 * (b->bytes + bytes));
    assert_non_null(b->data);
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return 0;
}

static int read_blob(void *arg, uint64_t offset, void *data, size_t bytes) {
    const Blob *b = arg;
    if (offset > b->bytes || bytes > b->bytes - offset) return 1;
    memcpy(data, b->data + offset, bytes);
    return 0;
}

static void free_blob(Blob *b) {
    free(b->data);
    *b = (Blob){0};
}

typedef struct Talk {
    ThimbleModel *m;
    ThimbleSession *s;
    size_t n_vocab;
} Talk;

static Talk open_talk(const char *path, const ThimbleModelOptions *o) {
    Talk t = {0};
    ThimbleError e = {0};
    if (thimble_model_open(&t.m, path, o, &e) != THIMBLE_OK || thimble_session_open(&t.s, t.m, NULL, &e) != THIMBLE_OK)
        fail_msg("%s: %s", path, e.message);
    t.n_vocab = (size_t)thimble_model_info(t.m)->n_vocab;
    return t;
}

static void close_talk(Talk *t) {
    thimble_session_close(t->s);
    thimble_model_close(t->m);
}

static ThimbleModelOptions options(int context, int cache_type) {
    ThimbleModelOptions o;
    thimble_model_options_init(&o);
    o.context = context, o.cache_type = cache_type, o.threads = 1, o.checkpoints = -1;
    o.state_type = state_type;
    return o;
}

static int32_t token_at(const Talk *t, int i) {
    return (int32_t)((uint32_t)(i * 7919 + i / 5 * 31) % (uint32_t)t->n_vocab);
}

static void sync_to(Talk *t, int n) {
    int32_t tokens[MAX_LENGTH];
    ThimbleError e = {0};
    for (int i = 0; i < n; i++) tokens[i] = token_at(t, i);
    if (thimble_session_sync(t->s, tokens, (size_t)n, &e) != THIMBLE_OK) fail_msg("sync: %s", e.message);
}

static Blob save(Talk *t) {
    Blob b = {0};
    ThimbleError e = {0};
    uint64_t announced = thimble_session_save_bytes(t->s);
    if (thimble_session_save(t->s, write_blob, &b, &e) != THIMBLE_OK) fail_msg("save: %s", e.message);
    assert_int_equal(b.bytes, announced);
    return b;
}

static int load(Talk *t, Blob *b, ThimbleError *e) { return thimble_session_load(t->s, read_blob, b, b->bytes, e); }

static void must_load(Talk *t, Blob *b) {
    ThimbleError e = {0};
    if (load(t, b, &e) != THIMBLE_OK) fail_msg("load: %s", e.message);
}

/* The next MORE rows of logits, the present ones first. */
static float *follow(Talk *t, int length) {
    float *rows = calloc((size_t)(MORE + 1) * t->n_vocab, sizeof *rows);
    ThimbleError e = {0};
    assert_non_null(rows);
    for (int i = 0; i <= MORE; i++) {
        const float *logits = thimble_session_logits(t->s, NULL);
        assert_non_null(logits);
        memcpy(rows + (size_t)i * t->n_vocab, logits, t->n_vocab * sizeof *rows);
        int32_t next = token_at(t, length + i);
        if (i < MORE && thimble_session_eval(t->s, &next, 1, &e) != THIMBLE_OK) fail_msg("%s", e.message);
    }
    return rows;
}

/* ---- there and back -------------------------------------------------------------------------------------------------
 */

static void compare_follow(Talk *t, int length, const float *want, const char *what) {
    float *got = follow(t, length);
    if (memcmp(got, want, (size_t)(MORE + 1) * t->n_vocab * sizeof *got) != 0) fail_msg("%s: other logits", what);
    free(got);
}

static void round_trip(const char *path, int length, int cache_type) {
    ThimbleModelOptions o = options(length + MORE + 2, cache_type);
    ThimbleError e = {0};
    Talk a = open_talk(path, &o);
    sync_to(&a, length);
    Blob b = save(&a), twice;
    float *want = follow(&a, length);
    must_load(&a, &b); /* a rollback */
    compare_follow(&a, length, want, path);
    close_talk(&a);
    for (int i = 0; i < 5; i++) {
        o = options(length + MORE + 2 + 50 * i, cache_type);
        o.threads = 1 + i % 2, o.batch = i == 0 ? 0 : 1 + 3 * i, o.checkpoints = i == 4 ? 3 : -1;
        o.home = i == 1 ? THIMBLE_HOME_STREAM : i == 2 ? THIMBLE_HOME_MAPPED : THIMBLE_HOME_AUTO;
        if (i >= 3) {
            ThimblePlan p = {.struct_size = sizeof p};
            o.budget = (uint64_t)1 << 40;
            assert_int_equal(thimble_plan(path, &o, &p, &e), THIMBLE_OK);
            o.budget = p.floor;
        }
        Talk t = open_talk(path, &o);
        if (i % 2) sync_to(&t, 1 + length / 2); /* something to be overwritten */
        must_load(&t, &b);
        assert_int_equal(thimble_session_length(t.s), length);
        for (int k = 0; k < length; k++) assert_int_equal(thimble_session_tokens(t.s)[k], token_at(&t, k));
        twice = save(&t);
        assert_int_equal(twice.bytes, b.bytes);
        assert_memory_equal(twice.data, b.data, b.bytes);
        free_blob(&twice);
        compare_follow(&t, length, want, path);
        /* And back to half of it and on again, however the memory does that. */
        sync_to(&t, length / 2 + 1);
        sync_to(&t, length);
        compare_follow(&t, length, want, path);
        close_talk(&t);
    }
    free(want);
    free_blob(&b);
}

static const char *write_model(const RandomModel *m, const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s", th_scratch_path(&dir, name));
    random_model_write(m, path);
    return path;
}

static RandomModel dense(void) {
    RandomModel m = RANDOM_MODEL;
    m.arch = "llama", m.head_size = 32, m.vocab = 700;
    return m;
}

static RandomModel hybrid(void) { /* latent attention and recurrent memory */
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 3, m.dim = 64, m.heads = 2, m.head_size = 24, m.rope_dims = 8, m.latent = 24;
    m.latent_every = 3, m.kda_head = 16, m.experts = 8, m.experts_used = 2, m.groups = 2, m.expert_ff = 32;
    m.shared_ff = 32, m.dense_lead = 1, m.vocab = 96;
    return m;
}

static void dense_models(void **state) {
    (void)state;
    RandomModel m = dense();
    const char *path = write_model(&m, "dense.gguf");
    round_trip(path, 300, THIMBLE_CACHE_F16);
    round_trip(path, 40, THIMBLE_CACHE_F32);
    round_trip(path, 40, THIMBLE_CACHE_Q8_0);
    round_trip(path, 1, THIMBLE_CACHE_F16);
}

static void rings(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "gemma3", m.layers = 7, m.qk_norm = m.post_norms = m.tied = true, m.window = 24, m.vocab = 96;
    const char *path = write_model(&m, "window.gguf");
    round_trip(path, 10, THIMBLE_CACHE_F16);
    round_trip(path, 24, THIMBLE_CACHE_F16);
    round_trip(path, 25, THIMBLE_CACHE_F32);
    round_trip(path, 130, THIMBLE_CACHE_F16);
}

static void experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen2moe", m.biases = true, m.experts = 8, m.experts_used = 2, m.expert_ff = 32, m.shared_ff = 32;
    m.vocab = 96;
    round_trip(write_model(&m, "moe.gguf"), 50, THIMBLE_CACHE_F16);
}

static void latent_and_recurrent(void **state) {
    (void)state;
    RandomModel m = hybrid();
    round_trip(write_model(&m, "hybrid.gguf"), 60, THIMBLE_CACHE_F32);
    m = RANDOM_MODEL;
    m.arch = "deepseek2", m.layers = 2, m.dim = 64, m.heads = 4, m.head_size = 24, m.rope_dims = 8, m.latent = 24;
    m.vocab = 96;
    round_trip(write_model(&m, "latent.gguf"), 45, THIMBLE_CACHE_F16);
}

/* Every architecture that has a tiny model. */
static void golden_models(void **state) {
    (void)state;
    DIR *d = opendir("tests/golden");
    int n = 0;
    if (!d) skip();
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        size_t len = strlen(e->d_name);
        if (!strncmp(e->d_name, "longrope", 8)) continue; /* their positions depend on the context: see below */
        if (len < 6 || strcmp(e->d_name + len - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "tests/golden/%s", e->d_name);
        round_trip(path, 30, THIMBLE_CACHE_F32);
        n++;
    }
    closedir(d);
    assert_true(n > 5);
}

/* Where the context decides how positions are turned, a snapshot belongs to one side of the border. */
static void context_rules(void **state) {
    (void)state;
    ThimbleError e = {0};
    ThimbleModelOptions o = options(20, THIMBLE_CACHE_F32);
    int codes[2] = {0};
    if (access("tests/golden/longrope_long.gguf", R_OK) != 0) skip();
    Talk t = open_talk("tests/golden/longrope_long.gguf", &o);
    sync_to(&t, 10);
    Blob b = save(&t);
    close_talk(&t);
    for (int i = 0; i < 2; i++) {
        o = options(i == 0 ? 21 : 128, THIMBLE_CACHE_F32);
        t = open_talk("tests/golden/longrope_long.gguf", &o);
        codes[i] = load(&t, &b, &e);
        close_talk(&t);
    }
    assert_int_equal(codes[0], THIMBLE_OK);
    assert_int_equal(codes[1], THIMBLE_E_STATE);
    free_blob(&b);
}

/* A window comes back without what was before it: going back below the snapshot starts over, never with wrong bits. */
static void rings_know_what_is_missing(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "gemma3", m.layers = 7, m.qk_norm = m.post_norms = m.tied = true, m.window = 24, m.vocab = 96;
    ThimbleModelOptions o = options(300, THIMBLE_CACHE_F32);
    ThimbleError e = {0};
    Talk t = open_talk(write_model(&m, "window.gguf"), &o);
    sync_to(&t, 100);
    Blob b = save(&t);
    assert_int_equal(thimble_session_rewind(t.s, 99, &e), THIMBLE_OK); /* still there before */
    must_load(&t, &b);
    assert_int_equal(thimble_session_rewind(t.s, 99, &e), THIMBLE_E_STATE);
    assert_int_equal(thimble_session_length(t.s), 100);
    sync_to(&t, 110);
    assert_int_equal(thimble_session_rewind(t.s, 100, &e), THIMBLE_OK); /* no further than that */
    assert_int_equal(thimble_session_rewind(t.s, 99, &e), THIMBLE_E_STATE);
    close_talk(&t);
    free_blob(&b);
}

/* ---- checkpoints travel along
 * ---------------------------------------------------------------------------------------- */

static void checkpoints_come_back(void **state) {
    (void)state;
    RandomModel m = hybrid();
    const char *path = write_model(&m, "hybrid.gguf");
    ThimbleModelOptions o = options(500, THIMBLE_CACHE_F32);
    ThimbleStats stats = {.struct_size = sizeof stats};
    o.checkpoints = 8, o.batch = 16;
    Talk t = open_talk(path, &o);
    sync_to(&t, 120); /* a turn's end, kept */
    sync_to(&t, 380);
    Blob b = save(&t);
    close_talk(&t);
    for (int i = 0; i < 4; i++) {
        static const int slots[] = {8, 2, 1, -1}, batches[] = {16, 100, 7, 16}, kept[] = {256, -1, -1, 0};
        o.checkpoints = slots[i], o.batch = batches[i];
        t = open_talk(path, &o);
        must_load(&t, &b);
        sync_to(&t, 300);
        thimble_session_stats(t.s, &stats);
        if (kept[i] >= 0) assert_int_equal(stats.cached_tokens, kept[i]); /* few slots: the end comes first */
        assert_int_equal(stats.prompt_tokens + stats.cached_tokens, 300);
        float *got = follow(&t, 300);
        close_talk(&t);
        o.checkpoints = -1;
        Talk fresh = open_talk(path, &o);
        sync_to(&fresh, 300);
        compare_follow(&fresh, 300, got, "from a checkpoint of a snapshot");
        close_talk(&fresh);
        free(got);
    }
    free_blob(&b);
}

/* What was loaded is itself a place to come back to. */
static void back_to_what_was_loaded(void **state) {
    (void)state;
    RandomModel m = hybrid();
    ThimbleModelOptions o = options(500, THIMBLE_CACHE_F32);
    ThimbleStats stats = {.struct_size = sizeof stats};
    o.checkpoints = 1, o.batch = 16;
    Talk t = open_talk(write_model(&m, "hybrid.gguf"), &o);
    sync_to(&t, 90);
    Blob b = save(&t);
    float *want = follow(&t, 90);
    close_talk(&t);
    t = open_talk(th_scratch_path(&dir, "hybrid.gguf"), &o);
    must_load(&t, &b);
    free(follow(&t, 90));
    sync_to(&t, 90);
    thimble_session_stats(t.s, &stats);
    assert_int_equal(stats.prompt_tokens, 0);
    compare_follow(&t, 90, want, "back to what was loaded");
    close_talk(&t);
    free(want);
    free_blob(&b);
}

/* ---- what is refused
 * ------------------------------------------------------------------------------------------------- */

static void repair(Blob *b) {
    if (b->bytes < HEADER + 8) return;
    uint64_t sum = XXH3_64bits(b->data, AT_CHECKSUM);
    memcpy(b->data + AT_CHECKSUM, &sum, 8);
    sum = XXH3_64bits(b->data, b->bytes - 8);
    memcpy(b->data + b->bytes - 8, &sum, 8);
}

/* A session with something in it that must survive. */
typedef struct Victim {
    Talk t;
    float *logits;
    Blob state; /* all of it: nothing may change */
    int length;
} Victim;

static Victim make_victim(const char *path, const ThimbleModelOptions *o) {
    Victim v = {.t = open_talk(path, o), .length = 33};
    sync_to(&v.t, v.length);
    v.state = save(&v.t);
    return v;
}

static void check_untouched(Victim *v, const char *what) {
    Blob now = save(&v->t);
    if (now.bytes != v->state.bytes || memcmp(now.data, v->state.data, now.bytes) != 0) fail_msg("%s: touched", what);
    free_blob(&now);
}

static void refuse(Victim *v, Blob *b, int code, const char *what) {
    ThimbleError e = {0};
    int got = load(&v->t, b, &e);
    if (got == THIMBLE_OK) fail_msg("%s: loaded", what);
    if (code && got != code) fail_msg("%s: code %d (%s)", what, got, e.message);
    assert_true(e.message[0] != 0);
    check_untouched(v, what);
}

static void close_victim(Victim *v) {
    close_talk(&v->t);
    free_blob(&v->state);
}

typedef struct Subject {
    Victim v;
    Blob good;
    char path[512];
} Subject;

static Subject open_subject(void) {
    Subject s = {0};
    RandomModel m = hybrid();
    ThimbleModelOptions o = options(300, THIMBLE_CACHE_F32);
    o.checkpoints = 6, o.batch = 16;
    snprintf(s.path, sizeof s.path, "%s", write_model(&m, "hybrid.gguf"));
    Talk t = open_talk(s.path, &o);
    sync_to(&t, 280);
    s.good = save(&t);
    close_talk(&t);
    s.v = make_victim(s.path, &o);
    return s;
}

static void close_subject(Subject *s) {
    close_victim(&s->v);
    free_blob(&s->good);
}

static void damaged_bytes(void **state) {
    (void)state;
    char what[64];
    Subject s = open_subject();
    size_t step = 1;
    for (size_t i = 0; i < s.good.bytes; i += step) {
        snprintf(what, sizeof what, "byte %zu", i);
        s.good.data[i] ^= (unsigned char)(1u << i % 8);
        refuse(&s.v, &s.good, 0, what);
        s.good.data[i] ^= (unsigned char)(1u << i % 8);
        if (i > HEADER + 64) step = s.good.bytes / 150 + 1;
    }
    s.good.data[s.good.bytes - 1] ^= 1;
    refuse(&s.v, &s.good, THIMBLE_E_FORMAT, "the last byte");
    close_subject(&s);
}

static void cut_anywhere(void **state) {
    (void)state;
    Subject s = open_subject();
    const size_t all = s.good.bytes, tokens = HEADER + 8;
    const size_t lengths[] = {0,
                              1,
                              7,
                              8,
                              100,
                              HEADER - 1,
                              HEADER,
                              HEADER + 7,
                              HEADER + 8,
                              tokens + 1,
                              tokens + 280 * 4,
                              tokens + 280 * 4 + 96 * 4,
                              all / 2,
                              all - 5000,
                              all - 9,
                              all - 8,
                              all - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char what[64];
        snprintf(what, sizeof what, "%zu bytes of %zu", lengths[i], all);
        s.good.bytes = lengths[i];
        refuse(&s.v, &s.good, THIMBLE_E_FORMAT, what);
    }
    s.good.bytes = all;
    write_blob(&s.good, "x", 1);
    refuse(&s.v, &s.good, THIMBLE_E_FORMAT, "a byte too many");
    close_subject(&s);
}

static void forge(Subject *s, size_t at, uint64_t value, size_t bytes, int code, const char *what) {
    Blob b = {0};
    write_blob(&b, s->good.data, s->good.bytes);
    memcpy(b.data + at, &value, bytes);
    repair(&b);
    refuse(&s->v, &b, code, what);
    free_blob(&b);
}

/* With checksums that are right: whoever forges a snapshot can do that. */
static void forged_fields(void **state) {
    (void)state;
    Subject s = open_subject();
    forge(&s, AT_VERSION, 2, 4, THIMBLE_E_UNSUPPORTED, "another version");
    forge(&s, AT_VERSION + 4, 100, 4, THIMBLE_E_FORMAT, "header size");
    forge(&s, AT_TOTAL, UINT64_MAX, 8, THIMBLE_E_FORMAT, "total size");
    for (size_t i = 0; i < 3; i++) forge(&s, 24 + 8 * i, 1, 8, THIMBLE_E_STATE, "identity");
    forge(&s, AT_CACHE_TYPE, THIMBLE_CACHE_F16, 4, THIMBLE_E_STATE, "cache type");
    forge(&s, AT_CACHE_TYPE, 77, 4, THIMBLE_E_STATE, "no cache type");
    forge(&s, AT_TOKENS, 0, 4, THIMBLE_E_FORMAT, "no tokens");
    forge(&s, AT_TOKENS, 0xFFFFFFFF, 4, THIMBLE_E_FORMAT, "-1 tokens");
    forge(&s, AT_TOKENS, 0x80000000, 4, THIMBLE_E_FORMAT, "-2^31 tokens");
    forge(&s, AT_TOKENS, 279, 4, THIMBLE_E_FORMAT, "one token less");
    forge(&s, AT_TOKENS, 0x7FFFFFFF, 4, THIMBLE_E_CONTEXT_FULL, "2^31 - 1 tokens");
    forge(&s, AT_VOCAB, 97, 4, THIMBLE_E_STATE, "vocabulary");
    forge(&s, AT_LOGITS, 0, 4, THIMBLE_E_FORMAT, "no logits");
    forge(&s, AT_LOGITS, 2, 4, THIMBLE_E_FORMAT, "two logits");
    forge(&s, AT_POINTS, 0, 4, THIMBLE_E_FORMAT, "no checkpoints");
    forge(&s, AT_POINTS, 0xFFFFFFFF, 4, THIMBLE_E_FORMAT, "many checkpoints");
    forge(&s, AT_CACHE_BYTES, 0, 8, THIMBLE_E_FORMAT, "no cache");
    forge(&s, AT_MEMORY_BYTES, 64, 8, THIMBLE_E_STATE, "small memory");
    forge(&s, AT_TOKEN_HASH, 64, 8, THIMBLE_E_FORMAT, "hash of tokens");
    forge(&s, AT_STATE_TYPE, THIMBLE_STATE_F16, 4, THIMBLE_E_STATE, "state type");
    forge(&s, AT_STATE_TYPE, 77, 4, THIMBLE_E_STATE, "no state type");
    forge(&s, AT_UNUSED, 1, 8, THIMBLE_E_FORMAT, "unused");
    forge(&s, HEADER, 280, 4, THIMBLE_E_FORMAT, "a checkpoint at the end");
    forge(&s, HEADER, 0, 4, THIMBLE_E_FORMAT, "a checkpoint at 0");
    forge(&s, HEADER, 0xFFFFFFF0, 4, THIMBLE_E_FORMAT, "a checkpoint below 0");
    forge(&s, HEADER + 4, 32, 4, THIMBLE_E_FORMAT, "flags of a checkpoint");
    forge(&s, HEADER + 8 + 4 * 100, 96, 4, THIMBLE_E_FORMAT, "a token beyond the vocabulary");
    forge(&s, HEADER + 8 + 4 * 100, 0xFFFFFFFF, 4, THIMBLE_E_FORMAT, "a negative token");
    /* What only informs may be anything. */
    Blob b = {0};
    write_blob(&b, s.good.data, s.good.bytes);
    memset(b.data + AT_ISA, 0, 4);
    memset(b.data + AT_TEXT, 1, 16);
    memset(b.data + AT_ARCHITECTURE, 27, 32);
    repair(&b);
    must_load(&s.v.t, &b);
    b.data[24] ^= 1;
    repair(&b);
    ThimbleError e = {0};
    assert_int_equal(load(&s.v.t, &b, &e), THIMBLE_E_STATE);
    assert_null(strchr(e.message, 27)); /* a name from a file does not reach the terminal as it is */
    free_blob(&b);
    close_subject(&s);
}

static void other_models_and_settings(void **state) {
    (void)state;
    RandomModel m = hybrid();
    ThimbleModelOptions o = options(300, THIMBLE_CACHE_F32);
    Subject s = open_subject();
    m.companions = true; /* other tensors */
    Victim v = make_victim(write_model(&m, "companions.gguf"), &o);
    refuse(&v, &s.good, THIMBLE_E_STATE, "another model");
    close_victim(&v);
    m = hybrid();
    m.seed++; /* the same header, other weights */
    v = make_victim(write_model(&m, "tuned.gguf"), &o);
    refuse(&v, &s.good, THIMBLE_E_STATE, "a fine-tuned model");
    close_victim(&v);
    o = options(300, THIMBLE_CACHE_F16);
    v = make_victim(s.path, &o);
    refuse(&v, &s.good, THIMBLE_E_STATE, "another cache type");
    close_victim(&v);
    o = options(279, THIMBLE_CACHE_F32);
    v = make_victim(s.path, &o);
    refuse(&v, &s.good, THIMBLE_E_CONTEXT_FULL, "a context that is too small");
    close_victim(&v);
    o = options(300, THIMBLE_CACHE_F32);
    o.experts = 1;
    v = make_victim(s.path, &o);
    refuse(&v, &s.good, THIMBLE_E_STATE, "fewer experts");
    close_victim(&v);
    close_subject(&s);
}

/* ---- sources and sinks that fail
 * -------------------------------------------------------------------------------------- */

typedef struct Turncoat {
    Blob *blob;
    int passes; /* times that the end was read */
    bool fails;
} Turncoat;

static int read_turncoat(void *arg, uint64_t offset, void *data, size_t bytes) {
    Turncoat *t = arg;
    int passes = t->passes;
    if (offset + bytes == t->blob->bytes) t->passes++;
    if (passes > 0 && offset > t->blob->bytes / 2) {
        if (t->fails) return 1;
        read_blob(t->blob, offset, data, bytes);
        if (offset + bytes < t->blob->bytes) ((char *)data)[0] ^= 1;
        return 0;
    }
    return read_blob(t->blob, offset, data, bytes);
}

/* Rounded memories travel as they are, and never into a session of the other kind; where nothing is recurrent there are
 * no kinds. */
static void half_memories(void **state) {
    RandomModel m = hybrid(), whole = dense();
    char mixed[512], plain[512];
    snprintf(mixed, sizeof mixed, "%s", write_model(&m, "half.gguf"));
    snprintf(plain, sizeof plain, "%s", write_model(&whole, "no_memory.gguf"));
    ThimbleModelOptions none = options(100, THIMBLE_CACHE_F32);
    ThimbleModel *no_model;
    none.state_type = THIMBLE_STATE_F16 + 1;
    assert_int_equal(thimble_model_open(&no_model, mixed, &none, NULL), THIMBLE_E_ARG);
    for (int type = 0; type < 2; type++) {
        ThimbleError e = {0};
        state_type = type;
        ThimbleModelOptions o = options(100, THIMBLE_CACHE_F32);
        Talk a = open_talk(mixed, &o), b = open_talk(plain, &o);
        sync_to(&a, 20), sync_to(&b, 20);
        Blob bytes = save(&a), ours = save(&b);
        close_talk(&a), close_talk(&b);
        state_type = 1 - type;
        o = options(100, THIMBLE_CACHE_F32);
        Victim v = make_victim(mixed, &o);
        refuse(&v, &bytes, THIMBLE_E_STATE, "the other state type");
        assert_int_equal(load(&v.t, &bytes, &e), THIMBLE_E_STATE);
        assert_non_null(strstr(e.message, type == THIMBLE_STATE_F16 ? "memory of f16, the session of f32"
                                                                    : "memory of f32, the session of f16"));
        close_victim(&v);
        b = open_talk(plain, &o);
        must_load(&b, &ours);
        close_talk(&b);
        free_blob(&bytes), free_blob(&ours);
    }
    state_type = THIMBLE_STATE_F16;
    round_trip(mixed, 60, THIMBLE_CACHE_F32);
    checkpoints_come_back(state);
    back_to_what_was_loaded(state);
    m = RANDOM_MODEL;
    m.arch = "qwen35", m.layers = 4, m.qk_norm = true, m.vocab = 96;
    m.ssm_state = 16, m.ssm_key_heads = 2, m.ssm_value_heads = 4;
    round_trip(write_model(&m, "half_delta.gguf"), 45, THIMBLE_CACHE_F16);
    state_type = THIMBLE_STATE_F32;
}

static void sources_that_change(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        Subject s = open_subject();
        Turncoat t = {.blob = &s.good, .fails = fails};
        ThimbleError e = {0};
        int code = thimble_session_load(s.v.t.s, read_turncoat, &t, s.good.bytes, &e);
        assert_int_equal(code, fails ? THIMBLE_E_IO : THIMBLE_E_FORMAT);
        assert_int_equal(thimble_session_length(s.v.t.s), 0);
        assert_null(thimble_session_logits(s.v.t.s, NULL));
        assert_int_equal(thimble_session_save_bytes(s.v.t.s), 0);
        sync_to(&s.v.t, s.v.length); /* and it works on */
        check_untouched(&s.v, "computed anew");
        close_subject(&s);
    }
}

static int refuse_write(void *arg, const void *data, size_t bytes) {
    (void)data;
    int *left = arg;
    *left -= (int)bytes;
    return *left < 0;
}

static int count_files(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static void saving_that_fails(void **state) {
    (void)state;
    Subject s = open_subject();
    ThimbleError e = {0};
    char folder[600], path[640];
    for (int left = 0; left < (int)s.v.state.bytes; left += 1 + (int)s.v.state.bytes / 7) {
        int n = left;
        assert_int_equal(thimble_session_save(s.v.t.s, refuse_write, &n, &e), THIMBLE_E_CANCELLED);
    }
    snprintf(folder, sizeof folder, "%s/folder", dir.dir);
    assert_int_equal(mkdir(folder, 0700), 0);
    snprintf(path, sizeof path, "%s/talk", folder);
    assert_int_equal(thimble_session_save_file(s.v.t.s, path, &e), THIMBLE_OK);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    sync_to(&s.v.t, 200);
    struct rlimit limit, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = 3000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int code = thimble_session_save_file(s.v.t.s, path, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(code, THIMBLE_E_IO);
    assert_int_equal(count_files(folder), 1); /* nothing left behind, the old one is whole */
    assert_int_equal(thimble_session_load_file(s.v.t.s, path, &e), THIMBLE_OK);
    check_untouched(&s.v, "from the file");
    assert_int_equal(thimble_session_load_file(s.v.t.s, folder, &e), THIMBLE_E_IO);
    snprintf(path, sizeof path, "%s/absent/talk", folder);
    assert_int_equal(thimble_session_save_file(s.v.t.s, path, &e), THIMBLE_E_IO);
    assert_int_equal(thimble_session_load_file(s.v.t.s, path, &e), THIMBLE_E_IO);
    check_untouched(&s.v, "after all that");
    ThimbleModelOptions o = options(64, THIMBLE_CACHE_F32);
    Talk empty = open_talk(s.path, &o);
    snprintf(path, sizeof path, "%s/empty", folder);
    assert_int_equal(thimble_session_save_file(empty.s, path, &e), THIMBLE_E_STATE);
    assert_int_equal(count_files(folder), 1);
    close_talk(&empty);
    close_subject(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_models),
        cmocka_unit_test(rings),
        cmocka_unit_test(experts),
        cmocka_unit_test(latent_and_recurrent),
        cmocka_unit_test(golden_models),
        cmocka_unit_test(context_rules),
        cmocka_unit_test(rings_know_what_is_missing),
        cmocka_unit_test(checkpoints_come_back),
        cmocka_unit_test(back_to_what_was_loaded),
        cmocka_unit_test(damaged_bytes),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(forged_fields),
        cmocka_unit_test(other_models_and_settings),
        cmocka_unit_test(half_memories),
        cmocka_unit_test(sources_that_change),
        cmocka_unit_test(saving_that_fails),
    };
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
