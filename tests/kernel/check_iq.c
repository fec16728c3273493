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
        {TYPE_IQ2_XXS, 1, {0}, NULL, 0xbed0d794594f9afau},    {TYPE_IQ2_XS, 1, {0}, NULL, 0x33ecc8aace44d460u},
        {TYPE_IQ2_S, 1, {0}, NULL, 0x520b8564d6c8f4deu},      {TYPE_IQ3_XXS, 1, {0}, NULL, 0xcf33f50b71c8cff1u},
        {TYPE_IQ3_S, 1, {0}, NULL, 0x1b6f5b62dd8249eeu},      {TYPE_IQ1_S, 1, {0}, NULL, 0x7fd88919c5dcb8b6u},
        {TYPE_IQ1_M, 0, {0}, fix_iq1_m, 0xe48dd492c2174cdcu}, {TYPE_IQ4_NL, 1, {0}, NULL, 0x087bb0f6e48b0c24u},
        {TYPE_IQ4_XS, 1, {0}, NULL, 0x61a324693e91d4e9u},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
