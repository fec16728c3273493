/* check.h: every instruction set of this machine against the C kernels.
 *
 * A check program lists its types and where their blocks keep scales; check_main runs them over random and extreme
 * blocks, odd shapes and red zones and prints a TAP line per type and instruction set. Arguments:
 *     --isa LIST       only these instruction sets (words of th_cpu_parse_isa)
 *     --type NAME      only this type
 *     --bench          no checks: GB/s of weights for T = 1 and GMAC/s for T = 64, one thread */
#ifndef THIMBLE_CHECK_H
#define THIMBLE_CHECK_H

#include "kernel/kernel.h"

typedef struct IsaSet {
    unsigned mask;
    char name[32]; /* the word that was added last */
} IsaSet;
enum { MAX_ISA_SETS = 8 };
/* What this machine has, ascending; out[0] is C alone. Returns how many. */
int check_isas(IsaSet out[MAX_ISA_SETS]);

/* How extreme a block is. */
typedef enum Pattern {
    PATTERN_RANDOM,    /* random codes, ordinary scales                     */
    PATTERN_ONES,      /* all bits set, largest scale                       */
    PATTERN_SIGN,      /* bytes 0x80 (codes of -128), largest scale negated */
    PATTERN_ZERO,      /* all bytes zero                                    */
    PATTERN_SUBNORMAL, /* random codes, subnormal scales of both signs      */
    PATTERN_MIXED,     /* random codes, scales from all of these            */
    PATTERN_STRIPES,   /* bytes 0x55, 0xAA, 0x0F, 0x7F by turns             */
    N_PATTERNS
} Pattern;

typedef struct CheckType {
    uint32_t type;
    int n_halves;
    int half_at[2]; /* byte offsets of binary16 scales in a block */
    /* Instead of half_at: turns random or patterned bytes of a block into a valid one. */
    void (*fix)(void *block, Pattern p, uint64_t rng[4]);
    /* Hash of all that C computes here. C must not drift, nor differ between machines. */
    uint64_t hash;
} CheckType;

uint16_t check_scale(Pattern p, uint64_t rng[4]); /* a binary16 scale */

int check_main(int argc, char **argv, const CheckType *types, int n);

/* Memory that ends (or begins) at a page nobody may touch. Under an emulator whose instructions read too much (see
 * check_trap) it ends `slack` bytes before that page: writes there are found by guarded_free, reads are not. */
typedef struct Guarded {
    void *map, *data;
    size_t map_bytes, slack;
} Guarded;
Guarded guarded_alloc(size_t bytes, bool at_end);
void guarded_free(Guarded *g);

/* TAP, for programs that need more than check_main. */
typedef struct Tap {
    int n, failed;
} Tap;
void tap_result(Tap *t, bool good, const char *format, ...) TH_PRINTF(3, 4);
/* Names what runs now, for the handler of SIGSEGV and SIGBUS that check_trap installs. */
void check_now(const char *format, ...) TH_PRINTF(1, 2);
/* Before the first guarded_alloc; counts a skipped result if this machine cannot tell all reads beyond an argument. */
void check_trap(Tap *tap);
bool check_same_bits(float a, float b); /* NaN equals NaN */
/* Continues a hash (start with CHECK_HASH) over values; every NaN counts alike. */
#define CHECK_HASH 0xCBF29CE484222325u
uint64_t check_hash(uint64_t hash, const float *v, size_t n);
double check_seconds(void);

#endif
