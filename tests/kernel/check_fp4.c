/* check_fp4.c: the 4-bit float types on every instruction set. */
#include "kernel/check.h"

#include "base/rng.h"
#include "quant/layout.h"

/* Exponents of ordinary weights, the smallest ones (subnormal scales), and large ones. */
static void fix_mxfp4(void *block, Pattern p, uint64_t rng[4]) {
    BlockMXFP4 *b = block;
    unsigned r = (unsigned)(th_rng_next(rng) >> 40);
    if (p == PATTERN_MIXED) p = (Pattern)(r % N_PATTERNS);
    r >>= 8;
    b->e = (uint8_t)(p == PATTERN_SUBNORMAL ? r % 4 : p == PATTERN_ONES ? 240 : 110 + r % 20);
}

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_MXFP4, 0, {0}, fix_mxfp4, 0xd590afd6805757e8u},
        {TYPE_NVFP4, 0, {0}, NULL, 0x7ad5845e1da823b1u}, /* every scale byte of NVFP4 is finite */
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
