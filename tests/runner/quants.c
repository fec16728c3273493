/* quants.c: block types against expected bytes: dequantisation and conversions bit by bit, dots within the tolerance
 * the manifest states. A set may lack any file: what `types` lists is tested. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "quant/type.h"
#include "runner/vectors.h"

typedef struct Blob {
    unsigned char *data;
    size_t size;
} Blob;

/* A file of the set; data == NULL when it is not there. Freed by the caller. */
static Blob read_file(const char *dir, const char *name) {
    char path[4096];
    Blob b = {0};
    if (!name || snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return b;
    FILE *f = fopen(path, "rb");
    if (!f) return b;
    if (fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        rewind(f);
        b.data = size > 0 ? malloc((size_t)size) : NULL;
        if (b.data) b.size = fread(b.data, 1, (size_t)size, f);
    }
    fclose(f);
    return b;
}

static Blob read_entry(const char *dir, const json_t *owner, const char *key) {
    return read_file(dir, json_string_value(json_object_get(json_object_get(owner, key), "file")));
}

static bool same_float(float a, float b) {
    return th_f32_bits(a) == th_f32_bits(b) || (a == 0 && b == 0) || (isnan(a) && isnan(b));
}

static void check_dequantize(const char *dir, const char *name, const json_t *type, const TypeInfo *info, Tally *t) {
    Blob blocks = read_entry(dir, type, "blocks"), expected = read_entry(dir, type, "f32");
    size_t n = blocks.size / info->bytes * info->block, bad = 0, first = 0;
    float *y = blocks.data && expected.data ? malloc(n * sizeof *y) : NULL;
    if (!y) {
        tally_skip(t, "%s: no blocks or no expected floats", name);
    } else if (expected.size != n * sizeof *y) {
        tally_fail(t, "%s: %zu weights in the blocks, %zu expected", name, n, expected.size / sizeof *y);
    } else {
        info->dequantize(y, blocks.data, n);
        for (size_t i = n; i-- > 0;) {
            float want;
            memcpy(&want, expected.data + 4 * i, 4);
            if (!same_float(y[i], want)) bad++, first = i;
        }
        float want;
        memcpy(&want, expected.data + 4 * first, 4);
        if (bad)
            tally_fail(t, "%s: %zu of %zu weights differ, first %zu: expected %a, got %a", name, bad, n, first,
                       (double)want, (double)y[first]);
        else
            tally_pass(t, "%s: dequantise", name);
    }
    free(y);
    free(blocks.data);
    free(expected.data);
}

static void check_conversion(const char *dir, const json_t *common, const char *key, uint16_t (*convert)(float),
                             Tally *t) {
    Blob in = read_entry(dir, common, "conv.f32.bin"), out = read_entry(dir, common, key);
    if (!in.data || !out.data || in.size / 4 != out.size / 2) {
        tally_skip(t, "%s: not in the set", key);
    } else {
        size_t bad = 0;
        for (size_t i = 0; i < in.size / 4; i++) {
            float f;
            uint16_t want;
            memcpy(&f, in.data + 4 * i, 4);
            memcpy(&want, out.data + 2 * i, 2);
            uint16_t got = convert(f);
            if (got != want && bad++ == 0)
                tally_fail(t, "%s: %a: expected %04x, got %04x", key, (double)f, (unsigned)want, (unsigned)got);
        }
        if (!bad) tally_pass(t, "%s", key);
    }
    free(in.data);
    free(out.data);
}

static void check_type(const char *dir, const char *name, const json_t *type, Tally *t) {
    uint32_t id = (uint32_t)json_integer_value(json_object_get(type, "id"));
    const TypeInfo *info = th_type_info(id);
    if (!info || strcmp(info->name, name) != 0 || !info->dequantize) {
        tally_fail(t, "%s: id %u is %s here", name, (unsigned)id, info ? info->name : "unknown");
        return;
    }
    if (info->block != json_integer_value(json_object_get(type, "block")) ||
        info->bytes != json_integer_value(json_object_get(type, "bytes"))) {
        tally_fail(t, "%s: %u weights in %u bytes here", name, (unsigned)info->block, (unsigned)info->bytes);
        return;
    }
    check_dequantize(dir, name, type, info, t);
}

bool vectors_quants(const char *dir, Tally *t) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/manifest.json", dir) >= (int)sizeof path) return false;
    json_t *manifest = json_load_file(path, 0, NULL);
    json_t *types = json_object_get(manifest, "types"), *common = json_object_get(manifest, "common");
    if (!types) {
        json_decref(manifest);
        return false;
    }
    check_conversion(dir, common, "conv.f16.bin", th_f32_to_f16, t);
    check_conversion(dir, common, "conv.bf16.bin", th_f32_to_bf16, t);
    const char *name;
    json_t *type;
    json_object_foreach(types, name, type) check_type(dir, name, type, t);
    json_decref(manifest);
    return true;
}
