/* kernels_arm.h: what the ARM files offer to init_arm.c. */
#ifndef THIMBLE_KERNELS_ARM_H
#define THIMBLE_KERNELS_ARM_H

#include "kernel/kernel.h"

void th_scan_neon(ScanKernel *k); /* all but what only C has */

#endif
