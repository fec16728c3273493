/* gguf_writer.h: makes GGUF files for tests: good ones with a few calls, bad ones by patching the bytes afterwards.
 *
 *     GgufWriter w;
 *     gguf_writer_init(&w);
 *     gguf_writer_str(&w, "general.architecture", "llama");
 *     gguf_writer_tensor(&w, "output_norm.weight", TYPE_F32, 1, (uint64_t[]){64}, floats);
 *     gguf_writer_save(&w, path);       or   gguf_writer_finish(&w, &bytes, &len);
 *     gguf_writer_free(&w);
 *
 * Keys and tensors are written in the order of the calls, little-endian, version 3, data laid out without gaps. A
 * failed allocation aborts: this is for tests alone. */
#ifndef THIMBLE_GGUF_WRITER_H
#define THIMBLE_GGUF_WRITER_H

#include "gguf/gguf.h"

typedef struct GgufWriter {
    Buf kvs, infos, data;
    uint64_t n_kv, n_tensors, alignment;
    uint32_t version;
    bool pad_end; /* zero bytes up to the alignment behind the last tensor; default true */
} GgufWriter;

void gguf_writer_init(GgufWriter *w);
void gguf_writer_free(GgufWriter *w);
/* Before the first tensor. Writes general.alignment. */
void gguf_writer_align(GgufWriter *w, uint32_t alignment);

void gguf_writer_u8(GgufWriter *w, const char *key, uint8_t v);
void gguf_writer_i8(GgufWriter *w, const char *key, int8_t v);
void gguf_writer_u16(GgufWriter *w, const char *key, uint16_t v);
void gguf_writer_i16(GgufWriter *w, const char *key, int16_t v);
void gguf_writer_u32(GgufWriter *w, const char *key, uint32_t v);
void gguf_writer_i32(GgufWriter *w, const char *key, int32_t v);
void gguf_writer_u64(GgufWriter *w, const char *key, uint64_t v);
void gguf_writer_i64(GgufWriter *w, const char *key, int64_t v);
void gguf_writer_f32(GgufWriter *w, const char *key, float v);
void gguf_writer_f64(GgufWriter *w, const char *key, double v);
void gguf_writer_bool(GgufWriter *w, const char *key, bool v);
void gguf_writer_str(GgufWriter *w, const char *key, const char *v);
void gguf_writer_text(GgufWriter *w, const char *key, const char *v, size_t len);
/* n elements of a scalar type (GGUF_*) in memory order. */
void gguf_writer_array(GgufWriter *w, const char *key, uint32_t element, const void *v, size_t n);
void gguf_writer_strs(GgufWriter *w, const char *key, const char *const *v, size_t n);
void gguf_writer_texts(GgufWriter *w, const char *key, const Str *v, size_t n);
/* Any type and payload as given: for hostile files. */
void gguf_writer_raw(GgufWriter *w, const char *key, uint32_t type, const void *payload, size_t bytes);
/* The three keys of a shard: no counts from 0. */
void gguf_writer_split(GgufWriter *w, uint16_t no, uint16_t count, int32_t tensors);

/* data may be NULL: bytes that follow from the tensor's place. The size follows from type and dims. */
void gguf_writer_tensor(GgufWriter *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                        const void *data);
/* An info as given, with no data: for hostile files. */
void gguf_writer_info(GgufWriter *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                      uint64_t offset);

/* The whole file in memory of malloc. */
void gguf_writer_finish(const GgufWriter *w, char **bytes, size_t *len);
bool gguf_writer_save(const GgufWriter *w, const char *path);
bool gguf_write_file(const char *path, const void *bytes, size_t len);

#endif
