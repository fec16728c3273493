/* quants.c: block types against expected bytes: dequantisation and conversions bit by bit; dots of every instruction
 * set of this machine within the tolerance the manifest states. A set may lack any file: what `types` lists is tested.
 * Quantisers have no cases here: this build has none yet. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "kernel/check.h"
#include "quant/layout.h"
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

/* ---- dots -------------------------------------------------------------------------------------------------------- */

/* The set's activation blocks in the layout of act.h; NULL if it lacks them. Freed by the caller. The sums are formed
 * anew: they are exact here. */
static void *convert_activation(const unsigned char *blocks, const char *kind, int cols, ActForm *form) {
    bool super = !strcmp(kind, "Q8_K"), plain = !strcmp(kind, "Q8_0");
    *form = super ? ACT_Q8_K : ACT_Q8_0;
    int block = super ? 256 : 32, group = super ? 16 : 32;
    char *x = aligned_alloc(64, th_act_bytes(*form, cols));
    if (!x) return NULL;
    memset(x, 0, th_act_bytes(*form, cols));
    int8_t *q = (int8_t *)x;
    char *d_part = x + th_act_q_bytes(cols), *s_part = d_part + th_act_d_bytes(*form, cols);
    for (int b = 0; b < cols / block; b++) {
        float d = super   ? th_f32_from_bits(th_u32(((const BlockQ8_K *)blocks)[b].d))
                  : plain ? th_half(((const BlockQ8_0 *)blocks)[b].d)
                          : th_half(((const BlockQ8_1 *)blocks)[b].d);
        const int8_t *from = super   ? ((const BlockQ8_K *)blocks)[b].q
                             : plain ? ((const BlockQ8_0 *)blocks)[b].q
                                     : ((const BlockQ8_1 *)blocks)[b].q;
        memcpy(d_part + 4 * b, &d, 4);
        memcpy(q + b * block, from, (size_t)block);
    }
    for (int g = 0; g < cols / group; g++) {
        int32_t sum = 0;
        for (int i = 0; i < group; i++) sum += q[g * group + i];
        int16_t narrow = (int16_t)sum;
        if (super)
            memcpy(s_part + 2 * g, &narrow, 2);
        else
            memcpy(s_part + 4 * g, &sum, 4);
    }
    return x;
}

typedef struct DotSet {
    const char *dir, *name, *kind;
    const TypeInfo *info;
    double dot_rel;
    int vectors, cols, rows; /* activation vectors, their length, weight rows of the random section */
    size_t edge_first, edge_count;
    Blob blocks, acts;
} DotSet;

static double read_double(Blob b, size_t i) {
    double d;
    memcpy(&d, b.data + 8 * i, 8);
    return d;
}

/* Products of `rows` rows of `cols` weights with every vector: expected[vector][row], magnitude likewise. */
static void check_products(const DotSet *s, const char *what, const unsigned char *w, int cols, int rows, Blob f64,
                           size_t plane, const IsaSet *isa, Tally *t) {
    Kernels table;
    th_kernels_init(&table, isa->mask);
    const MatKernel *kernel = table.mat[s->info->id];
    size_t stride = (size_t)th_type_row_bytes(s->info, (uint64_t)cols), n = (size_t)s->vectors * (size_t)rows;
    size_t x_blocks = s->acts.size / (size_t)s->vectors, bad = 0;
    float *y = malloc(n * sizeof *y);
    for (int v = 0; v < s->vectors && y; v++) {
        ActForm form;
        void *x = convert_activation(s->acts.data + (size_t)v * x_blocks, s->kind, cols, &form);
        if (!x || form != kernel->act) {
            tally_fail(t, "%s: %s takes another activation form than %s", s->name, kernel->origin, s->kind);
            free(x);
            free(y);
            return;
        }
        kernel->row1(y + (size_t)v * (size_t)rows, w, stride, x, cols, rows);
        free(x);
    }
    for (size_t i = 0; i < n && y; i++) {
        double want = read_double(f64, plane * n + i), magnitude = read_double(f64, (plane + 1) * n + i);
        if (fabs((double)y[i] - want) <= s->dot_rel * magnitude) continue;
        if (bad++ == 0)
            tally_fail(t, "%s %s, %s: vector %zu row %zu: expected %.9g, got %.9g, off by %.3g of the absolute sum",
                       s->name, what, kernel->origin, i / (size_t)rows, i % (size_t)rows, want, (double)y[i],
                       fabs((double)y[i] - want) / magnitude);
    }
    if (!bad) tally_pass(t, "%s %s, %s", s->name, what, kernel->origin);
    free(y);
}

static void check_dots(const DotSet *s, const json_t *dot, Tally *t) {
    IsaSet isas[MAX_ISA_SETS];
    int n_isas = check_isas(isas), width = (int)s->info->block;
    Blob f64 = read_entry(s->dir, dot, "f64"), edge = read_entry(s->dir, dot, "edge_f64");
    size_t n = (size_t)s->vectors * (size_t)s->rows, row_bytes = s->blocks.size;
    bool rows_fit = th_type_row_bytes(s->info, (uint64_t)s->cols) * (uint64_t)s->rows <= row_bytes;
    bool edges_fit = (s->edge_first + s->edge_count) * s->info->bytes <= s->blocks.size && s->edge_count < 10000;
    for (int i = 0; i < n_isas; i++) {
        if (f64.size == 3 * n * 8 && rows_fit)
            check_products(s, "dots", s->blocks.data, s->cols, s->rows, f64, 1, &isas[i], t);
        if (edge.size == 2 * (size_t)s->vectors * s->edge_count * 8 && edges_fit && edge.size)
            check_products(s, "edge dots", s->blocks.data + s->edge_first * s->info->bytes, width, (int)s->edge_count,
                           edge, 0, &isas[i], t);
    }
    if (!f64.data) tally_skip(t, "%s: no expected dots", s->name);
    free(f64.data);
    free(edge.data);
}

static void check_type_dots(const char *dir, const char *name, const json_t *manifest, const json_t *type,
                            const TypeInfo *info, Tally *t) {
    const json_t *dot = json_object_get(type, "dot"),
                 *edge = json_object_get(json_object_get(type, "sections"), "edge");
    if (!dot) return;
    DotSet s = {.dir = dir, .name = name, .info = info};
    s.kind = json_string_value(json_object_get(dot, "activation"));
    s.dot_rel = json_number_value(json_object_get(dot, "dot_rel"));
    s.vectors = (int)json_integer_value(json_object_get(manifest, "activation_vectors"));
    s.cols = (int)json_integer_value(json_object_get(manifest, "cols"));
    s.rows = (int)json_integer_value(json_object_get(manifest, "rows"));
    s.edge_first = (size_t)json_integer_value(json_array_get(edge, 0));
    s.edge_count = (size_t)json_integer_value(json_array_get(edge, 1)) - s.edge_first;
    s.blocks = read_entry(dir, type, "blocks");
    s.acts = read_file(dir, json_string_value(json_object_get(dot, "activation_file")));
    size_t unit = s.kind && !strcmp(s.kind, "Q8_K") ? 292 : s.kind && !strcmp(s.kind, "Q8_1") ? 36 : 34;
    size_t width = unit == 292 ? 256 : 32;
    bool known = s.kind && (!strcmp(s.kind, "Q8_0") || unit != 34);
    if (!known || !s.blocks.data || s.vectors < 1 || s.cols < 1 || s.rows < 1 || s.cols % (int)width != 0 ||
        s.acts.size != (size_t)s.vectors * ((size_t)s.cols / width) * unit)
        tally_skip(t, "%s: no blocks or no activations of form %s", name, s.kind ? s.kind : "?");
    else
        check_dots(&s, dot, t);
    free(s.blocks.data);
    free(s.acts.data);
}

/* ---- the set ----------------------------------------------------------------------------------------------------- */

static void check_type(const char *dir, const char *name, const json_t *manifest, const json_t *type, Tally *t) {
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
    check_type_dots(dir, name, manifest, type, info, t);
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
    json_object_foreach(types, name, type) check_type(dir, name, manifest, type, t);
    json_decref(manifest);
    return true;
}
