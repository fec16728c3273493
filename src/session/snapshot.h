/* snapshot.h: a session as a stream of bytes: timeline, caches, recurrent memory, checkpoints, next-token logits.
 *
 *     header | checkpoint table | tokens | logits | cached rows | memory | checkpoint memories | checksum
 *
 * The header has a checksum of its own, the last 8 bytes are that of everything before. A snapshot is bound to its
 * model (a hash over the file's header and tensor directory, the sizes of its shards and a sample of each tensor)
 * and to what changes its numbers: cache and state type, rotary frequencies, lossy options. Not to context, batch,
 * threads, homes, budget: the bytes are the same for all of them. Numbers are in the machine's (little-endian) order.
 *
 * Loading reads twice. The first time nothing of the session is touched: header, binding, sizes, table, tokens and
 * checksum are judged, so that a rejected snapshot leaves the session as it was. The second time bytes go where they
 * belong and are summed again: if they changed in between, or cannot be read any more, the session ends empty and the
 * error says so. Tokens and numbers of the table are checked although checksums protect them, since whoever forges a
 * snapshot forges those too. */
#ifndef THIMBLE_SNAPSHOT_H
#define THIMBLE_SNAPSHOT_H

#include "session/sampler.h"
#include "session/session.h"

enum { SNAPSHOT_VERSION = 1, SNAPSHOT_MOST_CHECKPOINTS = 8, SNAPSHOT_TOKEN_BYTES = 1024 };

typedef struct SnapshotHeader {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t total_bytes;
    uint64_t model[2], rules; /* the file; what else numbers depend on */
    uint32_t cache_type, isa;
    int32_t n_tokens, n_vocab;
    uint32_t has_logits, n_checkpoints;
    uint64_t cache_bytes, memory_bytes; /* rows of all caches; recurrent memory of one position */
    uint64_t token_hash;
    uint64_t text_hash, text_bytes; /* of the tokens' bytes, control tokens included: the rendered prompt */
    char architecture[32];
    uint32_t state_type; /* of the recurrent memory */
    uint32_t unused[3];  /* zeros */
    uint64_t checksum;  /* of the header before it */
} SnapshotHeader;
_Static_assert(sizeof(SnapshotHeader) == 168, "a header has no padding");

typedef struct SnapshotPoint {
    int32_t position;
    uint32_t flags; /* CHECKPOINT_* kinds, POINT_LOGITS */
} SnapshotPoint;
enum { POINT_LOGITS = 16 };

/* Reads exactly bytes at offset, or fails. */
typedef bool (*SnapshotReadFn)(void *arg, uint64_t offset, void *data, size_t bytes, Err *err);
typedef bool (*SnapshotWriteFn)(void *arg, const void *data, size_t bytes, Err *err);

/* What a snapshot of the session as it stands takes; E_STATE if there is nothing to save. */
bool th_snapshot_bytes(const Session *s, uint64_t *bytes, Err *err);
bool th_snapshot_save(Session *s, SnapshotWriteFn fn, void *arg, Err *err);
/* Of its checkpoints those up to `wanted` (which gets a slot if there is one). */
bool th_snapshot_load(Session *s, SnapshotReadFn fn, void *arg, uint64_t bytes, int wanted, Err *err);
/* durable: see th_outfile_commit. */
bool th_snapshot_save_file(Session *s, const char *path, bool durable, Err *err);
bool th_snapshot_load_file(Session *s, const char *path, Err *err);

/* For the prefix store: the header that saving would write (with neither text nor checksum); the header of a snapshot,
 * judged by itself and against the session's model; and its table and tokens by pieces. The stream as a whole is not
 * judged. */
bool th_snapshot_describe(Session *s, SnapshotHeader *h, Err *err);
bool th_snapshot_header(Session *s, SnapshotReadFn fn, void *arg, uint64_t bytes, SnapshotHeader *out, Err *err);
static inline uint64_t th_snapshot_tokens_at(const SnapshotHeader *h) {
    return sizeof *h + h->n_checkpoints * sizeof(SnapshotPoint);
}
uint64_t th_snapshot_token_hash(const int32_t *tokens, size_t n);

#endif
