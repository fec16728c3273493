/* init_c.c: the bottom of the table: every weight type has a C kernel. */
#include "kernel/c/c.h"

void th_kernels_init_c(Kernels *k) {
    k->mat[TYPE_F32] = &th_f32_c;
    k->mat[TYPE_F16] = &th_f16_c;
    k->mat[TYPE_BF16] = &th_bf16_c;
    k->mat[TYPE_Q4_0] = &th_q4_0_c;
    k->mat[TYPE_Q4_1] = &th_q4_1_c;
    k->mat[TYPE_Q5_0] = &th_q5_0_c;
    k->mat[TYPE_Q5_1] = &th_q5_1_c;
    k->mat[TYPE_Q8_0] = &th_q8_0_c;
    k->mat[TYPE_Q2_K] = &th_q2_k_c;
    k->mat[TYPE_Q3_K] = &th_q3_k_c;
    k->mat[TYPE_Q4_K] = &th_q4_k_c;
    k->mat[TYPE_Q5_K] = &th_q5_k_c;
    k->mat[TYPE_Q6_K] = &th_q6_k_c;
    k->mat[TYPE_IQ2_XXS] = &th_iq2_xxs_c;
    k->mat[TYPE_IQ2_XS] = &th_iq2_xs_c;
    k->mat[TYPE_IQ2_S] = &th_iq2_s_c;
    k->mat[TYPE_IQ3_XXS] = &th_iq3_xxs_c;
    k->mat[TYPE_IQ3_S] = &th_iq3_s_c;
    k->mat[TYPE_IQ1_S] = &th_iq1_s_c;
    k->mat[TYPE_IQ1_M] = &th_iq1_m_c;
    k->mat[TYPE_IQ4_NL] = &th_iq4_nl_c;
    k->mat[TYPE_IQ4_XS] = &th_iq4_xs_c;
    k->mat[TYPE_TQ1_0] = &th_tq1_0_c;
    k->mat[TYPE_TQ2_0] = &th_tq2_0_c;
    k->mat[TYPE_Q1_0] = &th_q1_0_c;
    k->mat[TYPE_Q2_0] = &th_q2_0_c;
    k->mat[TYPE_PQ2_0] = &th_pq2_0_c;
    k->mat[TYPE_PTQ1_0] = &th_ptq1_0_c;
    k->mat[TYPE_MXFP4] = &th_mxfp4_c;
    k->mat[TYPE_NVFP4] = &th_nvfp4_c;
    k->act[ACT_F32] = th_act_f32_c;
    k->act[ACT_Q8_0] = th_act_q8_0_c;
    k->act[ACT_Q8_K] = th_act_q8_k_c;
    k->vec = th_vec_c;
    k->attn = th_attn_c;
    k->scan = th_scan_c;
}
