/* check_legacy.c: the 32-weight types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_Q4_0, 1, {0}, NULL, 0x5c81b1a0ac2305d0u}, {TYPE_Q4_1, 2, {0, 2}, NULL, 0xdaffc82e7fe44775u},
        {TYPE_Q5_0, 1, {0}, NULL, 0xe7f01aba81dcee28u}, {TYPE_Q5_1, 2, {0, 2}, NULL, 0xf67ce5dd544d1cd8u},
        {TYPE_Q8_0, 1, {0}, NULL, 0xd157591607dd19ccu},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
