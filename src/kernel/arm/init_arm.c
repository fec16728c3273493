/* init_arm.c: overwrites the table with what the mask allows, ascending. */
#include "kernel/arm/kernels_arm.h"

void th_kernels_init_arm(Kernels *k, unsigned isa) {
    if (isa & ISA_NEON) th_scan_neon(&k->scan);
}
