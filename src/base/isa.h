/* isa.h: instruction sets a kernel may need, as bits of one mask. Bit 0 (plain C) is always set. */
#ifndef THIMBLE_ISA_H
#define THIMBLE_ISA_H

enum {
    ISA_C = 1 << 0,
    ISA_AVX2 = 1 << 1,    /* with FMA, F16C, BMI2            */
    ISA_AVXVNNI = 1 << 2, /* 256-bit vpdpbusd                */
    ISA_AVX512 = 1 << 3,  /* F, BW, DQ, VL, CD               */
    ISA_AVX512VNNI = 1 << 4,
    ISA_NEON = 1 << 8,
    ISA_DOTPROD = 1 << 9,
    ISA_I8MM = 1 << 10,
    ISA_ALL = 0x7fffffff
};

#endif
