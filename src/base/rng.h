/* rng.h: seeded generator: xoshiro256** (Blackman and Vigna, 2018), seeded through splitmix64. */
#ifndef THIMBLE_RNG_H
#define THIMBLE_RNG_H

#include <stdint.h>

void th_rng_seed(uint64_t state[4], uint64_t seed);
uint64_t th_rng_next(uint64_t state[4]);
double th_rng_unit(uint64_t state[4]); /* [0, 1), 53 bits */

#endif
