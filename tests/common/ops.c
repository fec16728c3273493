/* ops.c: see ops.h. */
#include "common/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/cpu.h"

enum { SCRATCH_BYTES = 8 << 20 };

void op_test_open(OpTest *t, int threads, unsigned isa) {
    *t = (OpTest){0};
    th_kernels_init(&t->kernels, isa & th_cpu_isa());
    t->scratch = (Scratch){.base = aligned_alloc(64, SCRATCH_BYTES), .bytes = SCRATCH_BYTES};
    t->pass = (Pass){.k = &t->kernels, .scratch = &t->scratch, .rows = t->rows, .err = &t->err};
    if (!t->scratch.base || !th_pool_open(&t->pass.pool, threads, &t->err)) abort();
    memset(t->scratch.base, 0x7f, SCRATCH_BYTES); /* nobody may count on zeros */
}

void op_test_close(OpTest *t) {
    th_pool_close(t->pass.pool);
    free(t->scratch.base);
}

void op_test_rows(OpTest *t, int first_position, int T) {
    if (T > (int)TH_COUNT(t->rows)) abort();
    for (int i = 0; i < T; i++)
        t->rows[i] = (PassRow){.position = first_position + i, .seq = (SeqState *)(void *)&t->marker};
    t->pass.T = T;
}

json_t *op_data(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "tests/unit/data/%s.json", name);
    json_t *data = json_load_file(path, 0, NULL);
    if (!data) {
        fprintf(stderr, "%s: not readable from here\n", path);
        abort();
    }
    return data;
}

size_t op_numbers(const json_t *array, float *out, size_t cap) {
    if (json_is_number(array)) {
        if (cap == 0) abort();
        *out = (float)json_number_value(array);
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(array); i++) n += op_numbers(json_array_get(array, i), out + n, cap - n);
    return n;
}

double op_number(const json_t *object, const char *key, double otherwise) {
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : json_is_true(v) ? 1 : otherwise;
}

double op_difference(const float *a, const float *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}
