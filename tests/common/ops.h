/* ops.h: what tests of src/op need: a pass with a pool, kernels and scratch, and numbers from the small JSON files in
 * tests/unit/data (copies of the numeric vectors for layer operations).
 *
 *     OpTest t;  op_test_open(&t, threads);  op_test_rows(&t, first_position, T);  ... t.pass ...  op_test_close(&t);
 */
#ifndef THIMBLE_OPS_H
#define THIMBLE_OPS_H

#include <jansson.h>

#include "op/op.h"

typedef struct OpTest {
    Pass pass;
    Kernels kernels;
    Scratch scratch;
    PassRow rows[64];
    int marker; /* stands for the sequence: ops compare addresses alone */
    Err err;
} OpTest;

/* All abort on failure. Of `isa`, what this machine has. */
void op_test_open(OpTest *t, int threads, unsigned isa);
void op_test_close(OpTest *t);
void op_test_rows(OpTest *t, int first_position, int T);
json_t *op_data(const char *name); /* tests/unit/data/<name>.json */
/* Numbers of any nesting, in order; returns how many. */
size_t op_numbers(const json_t *array, float *out, size_t cap);
double op_number(const json_t *object, const char *key, double otherwise);
/* Largest |a - b|. */
double op_difference(const float *a, const float *b, size_t n);

#endif
