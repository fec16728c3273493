/* meta.c: typed metadata. Writers are not consistent (a count may be UINT32, INT32 or UINT64, a scalar or an array), so
 * getters accept every type that means the same number and refuse the rest in words. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gguf/loader.h"

enum { CHUNK = 4096, MAX_SCALAR_ARRAY = 65536 };

/* False with err filled stops the walk. */
typedef bool ElementFn(void *to, uint64_t index, GgufNumber x, Err *err);

GgufNumber th_gguf_decode(uint32_t type, const unsigned char *p) {
    GgufNumber x = {.kind = NUMBER_UNSIGNED};
    uint32_t bits;
    float f;
    switch (type) {
    case GGUF_U8:
        x.u = p[0];
        break;
    case GGUF_BOOL:
        x.u = p[0] != 0;
        break;
    case GGUF_U16:
        x.u = th_load_u16(p);
        break;
    case GGUF_U32:
        x.u = th_load_u32(p);
        break;
    case GGUF_U64:
        x.u = th_load_u64(p);
        break;
    case GGUF_I8:
        x = (GgufNumber){.kind = NUMBER_SIGNED, .i = (int8_t)p[0]};
        break;
    case GGUF_I16:
        x = (GgufNumber){.kind = NUMBER_SIGNED, .i = (int16_t)th_load_u16(p)};
        break;
    case GGUF_I32:
        x = (GgufNumber){.kind = NUMBER_SIGNED, .i = (int32_t)th_load_u32(p)};
        break;
    case GGUF_I64:
        x = (GgufNumber){.kind = NUMBER_SIGNED, .i = (int64_t)th_load_u64(p)};
        break;
    case GGUF_F32:
        bits = th_load_u32(p);
        memcpy(&f, &bits, sizeof f);
        x = (GgufNumber){.kind = NUMBER_REAL, .u = bits, .f = (double)f};
        break;
    case GGUF_F64:
        x.kind = NUMBER_REAL;
        x.u = th_load_u64(p);
        memcpy(&x.f, &x.u, sizeof x.f);
        break;
    default:
        break;
    }
    return x;
}

static bool wrong_type(const GgufKv *kv, const char *wanted, Err *err) {
    if (kv->type == GGUF_ARRAY)
        return th_fail(err, THIMBLE_E_FORMAT, "an array of %llu %s, %s is needed", (unsigned long long)kv->count,
                       th_gguf_type_name(kv->element), wanted);
    return th_fail(err, THIMBLE_E_FORMAT, "type %s, %s is needed", th_gguf_type_name(kv->type), wanted);
}

static bool prefix_key(const GgufKv *kv, Err *err) {
    char name[128];
    th_str_escape(kv->key, name, sizeof name);
    return th_err_prefix(err, "key %s: ", name);
}

static bool is_integer(uint32_t type) { return type <= GGUF_I32 || type == GGUF_U64 || type == GGUF_I64; }
static bool is_number(uint32_t type) { return is_integer(type) || type == GGUF_F32 || type == GGUF_F64; }
static uint32_t element_type(const GgufKv *kv) { return kv->type == GGUF_ARRAY ? kv->element : kv->type; }

static GgufNumber scalar(const GgufKv *kv) {
    GgufNumber x = {.kind = NUMBER_UNSIGNED, .u = kv->value.u};
    if (kv->type == GGUF_F32 || kv->type == GGUF_F64) x = (GgufNumber){.kind = NUMBER_REAL, .f = kv->value.f};
    if (kv->type == GGUF_I8 || kv->type == GGUF_I16 || kv->type == GGUF_I32 || kv->type == GGUF_I64)
        x = (GgufNumber){.kind = NUMBER_SIGNED, .i = kv->value.i};
    return x;
}

/* The first n elements of a numeric array, in order, through a small buffer. */
static bool each_element(const Gguf *g, const GgufKv *kv, uint64_t n, ElementFn *fn, void *to, Err *err) {
    unsigned char chunk[CHUNK];
    size_t size = th_gguf_type_bytes(kv->element), per_chunk = CHUNK / size;
    for (uint64_t i = 0; i < n;) {
        size_t some = n - i < per_chunk ? (size_t)(n - i) : per_chunk;
        if (!th_file_read(&g->files[0], chunk, some * size, kv->offset + i * size, err)) return false;
        for (size_t j = 0; j < some; j++, i++)
            if (!fn(to, i, th_gguf_decode(kv->element, chunk + j * size), err)) return false;
    }
    return true;
}

/* ---- range checks ---- */

static bool int_in_range(GgufNumber x, int64_t min, int64_t max, int64_t *out, Err *err) {
    if (x.kind == NUMBER_UNSIGNED && x.u > INT64_MAX)
        return th_fail(err, THIMBLE_E_FORMAT, "%llu, allowed are %lld to %lld", (unsigned long long)x.u, (long long)min,
                       (long long)max);
    int64_t i = x.kind == NUMBER_UNSIGNED ? (int64_t)x.u : x.i;
    if (i < min || i > max)
        return th_fail(err, THIMBLE_E_FORMAT, "%lld, allowed are %lld to %lld", (long long)i, (long long)min,
                       (long long)max);
    *out = i;
    return true;
}

static bool real_in_range(GgufNumber x, double min, double max, double *out, Err *err) {
    double f = x.kind == NUMBER_REAL ? x.f : x.kind == NUMBER_SIGNED ? (double)x.i : (double)x.u;
    if (!isfinite(f) || f < min || f > max)
        return th_fail(err, THIMBLE_E_FORMAT, "%g, allowed are finite values from %g to %g", f, min, max);
    *out = f;
    return true;
}

/* ---- a scalar, or an array that says the same n times ---- */

typedef struct Same {
    GgufNumber first;
    bool equal;
} Same;

static bool compare_element(void *to, uint64_t index, GgufNumber x, Err *err) {
    (void)err;
    Same *same = to;
    if (index == 0) *same = (Same){x, true};
    const GgufNumber *a = &same->first;
    same->equal = same->equal && a->i == x.i && a->u == x.u; /* of reals, u is the bits */
    return true;
}

static bool one_number(const Gguf *g, const GgufKv *kv, const char *wanted, GgufNumber *out, Err *err) {
    if (kv->type != GGUF_ARRAY) {
        *out = scalar(kv);
        return true;
    }
    Same same = {.equal = false};
    if (kv->count == 0 || kv->count > MAX_SCALAR_ARRAY) return wrong_type(kv, wanted, err);
    if (!each_element(g, kv, kv->count, compare_element, &same, err)) return false;
    if (!same.equal) return th_fail(err, THIMBLE_E_FORMAT, "an array of different values, %s is needed", wanted);
    *out = same.first;
    return true;
}

bool th_gguf_get_int(const Gguf *g, const char *key, int64_t min, int64_t max, int64_t *out, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    GgufNumber x;
    if (!kv) return true;
    if (!is_integer(element_type(kv))) return wrong_type(kv, "an integer", err), prefix_key(kv, err);
    if (!one_number(g, kv, "one integer", &x, err) || !int_in_range(x, min, max, out, err)) return prefix_key(kv, err);
    return true;
}

bool th_gguf_get_real(const Gguf *g, const char *key, double min, double max, double *out, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    GgufNumber x;
    if (!kv) return true;
    if (!is_number(element_type(kv))) return wrong_type(kv, "a number", err), prefix_key(kv, err);
    if (!one_number(g, kv, "one number", &x, err) || !real_in_range(x, min, max, out, err)) return prefix_key(kv, err);
    return true;
}

bool th_gguf_get_bool(const Gguf *g, const char *key, bool *out, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    GgufNumber x;
    int64_t value = 0;
    if (!kv) return true;
    uint32_t type = element_type(kv);
    if (type != GGUF_BOOL && !is_integer(type)) return wrong_type(kv, "a truth value", err), prefix_key(kv, err);
    if (!one_number(g, kv, "one truth value", &x, err) || !int_in_range(x, 0, 1, &value, err))
        return prefix_key(kv, err);
    *out = value != 0;
    return true;
}

bool th_gguf_get_str(const Gguf *g, const char *key, Str *out, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    if (!kv) return true;
    if (kv->type != GGUF_STRING) return wrong_type(kv, "a text", err), prefix_key(kv, err);
    if (!kv->text)
        return th_fail(err, THIMBLE_E_FORMAT, "a text of %llu bytes is too long here", (unsigned long long)kv->count),
               prefix_key(kv, err);
    *out = (Str){kv->text, (size_t)kv->count};
    return true;
}

/* ---- one value per layer ---- */

static bool check_length(const GgufKv *kv, size_t n, size_t slack, Err *err) {
    if (kv->type != GGUF_ARRAY || (kv->count >= n && kv->count - n <= slack)) return true;
    return th_fail(err, THIMBLE_E_FORMAT, "an array of %llu values, %zu are needed", (unsigned long long)kv->count, n);
}

typedef struct IntSink {
    int64_t min, max, *out;
    int32_t *narrow; /* instead of out */
} IntSink;

static bool put_int(void *to, uint64_t index, GgufNumber x, Err *err) {
    const IntSink *sink = to;
    int64_t value = 0;
    if (!int_in_range(x, sink->min, sink->max, &value, err))
        return th_err_prefix(err, "element %llu: ", (unsigned long long)index);
    if (sink->narrow)
        sink->narrow[index] = (int32_t)value;
    else
        sink->out[index] = value;
    return true;
}

bool th_gguf_get_ints(const Gguf *g, const char *key, size_t n, size_t slack, int64_t min, int64_t max, int64_t *out,
                      bool *present, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    *present = kv != NULL;
    if (!kv) return true;
    uint32_t type = element_type(kv);
    if (type != GGUF_BOOL && !is_integer(type)) return wrong_type(kv, "an integer", err), prefix_key(kv, err);
    if (!check_length(kv, n, slack, err)) return prefix_key(kv, err);
    IntSink sink = {.min = min, .max = max, .out = out};
    if (kv->type == GGUF_ARRAY) return each_element(g, kv, n, put_int, &sink, err) || prefix_key(kv, err);
    int64_t value = 0;
    if (!int_in_range(scalar(kv), min, max, &value, err)) return prefix_key(kv, err);
    for (size_t i = 0; i < n; i++) out[i] = value;
    return true;
}

typedef struct RealSink {
    double min, max, *out;
    float *narrow; /* instead of out */
} RealSink;

static bool put_real(void *to, uint64_t index, GgufNumber x, Err *err) {
    const RealSink *sink = to;
    double value = 0;
    if (!real_in_range(x, sink->min, sink->max, &value, err))
        return th_err_prefix(err, "element %llu: ", (unsigned long long)index);
    if (sink->narrow)
        sink->narrow[index] = (float)value;
    else
        sink->out[index] = value;
    return true;
}

bool th_gguf_get_reals(const Gguf *g, const char *key, size_t n, size_t slack, double min, double max, double *out,
                       bool *present, Err *err) {
    const GgufKv *kv = th_gguf_kv(g, key);
    *present = kv != NULL;
    if (!kv) return true;
    if (!is_number(element_type(kv))) return wrong_type(kv, "a number", err), prefix_key(kv, err);
    if (!check_length(kv, n, slack, err)) return prefix_key(kv, err);
    RealSink sink = {.min = min, .max = max, .out = out};
    if (kv->type == GGUF_ARRAY) return each_element(g, kv, n, put_real, &sink, err) || prefix_key(kv, err);
    double value = 0;
    if (!real_in_range(scalar(kv), min, max, &value, err)) return prefix_key(kv, err);
    for (size_t i = 0; i < n; i++) out[i] = value;
    return true;
}

/* ---- whole values ---- */

/* On machines of 32 bits a sound file may hold more than can be addressed. */
static bool fits_in_memory(const GgufKv *kv, Err *err) {
    if (kv->payload <= SIZE_MAX / 2 && kv->count <= SIZE_MAX / 2 / sizeof(Str)) return true;
    return th_fail(err, THIMBLE_E_UNSUPPORTED, "%llu bytes are more than this machine can address",
                   (unsigned long long)kv->payload);
}

bool th_gguf_read_text(const Gguf *g, const GgufKv *kv, Arena *arena, Str *out, Err *err) {
    if (kv->type != GGUF_STRING) return wrong_type(kv, "a text", err), prefix_key(kv, err);
    char *text = fits_in_memory(kv, err) ? th_arena_alloc(arena, (size_t)kv->count + 1, err) : NULL;
    if (!text) return prefix_key(kv, err);
    if (kv->text)
        memcpy(text, kv->text, (size_t)kv->count);
    else if (!th_file_read(&g->files[0], text, (size_t)kv->count, kv->offset, err))
        return prefix_key(kv, err);
    *out = (Str){text, (size_t)kv->count};
    return true;
}

bool th_gguf_read_strings(const Gguf *g, const GgufKv *kv, Arena *arena, Str **out, Err *err) {
    if (kv->type != GGUF_ARRAY || kv->element != GGUF_STRING)
        return wrong_type(kv, "an array of texts", err), prefix_key(kv, err);
    unsigned char *block = fits_in_memory(kv, err) ? th_arena_alloc(arena, (size_t)kv->payload, err) : NULL;
    Str *texts = block ? th_arena_array(arena, (size_t)kv->count, sizeof *texts, err) : NULL;
    if (!texts || !th_file_read(&g->files[0], block, (size_t)kv->payload, kv->offset, err)) return prefix_key(kv, err);
    uint64_t at = 0;
    for (uint64_t i = 0; i < kv->count; i++) {
        /* Checked when the file was opened; it may have been changed since. */
        uint64_t len = kv->payload - at < 8 ? UINT64_MAX : th_load_u64(block + at);
        if (len == UINT64_MAX || len > kv->payload - at - 8)
            return th_fail(err, THIMBLE_E_IO, "the file changed while it was in use"), prefix_key(kv, err);
        texts[i] = (Str){(const char *)block + at + 8, (size_t)len};
        at += 8 + len;
    }
    *out = texts;
    return true;
}

bool th_gguf_read_ints(const Gguf *g, const GgufKv *kv, Arena *arena, int64_t min, int64_t max, int32_t **out,
                       Err *err) {
    if (kv->type != GGUF_ARRAY || (kv->element != GGUF_BOOL && !is_integer(kv->element)))
        return wrong_type(kv, "an array of integers", err), prefix_key(kv, err);
    IntSink sink = {.min = min < INT32_MIN ? INT32_MIN : min, .max = max > INT32_MAX ? INT32_MAX : max};
    if (!fits_in_memory(kv, err)) return prefix_key(kv, err);
    sink.narrow = th_arena_array(arena, (size_t)kv->count, sizeof *sink.narrow, err);
    if (!sink.narrow || !each_element(g, kv, kv->count, put_int, &sink, err)) return prefix_key(kv, err);
    *out = sink.narrow;
    return true;
}

bool th_gguf_read_reals(const Gguf *g, const GgufKv *kv, Arena *arena, float **out, Err *err) {
    if (kv->type != GGUF_ARRAY || !is_number(kv->element))
        return wrong_type(kv, "an array of numbers", err), prefix_key(kv, err);
    RealSink sink = {.min = -3.4028234663852886e38, .max = 3.4028234663852886e38};
    if (!fits_in_memory(kv, err)) return prefix_key(kv, err);
    sink.narrow = th_arena_array(arena, (size_t)kv->count, sizeof *sink.narrow, err);
    if (!sink.narrow || !each_element(g, kv, kv->count, put_real, &sink, err)) return prefix_key(kv, err);
    *out = sink.narrow;
    return true;
}

/* Summary of a file's dominant encoding; for display only, forks use clashing values (gguf-container, 8). */
const char *th_gguf_file_type_name(int64_t file_type) {
    static const char *const names[] = {
        "F32",    "F16",     "Q4_0",   "Q4_1",   NULL,     NULL,     NULL,     "Q8_0",  "Q5_0",    "Q5_1",   "Q2_K",
        "Q3_K_S", "Q3_K_M",  "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S",
        "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S",  "IQ2_M", "IQ4_XS",  "IQ1_M",  "BF16",
        NULL,     NULL,      NULL,     "TQ1_0",  "TQ2_0",  "MXFP4",  "NVFP4",  "Q1_0",  "Q2_0"};
    int64_t id = file_type & ~(int64_t)1024; /* flag "guessed", set by tools at run time */
    return id >= 0 && id < (int64_t)TH_COUNT(names) ? names[id] : NULL;
}
