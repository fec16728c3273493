/* fuzz_snapshot.c: hostile snapshots. A session of a tiny hybrid model (caches, recurrent memory, checkpoints) is
 * offered the input as it is, and with what a forger would set right: identity, rules and checksums. Refused, the
 * session is what it was; accepted, it is sound: it goes on, can be saved, and goes back.
 *
 * The corpus is what such a session saves. */
#define _GNU_SOURCE /* memfd_create */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/random_model.h"
#include "fuzz/fuzz.h"
#include "thimble/thimble.h"

enum { HEADER = 168, AT_MODEL = 24, MODEL_BYTES = 24, AT_CHECKSUM = 160, CONTEXT = 40, VOCAB = 48 };

static void must(bool truth, const char *what) {
    if (truth) return;
    fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

typedef struct Blob {
    unsigned char *data;
    size_t bytes;
} Blob;

static int read_blob(void *arg, uint64_t offset, void *data, size_t bytes) {
    const Blob *b = arg;
    if (offset > b->bytes || bytes > b->bytes - offset) return 1;
    memcpy(data, b->data + offset, bytes);
    return 0;
}

static int write_blob(void *arg, const void *data, size_t bytes) {
    Blob *b = arg;
    b->data = realloc(b->data, b->bytes + bytes);
    must(b->data != NULL, "memory");
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return 0;
}

static ThimbleSession *session; /* of a program's own */
static Blob before;             /* it as it should be */

static void open_session(void) {
    RandomModel m = RANDOM_MODEL;
    ThimbleModelOptions o;
    ThimbleModel *model;
    ThimbleError e = {0};
    char path[64];
    int fd = memfd_create("model", 0);
    must(fd >= 0, "a file in memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    m.arch = "bailingmoe3", m.layers = 2, m.dim = 32, m.heads = 2, m.head_size = 12, m.rope_dims = 4, m.latent = 8;
    m.latent_every = 2, m.kda_head = 8, m.experts = 4, m.experts_used = 2, m.groups = 1, m.expert_ff = 32, m.ff = 32;
    m.shared_ff = 32, m.dense_lead = 1, m.vocab = VOCAB;
    random_model_write(&m, path);
    thimble_model_options_init(&o);
    o.context = CONTEXT, o.threads = 1, o.checkpoints = 6, o.batch = 4, o.budget = 64 << 20;
    must(thimble_model_open(&model, path, &o, &e) == THIMBLE_OK, e.message);
    must(thimble_session_open(&session, model, NULL, &e) == THIMBLE_OK, e.message);
    int32_t tokens[20];
    for (int i = 0; i < 20; i++) tokens[i] = (i * 11 + 3) % VOCAB;
    must(thimble_session_sync(session, tokens, 9, &e) == THIMBLE_OK, e.message);
    must(thimble_session_sync(session, tokens, 20, &e) == THIMBLE_OK, e.message);
    must(thimble_session_save(session, write_blob, &before, &e) == THIMBLE_OK, e.message);
}

static void check_same(void) {
    Blob now = {0};
    ThimbleError e = {0};
    must(thimble_session_save(session, write_blob, &now, &e) == THIMBLE_OK, "a session can be saved");
    must(now.bytes == before.bytes && memcmp(now.data, before.data, now.bytes) == 0, "refused is untouched");
    free(now.data);
}

/* Numbers may be nonsense now (whoever forges, decides them), but nothing else. */
static void use(void) {
    ThimbleError e = {0};
    Blob now = {0};
    size_t n = thimble_session_length(session);
    const int32_t *tokens = thimble_session_tokens(session);
    must(n >= 1 && n <= CONTEXT, "a length that fits");
    for (size_t i = 0; i < n; i++) must(tokens[i] >= 0 && tokens[i] < VOCAB, "tokens in range");
    must(thimble_session_save(session, write_blob, &now, &e) == THIMBLE_OK, "a loaded session can be saved");
    must(thimble_session_load(session, read_blob, &now, now.bytes, &e) == THIMBLE_OK, "and loaded again");
    int32_t token = 1;
    if (n < CONTEXT) must(thimble_session_eval(session, &token, 1, &e) == THIMBLE_OK, "it goes on");
    (void)thimble_session_rewind(session, n / 2, &e);
    must(thimble_session_load(session, read_blob, &before, before.bytes, &e) == THIMBLE_OK, "a good one loads over it");
    free(now.data);
}

static void offer(Blob *b) {
    ThimbleError e = {0};
    int code = thimble_session_load(session, read_blob, b, b->bytes, &e);
    if (code == THIMBLE_OK) {
        use();
    } else {
        must(code < 0 && e.message[0], "a refusal with a sentence");
        check_same();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!session) open_session();
    Blob b = {.data = malloc(size ? size : 1), .bytes = size};
    must(b.data != NULL, "memory");
    if (size) memcpy(b.data, data, size);
    offer(&b);
    if (size >= HEADER + 8) {
        memcpy(b.data + AT_MODEL, before.data + AT_MODEL, MODEL_BYTES);
        uint64_t sum = XXH3_64bits(b.data, AT_CHECKSUM);
        memcpy(b.data + AT_CHECKSUM, &sum, 8);
        sum = XXH3_64bits(b.data, size - 8);
        memcpy(b.data + size - 8, &sum, 8);
        offer(&b);
    }
    free(b.data);
    return 0;
}
