/* unroll.h: loops over tiles must vanish, or their accumulators live in memory (a third of the speed). The bounds are
 * constants once the functions around them are inlined. */
#ifndef THIMBLE_UNROLL_H
#define THIMBLE_UNROLL_H

#define TH_INLINE static inline __attribute__((always_inline))
#ifdef __has_feature /* clang */
#define TH_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TH_SANITIZED 1
#else
#define TH_SANITIZED 0
#endif
#if TH_SANITIZED /* every access carries a check: unrolled, one of these files takes minutes to compile */
#define TH_UNROLL
#elif defined(__clang__)
#define TH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TH_UNROLL _Pragma("GCC unroll 32")
#endif

#endif
