/* check_legacy.c: the 32-weight types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_Q4_0, 1, {0}, NULL},    {TYPE_Q4_1, 2, {0, 2}, NULL}, {TYPE_Q5_0, 1, {0}, NULL},
        {TYPE_Q5_1, 2, {0, 2}, NULL}, {TYPE_Q8_0, 1, {0}, NULL},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
