/* kernel.c: fills the table upward: C first, then whatever the mask allows of this machine's instruction sets. */
#include "kernel/kernel.h"

void th_kernels_init(Kernels *k, unsigned isa) {
    *k = (Kernels){.isa = isa | ISA_C};
    th_kernels_init_c(k);
#if defined(__x86_64__)
    th_kernels_init_x86(k, isa);
#elif defined(__aarch64__)
    th_kernels_init_arm(k, isa);
#endif
}
