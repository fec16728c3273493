/* unroll.h: loops over tiles must vanish, or their accumulators live in memory (a third of the speed). The bounds are
 * constants once the functions around them are inlined. */
#ifndef THIMBLE_UNROLL_H
#define THIMBLE_UNROLL_H

#define TH_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define TH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TH_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
