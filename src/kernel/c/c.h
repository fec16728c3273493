/* c.h: the C kernels, one per weight type. */
#ifndef THIMBLE_C_H
#define THIMBLE_C_H

#include "kernel/kernel.h"

extern const MatKernel th_f32_c, th_f16_c, th_bf16_c;
extern const MatKernel th_q4_0_c, th_q4_1_c, th_q5_0_c, th_q5_1_c, th_q8_0_c;
extern const MatKernel th_q2_k_c, th_q3_k_c, th_q4_k_c, th_q5_k_c, th_q6_k_c;
extern const MatKernel th_iq2_xxs_c, th_iq2_xs_c, th_iq2_s_c, th_iq3_xxs_c, th_iq3_s_c, th_iq1_s_c, th_iq1_m_c;
extern const MatKernel th_iq4_nl_c, th_iq4_xs_c;
extern const MatKernel th_tq1_0_c, th_tq2_0_c, th_q1_0_c, th_q2_0_c, th_pq2_0_c, th_ptq1_0_c;
extern const MatKernel th_mxfp4_c, th_nvfp4_c;
extern const VecKernel th_vec_c;
extern const AttnKernel th_attn_c;
extern const ScanKernel th_scan_c;

#endif
