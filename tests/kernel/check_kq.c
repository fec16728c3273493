/* check_kq.c: the K types on every instruction set. */
#include "kernel/check.h"

int main(int argc, char **argv) {
    static const CheckType types[] = {
        {TYPE_Q2_K, 2, {80, 82}, NULL, 0xa943d62d95aba548u}, {TYPE_Q3_K, 1, {108}, NULL, 0x49e43fde691adb12u},
        {TYPE_Q4_K, 2, {0, 2}, NULL, 0x830b1fd3a6fdfb76u},   {TYPE_Q5_K, 2, {0, 2}, NULL, 0xa0727221f3cee12au},
        {TYPE_Q6_K, 1, {208}, NULL, 0x186de69a2d471989u},
    };
    return check_main(argc, argv, types, (int)TH_COUNT(types));
}
