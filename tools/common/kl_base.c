/* kl_base.c: see kl_base.h. */
#include "common/kl_base.h"

#include "common/logprob.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 56, ROW_HEAD = 16, VERSION = 1, BELOW_RANGE = 65534, IMPOSSIBLE = 65535 };
static const char magic[8] = {'T', 'H', 'K', 'L', 'B', 'A', 'S', 'E'};
static const double codes_per_nat = 1536;

__attribute__((format(printf, 3, 4))) static KlResult refuse(KlBase *b, KlResult kind, const char *format, ...) {
    va_list args;
    int n = snprintf(b->why, sizeof b->why, "--kl-base %.300s: ", b->path);
    va_start(args, format);
    if (n > 0 && (size_t)n < sizeof b->why) vsnprintf(b->why + n, sizeof b->why - (size_t)n, format, args);
    va_end(args);
    return kind;
}

/* ---- numbers in bytes ---- */

static void put(unsigned char *to, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t get(const unsigned char *from, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)from[i] << (8 * i);
    return v;
}

uint64_t kl_hash(uint64_t hash, const int32_t *id, size_t n) {
    uint64_t h = hash ? hash : 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint32_t)id[i]) * 0x100000001B3u;
    return h;
}

/* Of everything in a row but the check itself. */
static uint32_t check_of(const unsigned char *row, size_t bytes) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 4; i + 2 <= bytes; i += 2) h = (h ^ get(row + i, 2)) * 0x100000001B3u;
    return (uint32_t)(h ^ h >> 32);
}

static void put_header(unsigned char *h, const KlHeader *k) {
    memcpy(h, magic, sizeof magic);
    put(h + 8, VERSION, 4);
    put(h + 12, k->n_vocab, 4);
    put(h + 16, k->window, 4);
    put(h + 20, k->stride, 4);
    put(h + 24, k->n_tokens, 8);
    put(h + 32, k->n_rows, 8);
    put(h + 40, k->hash, 8);
    put(h + 48, 0, 8);
}

/* ---- opening ---- */

static KlResult begin_writing(KlBase *b) {
    const size_t size = strlen(b->path) + 32;
    unsigned char h[HEADER_BYTES];
    b->temporary = malloc(size);
    if (!b->temporary) return refuse(b, KL_REFUSED, "out of memory");
    snprintf(b->temporary, size, "%s.%ld.tmp", b->path, (long)getpid());
    int fd = open(b->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    b->file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!b->file) {
        KlResult r = refuse(b, KL_IO, "%s", strerror(errno));
        if (fd >= 0) close(fd);
        free(b->temporary);
        b->temporary = NULL;
        return r;
    }
    put_header(h, &b->header);
    return fwrite(h, sizeof h, 1, b->file) == 1 ? KL_FINE : refuse(b, KL_IO, "%s", strerror(errno));
}

/* Each difference is said by its name: what to do about it differs. */
static KlResult check_header(KlBase *b, const unsigned char *h, uint64_t file_bytes) {
    const KlHeader *w = &b->header;
    if (memcmp(h, magic, sizeof magic) != 0)
        return refuse(b, KL_REFUSED, "this is no file of base log-probabilities");
    if (get(h + 8, 4) != VERSION)
        return refuse(b, KL_REFUSED, "its form has the version %u, this program reads %d", (unsigned)get(h + 8, 4),
                      VERSION);
    if (get(h + 12, 4) != w->n_vocab)
        return refuse(b, KL_REFUSED, "it was written with a vocabulary of %u tokens, this model has %u",
                      (unsigned)get(h + 12, 4), w->n_vocab);
    if (get(h + 24, 8) != w->n_tokens || get(h + 40, 8) != w->hash)
        return refuse(b, KL_REFUSED, "it was written for another text (or the same one cut into other tokens)");
    if (get(h + 16, 4) != w->window || get(h + 20, 4) != w->stride)
        return refuse(b, KL_REFUSED,
                      "it was written with windows of %u tokens every %u, these are %u every %u: give -c and --stride "
                      "as then", (unsigned)get(h + 16, 4), (unsigned)get(h + 20, 4), w->window, w->stride);
    /* The number of rows is ours: its product with their size was checked before. */
    const uint64_t whole = HEADER_BYTES + (uint64_t)b->row_bytes * w->n_rows;
    if (get(h + 32, 8) != w->n_rows || file_bytes != whole)
        return refuse(b, KL_REFUSED, "it is damaged: %llu bytes, it should have %llu", (unsigned long long)file_bytes,
                      (unsigned long long)whole);
    return KL_FINE;
}

static KlResult begin_reading(KlBase *b) {
    struct stat st;
    unsigned char h[HEADER_BYTES];
    if (fstat(fileno(b->file), &st) != 0) return refuse(b, KL_IO, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode)) return refuse(b, KL_REFUSED, "this is not a regular file");
    if (st.st_size < HEADER_BYTES || fread(h, sizeof h, 1, b->file) != 1)
        return ferror(b->file) ? refuse(b, KL_IO, "%s", strerror(errno))
                               : refuse(b, KL_REFUSED, "this is no file of base log-probabilities");
    return check_header(b, h, (uint64_t)st.st_size);
}

KlResult kl_open(KlBase *b, const char *path, const KlHeader *want) {
    *b = (KlBase){.header = *want, .path = path};
    b->row_bytes = ROW_HEAD + 2 * (size_t)want->n_vocab;
    if (want->n_rows > (uint64_t)INT64_MAX / 2 / b->row_bytes)
        return refuse(b, KL_REFUSED, "the file would be too large");
    b->row = malloc(b->row_bytes);
    if (!b->row) return refuse(b, KL_REFUSED, "out of memory");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? begin_writing(b) : refuse(b, KL_IO, "%s", strerror(errno));
    b->file = fdopen(fd, "rb");
    if (b->file) return begin_reading(b);
    close(fd);
    return refuse(b, KL_REFUSED, "out of memory");
}

/* ---- rows ---- */

static unsigned code_of(double lnp) {
    if (!(lnp > -INFINITY)) return IMPOSSIBLE;
    const double c = -lnp * codes_per_nat;
    return c <= 0 ? 0 : c >= BELOW_RANGE ? BELOW_RANGE : (unsigned)lrint(c);
}

static int32_t most_likely(const float *logits, size_t n) {
    int32_t id = 0;
    Top top = {&id, 0};
    logprob_top(logits, n, 1, &top);
    return id;
}

static KlResult write_row(KlBase *b, const float *logits, double total, int32_t token) {
    const size_t n = b->header.n_vocab;
    double lnp = logprob_of(logits, n, total, token);
    uint64_t bits;
    memcpy(&bits, &lnp, sizeof bits);
    put(b->row + 4, (uint32_t)most_likely(logits, n), 4);
    put(b->row + 8, bits, 8);
    for (size_t i = 0; i < n; i++) put(b->row + ROW_HEAD + 2 * i, code_of(logprob_of(logits, n, total, (int32_t)i)), 2);
    put(b->row, check_of(b->row, b->row_bytes), 4);
    return fwrite(b->row, b->row_bytes, 1, b->file) == 1 ? KL_FINE : refuse(b, KL_IO, "%s", strerror(errno));
}

static KlResult read_row(KlBase *b) {
    if (fread(b->row, b->row_bytes, 1, b->file) != 1)
        return refuse(b, KL_IO, "%s", ferror(b->file) ? strerror(errno) : "the file was cut short while it was read");
    if (get(b->row, 4) != check_of(b->row, b->row_bytes))
        return refuse(b, KL_REFUSED, "row %llu is damaged", (unsigned long long)b->n_done);
    return KL_FINE;
}

static KlResult compare_row(KlBase *b, const float *logits, double total, int32_t token, KlRow *out) {
    const size_t n = b->header.n_vocab;
    double mass = 0, sum = 0, base;
    uint64_t bits = get(b->row + 8, 8);
    memcpy(&base, &bits, sizeof base);
    for (size_t i = 0; i < n; i++) {
        const unsigned code = (unsigned)get(b->row + ROW_HEAD + 2 * i, 2);
        if (code >= BELOW_RANGE) continue; /* at most 3e-19: nothing to weigh */
        const double lnp = -(double)code / codes_per_nat, p = exp(lnp);
        mass += p;
        sum += p * (lnp - logprob_of(logits, n, total, (int32_t)i));
    }
    if (!(fabs(mass - 1) < 0.01) || isnan(base) || base > 1e-6 || get(b->row + 4, 4) >= n)
        return refuse(b, KL_REFUSED, "row %llu is no distribution", (unsigned long long)b->n_done);
    out->divergence = fmax(0, sum / mass - log(mass)); /* below 0 only by rounding */
    const double lnp = logprob_of(logits, n, total, token);
    out->difference = isfinite(lnp) && isfinite(base) ? lnp - base : NAN;
    out->same_top = get(b->row + 4, 4) == (uint32_t)most_likely(logits, n);
    return KL_FINE;
}

KlResult kl_row(KlBase *b, const float *logits, double total, int32_t token, KlRow *out) {
    KlResult r = kl_writes(b) ? write_row(b, logits, total, token) : read_row(b);
    if (r == KL_FINE && !kl_writes(b)) r = compare_row(b, logits, total, token, out);
    b->n_done++;
    return r;
}

KlResult kl_close(KlBase *b, bool whole) {
    KlResult r = KL_FINE;
    bool fine = true;
    if (b->file) {
        if (kl_writes(b) && whole) fine = fflush(b->file) == 0 && fsync(fileno(b->file)) == 0;
        fine = (fclose(b->file) == 0 || !kl_writes(b)) && fine;
        if (kl_writes(b) && whole && fine) fine = rename(b->temporary, b->path) == 0;
        if (kl_writes(b) && whole && !fine) r = refuse(b, KL_IO, "%s", strerror(errno));
        if (kl_writes(b) && (!whole || !fine)) unlink(b->temporary);
    }
    free(b->temporary);
    free(b->row);
    b->temporary = NULL;
    b->row = NULL;
    b->file = NULL;
    return r;
}
