/* init_x86.c: which kernel serves which type on this machine: ascending, so that the best one an instruction set mask
 * allows stays. No intrinsics here: this file is compiled for any x86-64. */
#include "kernel/x86/kernels_x86.h"

static void init_avx2(Kernels *k) {
    k->mat[TYPE_Q4_0] = &th_q4_0_avx2;
    k->mat[TYPE_Q4_1] = &th_q4_1_avx2;
    k->mat[TYPE_Q5_0] = &th_q5_0_avx2;
    k->mat[TYPE_Q5_1] = &th_q5_1_avx2;
    k->mat[TYPE_Q8_0] = &th_q8_0_avx2;
    k->mat[TYPE_Q2_K] = &th_q2_k_avx2;
    k->mat[TYPE_Q3_K] = &th_q3_k_avx2;
    k->mat[TYPE_Q4_K] = &th_q4_k_avx2;
    k->mat[TYPE_Q5_K] = &th_q5_k_avx2;
    k->mat[TYPE_Q6_K] = &th_q6_k_avx2;
    k->mat[TYPE_IQ2_XXS] = &th_iq2_xxs_avx2;
    k->mat[TYPE_IQ2_XS] = &th_iq2_xs_avx2;
    k->mat[TYPE_IQ2_S] = &th_iq2_s_avx2;
    k->mat[TYPE_IQ3_XXS] = &th_iq3_xxs_avx2;
    k->mat[TYPE_IQ3_S] = &th_iq3_s_avx2;
    k->mat[TYPE_IQ1_S] = &th_iq1_s_avx2;
    k->mat[TYPE_IQ1_M] = &th_iq1_m_avx2;
    k->mat[TYPE_IQ4_XS] = &th_iq4_xs_avx2;
    k->mat[TYPE_IQ4_NL] = &th_iq4_nl_avx2;
    k->mat[TYPE_MXFP4] = &th_mxfp4_avx2;
    k->mat[TYPE_TQ1_0] = &th_tq1_0_avx2;
    k->mat[TYPE_TQ2_0] = &th_tq2_0_avx2;
    k->mat[TYPE_Q1_0] = &th_q1_0_avx2;
    k->mat[TYPE_Q2_0] = &th_q2_0_avx2;
    k->mat[TYPE_PQ2_0] = &th_pq2_0_avx2;
    k->mat[TYPE_PTQ1_0] = &th_ptq1_0_avx2;
    k->mat[TYPE_NVFP4] = &th_nvfp4_avx2;
    k->mat[TYPE_F32] = &th_f32_avx2;
    k->mat[TYPE_F16] = &th_f16_avx2;
    k->mat[TYPE_BF16] = &th_bf16_avx2;
    k->act[ACT_Q8_0] = th_act_q8_0_avx2;
    k->act[ACT_Q8_K] = th_act_q8_k_avx2;
    k->vec = th_vec_avx2;
    k->scan = th_scan_avx2;
    k->attn = th_attn_avx2;
}

static void init_avxvnni(Kernels *k) {
    k->mat[TYPE_Q4_0] = &th_q4_0_avxvnni;
    k->mat[TYPE_Q4_1] = &th_q4_1_avxvnni;
    k->mat[TYPE_Q5_0] = &th_q5_0_avxvnni;
    k->mat[TYPE_Q5_1] = &th_q5_1_avxvnni;
    k->mat[TYPE_Q8_0] = &th_q8_0_avxvnni;
    k->mat[TYPE_Q2_K] = &th_q2_k_avxvnni;
    k->mat[TYPE_Q3_K] = &th_q3_k_avxvnni;
    k->mat[TYPE_Q4_K] = &th_q4_k_avxvnni;
    k->mat[TYPE_Q5_K] = &th_q5_k_avxvnni;
    k->mat[TYPE_Q6_K] = &th_q6_k_avxvnni;
    k->mat[TYPE_IQ2_XXS] = &th_iq2_xxs_avxvnni;
    k->mat[TYPE_IQ2_XS] = &th_iq2_xs_avxvnni;
    k->mat[TYPE_IQ2_S] = &th_iq2_s_avxvnni;
    k->mat[TYPE_IQ3_XXS] = &th_iq3_xxs_avxvnni;
    k->mat[TYPE_IQ3_S] = &th_iq3_s_avxvnni;
    k->mat[TYPE_IQ1_S] = &th_iq1_s_avxvnni;
    k->mat[TYPE_IQ1_M] = &th_iq1_m_avxvnni;
    k->mat[TYPE_IQ4_XS] = &th_iq4_xs_avxvnni;
    k->mat[TYPE_IQ4_NL] = &th_iq4_nl_avxvnni;
    k->mat[TYPE_MXFP4] = &th_mxfp4_avxvnni;
    k->mat[TYPE_TQ1_0] = &th_tq1_0_avxvnni;
    k->mat[TYPE_TQ2_0] = &th_tq2_0_avxvnni;
    k->mat[TYPE_Q1_0] = &th_q1_0_avxvnni;
    k->mat[TYPE_Q2_0] = &th_q2_0_avxvnni;
    k->mat[TYPE_PQ2_0] = &th_pq2_0_avxvnni;
    k->mat[TYPE_PTQ1_0] = &th_ptq1_0_avxvnni;
    k->mat[TYPE_NVFP4] = &th_nvfp4_avxvnni;
}

static void init_avx512(Kernels *k) {
    k->mat[TYPE_F32] = &th_f32_avx512;
    k->mat[TYPE_F16] = &th_f16_avx512;
    k->mat[TYPE_BF16] = &th_bf16_avx512;
    k->act[ACT_Q8_0] = th_act_q8_0_avx512;
    k->act[ACT_Q8_K] = th_act_q8_k_avx512;
    k->vec = th_vec_avx512;
    k->scan = th_scan_avx512;
    k->attn = th_attn_avx512;
}

static void init_avx512vnni(Kernels *k) {
    k->mat[TYPE_Q4_0] = &th_q4_0_avx512vnni;
    k->mat[TYPE_Q4_1] = &th_q4_1_avx512vnni;
    k->mat[TYPE_Q5_0] = &th_q5_0_avx512vnni;
    k->mat[TYPE_Q5_1] = &th_q5_1_avx512vnni;
    k->mat[TYPE_Q8_0] = &th_q8_0_avx512vnni;
    k->mat[TYPE_Q2_K] = &th_q2_k_avx512vnni;
    k->mat[TYPE_Q3_K] = &th_q3_k_avx512vnni;
    k->mat[TYPE_Q4_K] = &th_q4_k_avx512vnni;
    k->mat[TYPE_Q5_K] = &th_q5_k_avx512vnni;
    k->mat[TYPE_Q6_K] = &th_q6_k_avx512vnni;
    k->mat[TYPE_IQ2_XXS] = &th_iq2_xxs_avx512vnni;
    k->mat[TYPE_IQ2_XS] = &th_iq2_xs_avx512vnni;
    k->mat[TYPE_IQ2_S] = &th_iq2_s_avx512vnni;
    k->mat[TYPE_IQ3_XXS] = &th_iq3_xxs_avx512vnni;
    k->mat[TYPE_IQ3_S] = &th_iq3_s_avx512vnni;
    k->mat[TYPE_IQ1_S] = &th_iq1_s_avx512vnni;
    k->mat[TYPE_IQ1_M] = &th_iq1_m_avx512vnni;
    k->mat[TYPE_IQ4_XS] = &th_iq4_xs_avx512vnni;
    k->mat[TYPE_IQ4_NL] = &th_iq4_nl_avx512vnni;
    k->mat[TYPE_MXFP4] = &th_mxfp4_avx512vnni;
    k->mat[TYPE_TQ1_0] = &th_tq1_0_avx512vnni;
    k->mat[TYPE_TQ2_0] = &th_tq2_0_avx512vnni;
    k->mat[TYPE_Q1_0] = &th_q1_0_avx512vnni;
    k->mat[TYPE_Q2_0] = &th_q2_0_avx512vnni;
    k->mat[TYPE_PQ2_0] = &th_pq2_0_avx512vnni;
    k->mat[TYPE_PTQ1_0] = &th_ptq1_0_avx512vnni;
    k->mat[TYPE_NVFP4] = &th_nvfp4_avx512vnni;
}

void th_kernels_init_x86(Kernels *k, unsigned isa) {
    if (isa & ISA_AVX2) init_avx2(k);
    if (isa & ISA_AVXVNNI) init_avxvnni(k);
    if (isa & ISA_AVX512) init_avx512(k);
    if (isa & ISA_AVX512VNNI) init_avx512vnni(k);
}
