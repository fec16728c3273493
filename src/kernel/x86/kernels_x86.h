/* kernels_x86.h: what the x86 files offer to init_x86.c, named type_instruction set. */
#ifndef THIMBLE_KERNELS_X86_H
#define THIMBLE_KERNELS_X86_H

#include "kernel/kernel.h"

extern const MatKernel th_q40_avx2, th_q41_avx2, th_q50_avx2, th_q51_avx2, th_q80_avx2;
extern const MatKernel th_q2k_avx2, th_q4k_avx2, th_q6k_avx2;
extern const MatKernel th_q40_avx512vnni, th_q41_avx512vnni, th_q50_avx512vnni, th_q51_avx512vnni, th_q80_avx512vnni;
extern const MatKernel th_q2k_avx512vnni, th_q4k_avx512vnni, th_q6k_avx512vnni;

#endif
