/* check_iq.c: the codebook types on every instruction set. */
#include "kernel/check.h"

#include "quant/layout.h"

/* The scale of IQ1_M is spread over the top nibbles of four words. */
static void fix_iq1_m(void *block, Pattern p, uint64_t rng[4]) {
    BlockIQ1_M *b = block;
    uint16_t scale = check_scale(p, rng);
    for (int i = 0; i < 4; i++) b->w[i].b[1] = (uint8_t)((b->w[i].b[1] & 15) | (scale >> 4 * i & 15) << 4);
}

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_IQ2_XXS, 1, {0}, NULL},     {TYPE_IQ2_XS, 1, {0}, NULL}, {TYPE_IQ2_S, 1, {0}, NULL},
        {TYPE_IQ3_XXS, 1, {0}, NULL},     {TYPE_IQ3_S, 1, {0}, NULL},  {TYPE_IQ1_S, 1, {0}, NULL},
        {TYPE_IQ1_M, 0, {0}, fix_iq1_m}, {TYPE_IQ4_NL, 1, {0}, NULL}, {TYPE_IQ4_XS, 1, {0}, NULL},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
