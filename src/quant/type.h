/* type.h: what the bytes of a weight mean: the one list of tensor types (gguf-tensor-types, section 1). */
#ifndef THIMBLE_TYPE_H
#define THIMBLE_TYPE_H

#include "base/base.h"

enum {
    TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q4_1 = 3, TYPE_Q5_0 = 6, TYPE_Q5_1 = 7, TYPE_Q8_0 = 8,
    TYPE_Q8_1 = 9,
    TYPE_Q2_K = 10, TYPE_Q3_K = 11, TYPE_Q4_K = 12, TYPE_Q5_K = 13, TYPE_Q6_K = 14, TYPE_Q8_K = 15, TYPE_IQ2_XXS = 16,
    TYPE_IQ2_XS = 17, TYPE_IQ3_XXS = 18, TYPE_IQ1_S = 19, TYPE_IQ4_NL = 20, TYPE_IQ3_S = 21, TYPE_IQ2_S = 22,
    TYPE_IQ4_XS = 23, TYPE_I8 = 24, TYPE_I16 = 25, TYPE_I32 = 26, TYPE_I64 = 27, TYPE_F64 = 28, TYPE_IQ1_M = 29,
    TYPE_BF16 = 30, TYPE_TQ1_0 = 34, TYPE_TQ2_0 = 35, TYPE_MXFP4 = 39, TYPE_NVFP4 = 40, TYPE_Q1_0 = 41, TYPE_Q2_0 = 42,
    TYPE_PQ2_0 = 142, TYPE_PTQ1_0 = 143,
    N_TYPES = 144 /* tables indexed by id have this many entries, most of them empty */
};

typedef struct TypeInfo {
    uint32_t id;
    const char *name;
    uint32_t block, bytes; /* weights and bytes of a block */
    const char *family;    /* "float", "legacy", "kq", "iq", "lowbit", "fp4", "int" */
    /* y[0..n) from n/block blocks; n is a multiple of block. Bit-exact. NULL for integer data (I8..I64). */
    void (*dequantize)(float *y, const void *w, size_t n);
} TypeInfo;

const TypeInfo *th_type_info(uint32_t id); /* NULL: not a type this build knows */
/* Why an id is refused: "IQ2_K of ik_llama.cpp", "Q4_2, removed from the format"; NULL: nobody's. */
const char *th_type_foreign(uint32_t id);
/* Bytes of a row of n weights; 0 if n is not a multiple of the block or the size does not fit. */
uint64_t th_type_row_bytes(const TypeInfo *t, uint64_t n);

#endif
