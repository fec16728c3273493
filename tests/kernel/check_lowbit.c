/* check_lowbit.c: one- and two-bit and ternary types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_TQ1_0, 1, {52}, NULL}, {TYPE_TQ2_0, 1, {64}, NULL}, {TYPE_Q1_0, 1, {0}, NULL},
        {TYPE_Q2_0, 1, {0}, NULL},   {TYPE_PQ2_0, 1, {0}, NULL},  {TYPE_PTQ1_0, 1, {26}, NULL},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
