/* cpu.h: what the processor can do and which of its cores to use. */
#ifndef THIMBLE_CPU_H
#define THIMBLE_CPU_H

#include <stdbool.h>
#include <stddef.h>

#include "base/isa.h"

/* Instruction sets of this machine (CPUID with XGETBV on x86, HWCAP on arm), always with ISA_C. */
unsigned th_cpu_isa(void);
/* "avx2,avx512" to a mask; false for an unknown word. Every set includes what it stands on (avx512 -> avx2 -> c). */
bool th_cpu_parse_isa(const char *list, unsigned *mask);
/* Words of a mask in ascending order, comma-separated. */
void th_cpu_isa_names(unsigned mask, char *out, size_t cap);
/* Fast physical cores that affinity and cgroup CPU quota allow; at least 1. */
int th_cpu_threads(void);
/* Logical processors this process may run on; at least 1. More runnable threads than these should not spin. */
int th_cpu_allowed(void);

/* Seam for tests: as above with the files below `root` ("" is this machine). */
int th_cpu_threads_in(const char *root);
int th_cpu_allowed_in(const char *root);

#endif
