/* check_kq.c: the K types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_Q2_K, 2, {80, 82}, NULL}, {TYPE_Q3_K, 1, {108}, NULL}, {TYPE_Q4_K, 2, {0, 2}, NULL},
        {TYPE_Q5_K, 2, {0, 2}, NULL},   {TYPE_Q6_K, 1, {208}, NULL},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
