/* shortconv.h: the part of a short convolution between its two projections (specification, section 9), apart from the
 * block so that it can be checked without a model. */
#ifndef THIMBLE_SHORTCONV_H
#define THIMBLE_SHORTCONV_H

#include "op/scan.h"

/* y [T][E] = c * conv(b * x) from bcx [T][3 E], whose last third is destroyed; w [E][taps]; the recurrent memory is the
 * convolution's alone. y may not overlap bcx. */
void th_shortconv_rows(Pass *p, const float *w, int E, int taps, const ScanRun *runs, int n_runs, float *y, float *bcx);

#endif
