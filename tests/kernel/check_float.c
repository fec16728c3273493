/* check_float.c: F32, F16 and BF16 weights on every instruction set. */
#include "kernel/check.h"

#include <string.h>

#include "base/num.h"

static void fix_f16(void *block, Pattern p, uint64_t rng[4]) {
    uint16_t h = check_scale(p, rng);
    memcpy(block, &h, 2);
}
static void fix_bf16(void *block, Pattern p, uint64_t rng[4]) {
    uint16_t h = th_f32_to_bf16(th_f16_to_f32(check_scale(p, rng)));
    memcpy(block, &h, 2);
}
static void fix_f32(void *block, Pattern p, uint64_t rng[4]) {
    float f = th_f16_to_f32(check_scale(p, rng)) * 1.00007f;
    memcpy(block, &f, 4);
}

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_F32, 0, {0}, fix_f32, 0x61b9035b22e14c4au},
        {TYPE_F16, 0, {0}, fix_f16, 0xd8c3505a6f124b1du},
        {TYPE_BF16, 0, {0}, fix_bf16, 0xaa6ab417c47c9571u},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
