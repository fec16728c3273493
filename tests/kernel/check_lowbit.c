/* check_lowbit.c: one- and two-bit and ternary types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_TQ1_0, 1, {52}, NULL, 0xe947e7a75153169fu}, {TYPE_TQ2_0, 1, {64}, NULL, 0xf5316fdcaa67b479u},
        {TYPE_Q1_0, 1, {0}, NULL, 0x70a9241cce8304bcu},   {TYPE_Q2_0, 1, {0}, NULL, 0xcb8ab6e7bcabd9bcu},
        {TYPE_PQ2_0, 1, {0}, NULL, 0xdecaeacfc25d2434u},  {TYPE_PTQ1_0, 1, {26}, NULL, 0x527dd4514b7767a5u},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
