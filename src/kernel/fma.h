/* fma.h: fused multiply-add for the C kernels, one rounding on every machine.
 *
 * fmaf() of a libc without the instruction switches rounding modes and costs a hundred additions. Here the product is
 * exact in binary64 (24 + 24 bits), the sum is rounded to odd there (two-sum tells what was lost), and rounding an odd
 * binary64 value to binary32 is then correct because 53 >= 24 + 2 bits. */
#ifndef THIMBLE_FMA_H
#define THIMBLE_FMA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float th_fmaf(float a, float b, float c) {
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    double p = (double)a * (double)b, addend = c, s = p + addend;
    double back = s - p, lost = (p - (s - back)) + (addend - back);
    int64_t bits;
    memcpy(&bits, &s, sizeof bits);
    /* Inexact and even: step one unit towards the true value. NaN and infinity make `lost` NaN: no step. */
    int64_t away = (int64_t)((lost > 0) == (s > 0)) * 2 - 1;
    bits += (int64_t)((lost > 0 || lost < 0) && !(bits & 1)) * away;
    memcpy(&s, &bits, sizeof bits);
    return (float)s;
#endif
}

#endif
