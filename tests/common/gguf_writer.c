/* gguf_writer.c: see gguf_writer.h. */
#include "common/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>

static void put(Buf *b, const void *p, size_t n) {
    if (!th_buf_append(b, p, n, NULL)) abort();
}
static void put_le(Buf *b, uint64_t v, unsigned bytes) {
    unsigned char le[8];
    for (unsigned i = 0; i < 8; i++) le[i] = (unsigned char)(v >> (8 * i));
    put(b, le, bytes);
}
static void put_str(Buf *b, const char *text, size_t len) {
    put_le(b, len, 8);
    put(b, text, len);
}
static void put_zeros(Buf *b, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) put(b, "", 1);
}

void gguf_writer_init(GgufWriter *w) { *w = (GgufWriter){.alignment = 32, .version = 3, .pad_end = true}; }

void gguf_writer_free(GgufWriter *w) {
    th_buf_free(&w->kvs);
    th_buf_free(&w->infos);
    th_buf_free(&w->data);
}

void gguf_writer_align(GgufWriter *w, uint32_t alignment) {
    gguf_writer_u32(w, "general.alignment", alignment);
    w->alignment = alignment;
}

static void begin(GgufWriter *w, const char *key, uint32_t type) {
    put_str(&w->kvs, key, strlen(key));
    put_le(&w->kvs, type, 4);
    w->n_kv++;
}

static void put_scalar(GgufWriter *w, const char *key, uint32_t type, uint64_t v, unsigned bytes) {
    begin(w, key, type);
    put_le(&w->kvs, v, bytes);
}

void gguf_writer_u8(GgufWriter *w, const char *key, uint8_t v) { put_scalar(w, key, GGUF_U8, v, 1); }
void gguf_writer_i8(GgufWriter *w, const char *key, int8_t v) { put_scalar(w, key, GGUF_I8, (uint64_t)v, 1); }
void gguf_writer_u16(GgufWriter *w, const char *key, uint16_t v) { put_scalar(w, key, GGUF_U16, v, 2); }
void gguf_writer_i16(GgufWriter *w, const char *key, int16_t v) { put_scalar(w, key, GGUF_I16, (uint64_t)v, 2); }
void gguf_writer_u32(GgufWriter *w, const char *key, uint32_t v) { put_scalar(w, key, GGUF_U32, v, 4); }
void gguf_writer_i32(GgufWriter *w, const char *key, int32_t v) { put_scalar(w, key, GGUF_I32, (uint64_t)v, 4); }
void gguf_writer_u64(GgufWriter *w, const char *key, uint64_t v) { put_scalar(w, key, GGUF_U64, v, 8); }
void gguf_writer_i64(GgufWriter *w, const char *key, int64_t v) { put_scalar(w, key, GGUF_I64, (uint64_t)v, 8); }
void gguf_writer_bool(GgufWriter *w, const char *key, bool v) { put_scalar(w, key, GGUF_BOOL, v, 1); }
void gguf_writer_f32(GgufWriter *w, const char *key, float v) {
    uint32_t bits;
    memcpy(&bits, &v, 4);
    put_scalar(w, key, GGUF_F32, bits, 4);
}
void gguf_writer_f64(GgufWriter *w, const char *key, double v) {
    uint64_t bits;
    memcpy(&bits, &v, 8);
    put_scalar(w, key, GGUF_F64, bits, 8);
}

void gguf_writer_text(GgufWriter *w, const char *key, const char *v, size_t len) {
    begin(w, key, GGUF_STRING);
    put_str(&w->kvs, v, len);
}
void gguf_writer_str(GgufWriter *w, const char *key, const char *v) { gguf_writer_text(w, key, v, strlen(v)); }

void gguf_writer_raw(GgufWriter *w, const char *key, uint32_t type, const void *payload, size_t bytes) {
    begin(w, key, type);
    put(&w->kvs, payload, bytes);
}

static void begin_array(GgufWriter *w, const char *key, uint32_t element, size_t n) {
    begin(w, key, GGUF_ARRAY);
    put_le(&w->kvs, element, 4);
    put_le(&w->kvs, n, 8);
}

void gguf_writer_array(GgufWriter *w, const char *key, uint32_t element, const void *v, size_t n) {
    static const unsigned char sizes[N_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    begin_array(w, key, element, n);
    put(&w->kvs, v, n * sizes[element]); /* tests run on little-endian machines */
}

void gguf_writer_texts(GgufWriter *w, const char *key, const Str *v, size_t n) {
    begin_array(w, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_str(&w->kvs, v[i].data, v[i].len);
}

void gguf_writer_strs(GgufWriter *w, const char *key, const char *const *v, size_t n) {
    begin_array(w, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_str(&w->kvs, v[i], strlen(v[i]));
}

void gguf_writer_split(GgufWriter *w, uint16_t no, uint16_t count, int32_t tensors) {
    gguf_writer_u16(w, "split.no", no);
    gguf_writer_u16(w, "split.count", count);
    gguf_writer_i32(w, "split.tensors.count", tensors);
}

void gguf_writer_info(GgufWriter *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                      uint64_t offset) {
    put_str(&w->infos, name, strlen(name));
    put_le(&w->infos, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++) put_le(&w->infos, dims[i], 8);
    put_le(&w->infos, type, 4);
    put_le(&w->infos, offset, 8);
    w->n_tensors++;
}

void gguf_writer_tensor(GgufWriter *w, const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                        const void *data) {
    const TypeInfo *t = th_type_info(type);
    if (!t) abort();
    uint64_t bytes = th_type_row_bytes(t, dims[0]);
    for (uint32_t i = 1; i < n_dims; i++) bytes *= dims[i];
    put_zeros(&w->data, th_align_up(w->data.len, w->alignment) - w->data.len);
    gguf_writer_info(w, name, type, n_dims, dims, w->data.len);
    if (data) {
        put(&w->data, data, (size_t)bytes);
        return;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(w->n_tensors * 37 + i * 11);
        put(&w->data, &byte, 1);
    }
}

void gguf_writer_finish(const GgufWriter *w, char **bytes, size_t *len) {
    Buf out = {0};
    put(&out, "GGUF", 4);
    put_le(&out, w->version, 4);
    put_le(&out, w->n_tensors, 8);
    put_le(&out, w->n_kv, 8);
    put(&out, w->kvs.data, w->kvs.len);
    put(&out, w->infos.data, w->infos.len);
    if (w->n_tensors) put_zeros(&out, th_align_up(out.len, w->alignment) - out.len);
    put(&out, w->data.data, w->data.len);
    if (w->n_tensors && w->pad_end) put_zeros(&out, th_align_up(out.len, w->alignment) - out.len);
    *bytes = out.data;
    *len = out.len;
}

bool gguf_write_file(const char *path, const void *bytes, size_t len) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool ok = fwrite(bytes, 1, len, f) == len;
    return fclose(f) == 0 && ok;
}

bool gguf_writer_save(const GgufWriter *w, const char *path) {
    char *bytes;
    size_t len;
    gguf_writer_finish(w, &bytes, &len);
    bool ok = gguf_write_file(path, bytes, len);
    free(bytes);
    return ok;
}
