/* tile_avx512.h: the shape every integer-dot kernel for AVX-512 shares.
 *
 * Sixteen rows are turned on their side: the bytes of a group of weights are transposed so that one register holds, for
 * each of sixteen rows, the same four neighbouring weights, one byte each:
 *
 *     q[k]   lane r = weights 4k .. 4k+3 of row r          (a panel of 256 columns: 64 registers, 4 KiB of L1)
 *
 * A dot product then needs no horizontal sum at all: four activations of a token are broadcast to all lanes straight
 * from memory and multiplied into sixteen accumulators. Scales, minima and the f32 step are vectors over rows as well.
 * The cost of turning is the same for one token or many; it is paid once per block of tokens.
 *
 * Rows beyond the last one are served by repeating the last row and are masked off when y is stored. */
#ifndef THIMBLE_TILE_AVX512_H
#define THIMBLE_TILE_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "base/base.h"
#include "kernel/x86/unroll.h"

typedef struct Rows16 {
    const uint8_t *p[16];
} Rows16;

/* The rows r0 .. r0+15 of a matrix; those that do not exist repeat the last. */
TH_INLINE Rows16 rows16_at(const void *w, size_t stride, int r0, int rows) {
    Rows16 r;
    for (int i = 0; i < 16; i++) r.p[i] = (const uint8_t *)w + (size_t)th_min_int(r0 + i, rows - 1) * stride;
    return r;
}
TH_INLINE __mmask16 rows16_mask(int r0, int rows) {
    return rows - r0 >= 16 ? (__mmask16)0xFFFF : (__mmask16)((1u << (rows - r0)) - 1);
}

/* Ask for the bytes the next 16 rows have in the columns of this step. Read row by row they would be sixteen streams,
 * each too short for the processor to foresee; asked for in one go they are one stream (5 -> 30 GB/s). Prefetching
 * reads nothing, so it may run past the matrix. */
TH_INLINE void prefetch_rows(const void *w, size_t stride, int r0, size_t at, size_t bytes) {
    uintptr_t p = (uintptr_t)w + (size_t)(r0 + 16) * stride + 16 * at;
    for (size_t i = 0; i < 16 * bytes; i += 64) _mm_prefetch((const char *)(p + i), _MM_HINT_T0);
}
TH_INLINE __m512i bytes_of(unsigned char b) { return _mm512_set1_epi8((char)b); }
TH_INLINE __m512i broadcast32(const void *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

/* 16 bytes at `at` of rows e, 4+e, 8+e and 12+e, side by side. */
TH_INLINE __m512i quad_load(const Rows16 *r, int e, size_t at) {
    __m512i v = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)(r->p[e] + at)));
    v = _mm512_mask_broadcast_i32x4(v, 0x00F0, _mm_loadu_si128((const __m128i *)(const void *)(r->p[4 + e] + at)));
    v = _mm512_mask_broadcast_i32x4(v, 0x0F00, _mm_loadu_si128((const __m128i *)(const void *)(r->p[8 + e] + at)));
    return _mm512_mask_broadcast_i32x4(v, 0xF000, _mm_loadu_si128((const __m128i *)(const void *)(r->p[12 + e] + at)));
}
/* v[j] = the j-th 32-bit word at `at` of every row, j < 4. */
TH_INLINE void turn4(__m512i v[4], const Rows16 *r, size_t at) {
    __m512i a = quad_load(r, 0, at), b = quad_load(r, 1, at), c = quad_load(r, 2, at), d = quad_load(r, 3, at);
    __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b);
    __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    v[0] = _mm512_unpacklo_epi64(ab0, cd0);
    v[1] = _mm512_unpackhi_epi64(ab0, cd0);
    v[2] = _mm512_unpacklo_epi64(ab1, cd1);
    v[3] = _mm512_unpackhi_epi64(ab1, cd1);
}
/* The binary16 in the low half of each lane. */
TH_INLINE __m512 low_f16(__m512i v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
TH_INLINE __m512 high_f16(__m512i v) { return low_f16(_mm512_srli_epi32(v, 16)); }

/* Byte i of each lane as a 32-bit number; byte i in all four places; bytes i and j as a
 * pair of 16-bit numbers. */
TH_INLINE __m512i byte_to_i32(__m512i v, int i) {
    return _mm512_shuffle_epi8(
        v, _mm512_broadcast_i32x4(
               _mm_add_epi32(_mm_setr_epi32((int)0x80808000u, (int)0x80808004u, (int)0x80808008u, (int)0x8080800Cu),
                             _mm_set1_epi32(i))));
}
TH_INLINE __m512i byte_to_all(__m512i v, int i) {
    return _mm512_shuffle_epi8(
        v, _mm512_broadcast_i32x4(
               _mm_add_epi32(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C), _mm_set1_epi32(i * 0x01010101))));
}
TH_INLINE __m512i bytes_to_pair(__m512i v, int i, int j) {
    return _mm512_shuffle_epi8(
        v, _mm512_broadcast_i32x4(
               _mm_add_epi32(_mm_setr_epi32((int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800C800Cu),
                             _mm_set1_epi32(i | j << 16))));
}

/* The word that begins in the middle of w[0]. */
TH_INLINE __m512i join(const __m512i *w) {
    return _mm512_or_si512(_mm512_srli_epi32(w[0], 16), _mm512_slli_epi32(w[1], 16));
}

/* How much of a prepared activation the caller of a token tile means. */
typedef struct ActView {
    const char *x;           /* first token of the tile */
    size_t stride;           /* bytes between tokens */
    size_t q_at, d_at, s_at; /* where this group's integers, scales and sums begin, from x */
} ActView;

/* Tokens whose prepared rows stay together in half a megabyte of L2 while panel after panel passes over them. */
TH_INLINE int tokens_per_pass(size_t x_stride, int T) {
    size_t fit = (size_t)512 * 1024 / (x_stride ? x_stride : 1) & ~(size_t)7;
    return fit < 16 ? th_min_int(16, T) : fit > (size_t)T ? T : (int)fit;
}

#endif
