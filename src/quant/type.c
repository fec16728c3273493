/* type.c: the one list of tensor types, and the names of ids that belong to others.
 *
 * Ids come from files. Whatever is not in the list is refused by the caller; th_type_foreign then says whose it is, so
 * that a user of a fork's file learns what to ask for instead of reading "type 139". */
#include "quant/type.h"

#include "quant/layout.h"

#define INFO(ID, NAME, BLOCK, BYTES, FAMILY, FN) [ID] = {ID, NAME, BLOCK, BYTES, FAMILY, FN}

static const TypeInfo types[N_TYPES] = {
    INFO(TYPE_F32, "F32", 1, 4, "float", th_dequantize_f32),
    INFO(TYPE_F16, "F16", 1, 2, "float", th_dequantize_f16),
    INFO(TYPE_BF16, "BF16", 1, 2, "float", th_dequantize_bf16),
    INFO(TYPE_F64, "F64", 1, 8, "float", th_dequantize_f64),
    INFO(TYPE_Q4_0, "Q4_0", 32, 18, "legacy", th_dequantize_q4_0),
    INFO(TYPE_Q4_1, "Q4_1", 32, 20, "legacy", th_dequantize_q4_1),
    INFO(TYPE_Q5_0, "Q5_0", 32, 22, "legacy", th_dequantize_q5_0),
    INFO(TYPE_Q5_1, "Q5_1", 32, 24, "legacy", th_dequantize_q5_1),
    INFO(TYPE_Q8_0, "Q8_0", 32, 34, "legacy", th_dequantize_q8_0),
    INFO(TYPE_Q8_1, "Q8_1", 32, 36, "legacy", th_dequantize_q8_1),
    INFO(TYPE_Q2_K, "Q2_K", 256, 84, "kq", th_dequantize_q2_k),
    INFO(TYPE_Q3_K, "Q3_K", 256, 110, "kq", th_dequantize_q3_k),
    INFO(TYPE_Q4_K, "Q4_K", 256, 144, "kq", th_dequantize_q4_k),
    INFO(TYPE_Q5_K, "Q5_K", 256, 176, "kq", th_dequantize_q5_k),
    INFO(TYPE_Q6_K, "Q6_K", 256, 210, "kq", th_dequantize_q6_k),
    INFO(TYPE_Q8_K, "Q8_K", 256, 292, "kq", th_dequantize_q8_k),
    INFO(TYPE_IQ2_XXS, "IQ2_XXS", 256, 66, "iq", th_dequantize_iq2_xxs),
    INFO(TYPE_IQ2_XS, "IQ2_XS", 256, 74, "iq", th_dequantize_iq2_xs),
    INFO(TYPE_IQ2_S, "IQ2_S", 256, 82, "iq", th_dequantize_iq2_s),
    INFO(TYPE_IQ3_XXS, "IQ3_XXS", 256, 98, "iq", th_dequantize_iq3_xxs),
    INFO(TYPE_IQ3_S, "IQ3_S", 256, 110, "iq", th_dequantize_iq3_s),
    INFO(TYPE_IQ1_S, "IQ1_S", 256, 50, "iq", th_dequantize_iq1_s),
    INFO(TYPE_IQ1_M, "IQ1_M", 256, 56, "iq", th_dequantize_iq1_m),
    INFO(TYPE_IQ4_NL, "IQ4_NL", 32, 18, "iq", th_dequantize_iq4_nl),
    INFO(TYPE_IQ4_XS, "IQ4_XS", 256, 136, "iq", th_dequantize_iq4_xs),
    INFO(TYPE_TQ1_0, "TQ1_0", 256, 54, "lowbit", th_dequantize_tq1_0),
    INFO(TYPE_TQ2_0, "TQ2_0", 256, 66, "lowbit", th_dequantize_tq2_0),
    INFO(TYPE_Q1_0, "Q1_0", 128, 18, "lowbit", th_dequantize_q1_0),
    INFO(TYPE_Q2_0, "Q2_0", 64, 18, "lowbit", th_dequantize_q2_0),
    INFO(TYPE_PQ2_0, "PQ2_0", 128, 34, "lowbit", th_dequantize_pq2_0),
    INFO(TYPE_PTQ1_0, "PTQ1_0", 128, 28, "lowbit", th_dequantize_ptq1_0),
    INFO(TYPE_MXFP4, "MXFP4", 32, 17, "fp4", th_dequantize_mxfp4),
    INFO(TYPE_NVFP4, "NVFP4", 64, 36, "fp4", th_dequantize_nvfp4),
    INFO(TYPE_I8, "I8", 1, 1, "int", NULL),
    INFO(TYPE_I16, "I16", 1, 2, "int", NULL),
    INFO(TYPE_I32, "I32", 1, 4, "int", NULL),
    INFO(TYPE_I64, "I64", 1, 8, "int", NULL),
};

const TypeInfo *th_type_info(uint32_t id) { return id < N_TYPES && types[id].name ? &types[id] : NULL; }

static const struct {
    uint32_t first, last;
    const char *name;
} foreign[] = {
    {4, 4, "Q4_2, removed from the format"},
    {5, 5, "Q4_3, removed from the format"},
    {31, 31, "Q4_0_4_4, removed from the format"},
    {32, 32, "Q4_0_4_8, removed from the format"},
    {33, 33, "Q4_0_8_8, removed from the format"},
    {36, 36, "IQ4_NL_4_4, removed from the format, or I2_S of BitNet forks and ik_llama.cpp"},
    {37, 37, "IQ4_NL_4_8, removed from the format"},
    {38, 38, "IQ4_NL_8_8, removed from the format"},
    {97, 97, "Q8_0_X4 of ik_llama.cpp"},
    {98, 98, "Q8_1_X4 of ik_llama.cpp"},
    {99, 99, "Q8_2_X4 of ik_llama.cpp"},
    {133, 133, "Q6_0 of ik_llama.cpp"},
    {134, 134, "IQ1_BN of ik_llama.cpp"},
    {135, 135, "IQ2_BN of ik_llama.cpp"},
    {136, 136, "Q8_K64 of ik_llama.cpp"},
    {137, 137, "IQ2_K of ik_llama.cpp"},
    {138, 138, "IQ3_K of ik_llama.cpp"},
    {139, 139, "IQ4_K of ik_llama.cpp"},
    {140, 140, "IQ5_K of ik_llama.cpp"},
    {141, 141, "IQ6_K of ik_llama.cpp"},
    {144, 144, "IQ4_KS of ik_llama.cpp"},
    {145, 145, "IQ2_KS of ik_llama.cpp"},
    {146, 146, "IQ4_KSS of ik_llama.cpp"},
    {147, 147, "Q8_K16 of ik_llama.cpp"},
    {148, 148, "Q8_K32 of ik_llama.cpp"},
    {149, 149, "Q8_KR8 of ik_llama.cpp"},
    {150, 150, "Q8_K128 of ik_llama.cpp"},
    {151, 151, "Q8_KV of ik_llama.cpp"},
    {152, 152, "IQ5_KS of ik_llama.cpp"},
    {153, 153, "IQ2_KT of ik_llama.cpp"},
    {154, 154, "IQ3_KT of ik_llama.cpp"},
    {155, 155, "IQ4_KT of ik_llama.cpp"},
    {156, 156, "IQ3_KS of ik_llama.cpp"},
    {157, 157, "IQ2_KL of ik_llama.cpp"},
    {158, 158, "IQ1_KT of ik_llama.cpp"},
    {202, 399, "a row-interleaved type of ik_llama.cpp"},
};

const char *th_type_foreign(uint32_t id) {
    for (size_t i = 0; i < TH_COUNT(foreign); i++) {
        if (id >= foreign[i].first && id <= foreign[i].last) return foreign[i].name;
    }
    return NULL;
}

uint64_t th_type_row_bytes(const TypeInfo *t, uint64_t n) {
    uint64_t bytes;
    if (n % t->block != 0 || !th_size_mul(n / t->block, t->bytes, &bytes)) return 0;
    return bytes;
}
