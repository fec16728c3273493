/* base.h: words everybody uses: attributes, alignment, sizes that cannot wrap. */
#ifndef THIMBLE_BASE_H
#define THIMBLE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TH_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TH_MUST_USE          __attribute__((warn_unused_result))
#define TH_COUNT(array)      (sizeof(array) / sizeof((array)[0]))
#define TH_ALIGNED(n)        __attribute__((aligned(n)))

#define TH_KIB ((size_t)1024)
#define TH_MIB ((size_t)1024 * 1024)

/* False when a*b or a+b does not fit; *out is then untouched. */
static inline TH_MUST_USE bool th_size_mul(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
static inline TH_MUST_USE bool th_size_add(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}
/* Next multiple of align (a power of two); saturates at the largest one instead of wrapping to 0. */
static inline uint64_t th_align_up(uint64_t n, uint64_t align) {
    return n > UINT64_MAX - (align - 1) ? ~(align - 1) : (n + align - 1) & ~(align - 1);
}
static inline uint64_t th_align_down(uint64_t n, uint64_t align) { return n & ~(align - 1); }

static inline size_t th_min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t th_max_size(size_t a, size_t b) { return a > b ? a : b; }
static inline int th_min_int(int a, int b) { return a < b ? a : b; }
static inline int th_max_int(int a, int b) { return a > b ? a : b; }

#endif
