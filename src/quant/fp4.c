/* fp4.c: E2M1 codes under an E8M0 (MXFP4) or unsigned E4M3 (NVFP4) scale (section 7).
 *
 * Codes are kept doubled as integers, scales halved. MXFP4 scales reach down to 2^-128, a subnormal: whoever flushes
 * subnormals breaks them. */
#include "quant/layout.h"

void th_dequantize_mxfp4(float *y, const void *w, size_t n) {
    const BlockMXFP4 *b = w;
    for (; n >= 32; n -= 32, b++, y += 32) {
        float d = th_e8m0_half(b->e);
        for (int j = 0; j < 16; j++) {
            y[j] = (float)th_values_fp4[b->p[j] & 15] * d;
            y[j + 16] = (float)th_values_fp4[b->p[j] >> 4] * d;
        }
    }
}

void th_dequantize_nvfp4(float *y, const void *w, size_t n) {
    const BlockNVFP4 *b = w;
    for (; n >= 64; n -= 64, b++, y += 64) {
        for (int s = 0; s < 4; s++) {
            float d = th_ue4m3_half(b->sc[s]);
            for (int j = 0; j < 8; j++) {
                y[16 * s + j] = (float)th_values_fp4[b->p[8 * s + j] & 15] * d;
                y[16 * s + j + 8] = (float)th_values_fp4[b->p[8 * s + j] >> 4] * d;
            }
        }
    }
}
