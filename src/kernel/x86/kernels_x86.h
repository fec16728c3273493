/* kernels_x86.h: what the x86 files offer to init_x86.c, named type_instruction set. */
#ifndef THIMBLE_KERNELS_X86_H
#define THIMBLE_KERNELS_X86_H

#include "kernel/kernel.h"

extern const MatKernel th_q4_0_avx2, th_q4_1_avx2, th_q5_0_avx2, th_q5_1_avx2, th_q8_0_avx2;
extern const MatKernel th_q2_k_avx2, th_q3_k_avx2, th_q4_k_avx2, th_q5_k_avx2, th_q6_k_avx2;
extern const MatKernel th_q4_0_avxvnni, th_q4_1_avxvnni, th_q5_0_avxvnni, th_q5_1_avxvnni, th_q8_0_avxvnni;
extern const MatKernel th_q2_k_avxvnni, th_q3_k_avxvnni, th_q4_k_avxvnni, th_q5_k_avxvnni, th_q6_k_avxvnni;
extern const MatKernel th_q4_0_avx512vnni, th_q4_1_avx512vnni, th_q5_0_avx512vnni, th_q5_1_avx512vnni,
    th_q8_0_avx512vnni;
extern const MatKernel th_q2_k_avx512vnni, th_q3_k_avx512vnni, th_q4_k_avx512vnni, th_q5_k_avx512vnni,
    th_q6_k_avx512vnni;

extern const MatKernel th_iq2_xxs_avx2, th_iq2_xs_avx2, th_iq2_s_avx2, th_iq3_xxs_avx2, th_iq3_s_avx2, th_iq1_s_avx2,
    th_iq1_m_avx2, th_iq4_xs_avx2, th_iq4_nl_avx2, th_mxfp4_avx2;
extern const MatKernel th_iq2_xxs_avxvnni, th_iq2_xs_avxvnni, th_iq2_s_avxvnni, th_iq3_xxs_avxvnni, th_iq3_s_avxvnni,
    th_iq1_s_avxvnni, th_iq1_m_avxvnni, th_iq4_xs_avxvnni, th_iq4_nl_avxvnni, th_mxfp4_avxvnni;
extern const MatKernel th_iq2_xxs_avx512vnni, th_iq2_xs_avx512vnni, th_iq2_s_avx512vnni, th_iq3_xxs_avx512vnni,
    th_iq3_s_avx512vnni, th_iq1_s_avx512vnni, th_iq1_m_avx512vnni, th_iq4_xs_avx512vnni, th_iq4_nl_avx512vnni,
    th_mxfp4_avx512vnni;
extern const MatKernel th_tq1_0_avx2, th_tq2_0_avx2, th_q1_0_avx2, th_q2_0_avx2, th_pq2_0_avx2, th_ptq1_0_avx2,
    th_nvfp4_avx2;
extern const MatKernel th_tq1_0_avxvnni, th_tq2_0_avxvnni, th_q1_0_avxvnni, th_q2_0_avxvnni, th_pq2_0_avxvnni,
    th_ptq1_0_avxvnni, th_nvfp4_avxvnni;
extern const MatKernel th_tq1_0_avx512vnni, th_tq2_0_avx512vnni, th_q1_0_avx512vnni, th_q2_0_avx512vnni,
    th_pq2_0_avx512vnni, th_ptq1_0_avx512vnni, th_nvfp4_avx512vnni;
extern const MatKernel th_f32_avx2, th_f16_avx2, th_bf16_avx2, th_f32_avx512, th_f16_avx512, th_bf16_avx512;
extern const VecKernel th_vec_avx2, th_vec_avx512;
extern const ScanKernel th_scan_avx2, th_scan_avx512;
extern const AttnKernel th_attn_avx2, th_attn_avx512;

void th_act_q8_0_avx2(void *dst, const float *x, int cols);
void th_act_q8_k_avx2(void *dst, const float *x, int cols);
void th_act_q8_0_avx512(void *dst, const float *x, int cols);
void th_act_q8_k_avx512(void *dst, const float *x, int cols);

#endif
