/* gguf.h: the container (gguf-container specification): header, metadata, tensor directory, split sets.
 *
 * Input is hostile: every count is bounded by the bytes left in the file before anything is allocated. The file is
 * read through one small window; values of arrays and long strings stay in the file (their place is kept) and are read
 * when asked for, so that a 262,144-token vocabulary costs nothing until a tokenizer is built. All memory comes from an
 * arena on the given budget (MEM_METADATA). */
#ifndef THIMBLE_GGUF_H
#define THIMBLE_GGUF_H

#include "base/arena.h"
#include "base/map.h"
#include "os/file.h"
#include "quant/type.h"

enum { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY, GGUF_U64,
       GGUF_I64, GGUF_F64, N_GGUF_TYPES };

typedef struct GgufKv {
    Str key;
    uint32_t type;
    uint32_t element;   /* of an array */
    uint64_t count;     /* elements of an array, bytes of a string */
    uint64_t offset;    /* of the payload in the first shard's file: an array's first element, a text's first byte */
    uint64_t payload;   /* bytes of the payload */
    union { uint64_t u; int64_t i; double f; } value; /* scalars; BOOL (0 or 1) in u */
    const char *text;   /* short strings (<= 4096 bytes), with NUL behind; NULL: still in the file */
} GgufKv;

typedef struct GgufTensor {
    Str name;
    const TypeInfo *type;
    uint32_t n_dims;
    uint64_t dim[4];    /* dim[0] is contiguous; missing ones are 1 */
    uint64_t offset;    /* absolute position in the shard's file */
    uint64_t row_bytes, bytes;
    uint32_t shard;
} GgufTensor;

typedef struct Gguf {
    Arena arena;
    File *files;        /* [n_shards] */
    uint32_t n_shards, version;
    GgufKv *kv;
    size_t n_kv;
    GgufTensor *tensors; /* of all shards, in file order */
    size_t n_tensors;
    Map kv_map, tensor_map;
    uint64_t file_bytes; /* of all shards */
    bool legacy_q2_0;    /* id 42 tensors hold 34-byte blocks and were taken as PQ2_0 */
} Gguf;

/* path: file, any shard, or the folder of exactly one set (or, without a set, of one file). E_IO, E_FORMAT,
 * E_UNSUPPORTED (foreign tensor type, big-endian, other version), E_ARG (a folder that holds several). */
bool th_gguf_open(Gguf *g, const char *path, Budget *budget, Err *err);
/* One file as it is, without looking for the other shards of its set (tests, the container verdict). */
bool th_gguf_open_single(Gguf *g, const char *path, Budget *budget, Err *err);
void th_gguf_close(Gguf *g); /* accepts any half-built Gguf */

const GgufTensor *th_gguf_tensor(const Gguf *g, const char *name); /* NULL if absent */
const GgufKv *th_gguf_kv(const Gguf *g, const char *key);          /* NULL if absent */

/* ---- typed metadata (meta.c). Getters return true with *out untouched when the key is absent, so that the default
 * stays; false with an E_FORMAT sentence when it is there but of a wrong type or out of [min, max]. Any integer type is
 * accepted for integers, any real or integer for reals (finite ones only). A one-element-valued array (all elements
 * equal) is accepted for a scalar. */
bool th_gguf_get_int(const Gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, Err *err);
bool th_gguf_get_real(const Gguf *g, const char *key, double min, double max, double *out, Err *err);
bool th_gguf_get_bool(const Gguf *g, const char *key, bool *out, Err *err);
/* Short strings only (<= 4096 bytes); *out borrowed from g. */
bool th_gguf_get_str(const Gguf *g, const char *key, Str *out, Err *err);
/* Per-layer values: a scalar is spread over all n; an array must have n elements, or n + slack (the rest ignored). BOOL
 * arrays give 0 and 1. *present says if the key exists. */
bool th_gguf_get_ints(const Gguf *g, const char *key, size_t n, size_t slack, int64_t min, int64_t max, int64_t *out,
                      bool *present, Err *err);
bool th_gguf_get_reals(const Gguf *g, const char *key, size_t n, size_t slack, double min, double max, double *out,
                       bool *present, Err *err);
/* Whole arrays and strings of any length, read from the file into the caller's arena. */
bool th_gguf_read_text(const Gguf *g, const GgufKv *kv, Arena *arena, Str *out, Err *err);
/* out[count] slices into one block of the arena that holds the payload. */
bool th_gguf_read_strings(const Gguf *g, const GgufKv *kv, Arena *arena, Str **out, Err *err);
bool th_gguf_read_ints(const Gguf *g, const GgufKv *kv, Arena *arena, int64_t min, int64_t max, int32_t **out,
                       Err *err);
bool th_gguf_read_reals(const Gguf *g, const GgufKv *kv, Arena *arena, float **out, Err *err);
const char *th_gguf_type_name(uint32_t type);
const char *th_gguf_file_type_name(int64_t file_type); /* "Q4_K_M"; NULL: unknown */

#endif
