/* tile_avx2.h: the shape every integer-dot kernel for AVX2 shares: the panels of tile_avx512.h, eight rows wide.
 *
 *     q[k]   lane r = weights 4k .. 4k+3 of row r, one byte each, r < 8
 *
 * vpmaddubsw multiplies unsigned codes with signed activations into 16-bit pairs of sums. Sums of several steps stay in
 * 16 bits as long as they fit (each kernel states its bound); then vpmaddwd widens them and applies the scale at once.
 *
 * Rows beyond the last one are served by repeating the last row and are not stored. */
#ifndef THIMBLE_TILE_AVX2_H
#define THIMBLE_TILE_AVX2_H

#include <immintrin.h>
#include <string.h>

#include "base/base.h"
#include "kernel/x86/unroll.h"

typedef struct Rows8 {
    const uint8_t *p[8];
} Rows8;

TH_INLINE Rows8 rows8_at(const void *w, size_t stride, int r0, int rows) {
    Rows8 r;
    for (int i = 0; i < 8; i++) r.p[i] = (const uint8_t *)w + (size_t)th_min_int(r0 + i, rows - 1) * stride;
    return r;
}
/* All ones in the lanes of rows that exist: for vmaskmovps. */
TH_INLINE __m256i rows8_mask(int r0, int rows) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(rows - r0), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Ask for the bytes the next 8 rows have in the columns of this step. Read row by row they would be eight streams, each
 * too short for the processor to foresee; asked for in one go they are one stream (5 -> 30 GB/s). Prefetching reads
 * nothing, so it may run past the matrix. */
TH_INLINE void prefetch_rows(const void *w, size_t stride, int r0, size_t at, size_t bytes) {
    uintptr_t p = (uintptr_t)w + (size_t)(r0 + 8) * stride + 8 * at;
    for (size_t i = 0; i < 8 * bytes; i += 64) _mm_prefetch((const char *)(p + i), _MM_HINT_T0);
}
TH_INLINE __m256i bytes_of(unsigned char b) { return _mm256_set1_epi8((char)b); }
TH_INLINE __m256i broadcast32(const void *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm256_set1_epi32(v);
}

/* GCC would turn a run of additions into a tree and keep all products alive at once, in memory. */
TH_INLINE __m256i in_order(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}

/* 16 bytes at `at` of rows e and 4+e, side by side. */
TH_INLINE __m256i pair_load(const Rows8 *r, int e, size_t at) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(r->p[e] + at))),
        _mm_loadu_si128((const __m128i *)(const void *)(r->p[4 + e] + at)), 1);
}
/* v[j] = the j-th 32-bit word at `at` of every row, j < 4. */
TH_INLINE void turn4(__m256i v[4], const Rows8 *r, size_t at) {
    __m256i a = pair_load(r, 0, at), b = pair_load(r, 1, at), c = pair_load(r, 2, at), d = pair_load(r, 3, at);
    __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    v[0] = _mm256_unpacklo_epi64(ab0, cd0);
    v[1] = _mm256_unpackhi_epi64(ab0, cd0);
    v[2] = _mm256_unpacklo_epi64(ab1, cd1);
    v[3] = _mm256_unpackhi_epi64(ab1, cd1);
}
/* The binary16 in the high half of each lane, in the low half. */
TH_INLINE __m256 high_f16(__m256i v) {
    __m256i u = _mm256_srli_epi32(v, 16);
    return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
}
TH_INLINE __m256 low_f16(__m256i v) { return high_f16(_mm256_slli_epi32(v, 16)); }

/* Byte i of each lane as a 32-bit number. */
TH_INLINE __m256i byte_to_i32(__m256i v, int i) {
    return _mm256_and_si256(_mm256_srli_epi32(v, 8 * i), _mm256_set1_epi32(255));
}

/* Byte i in all four places of each lane; bytes i and j as a pair of 16-bit numbers, unsigned. */
TH_INLINE __m256i byte_to_all(__m256i v, int i) {
    return _mm256_shuffle_epi8(v, _mm256_add_epi32(_mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0C0C0C0C, 0,
                                                                     0x04040404, 0x08080808, 0x0C0C0C0C),
                                                   _mm256_set1_epi32(i * 0x01010101)));
}
TH_INLINE __m256i bytes_to_pair(__m256i v, int i, int j) {
    return _mm256_shuffle_epi8(
        v, _mm256_add_epi32(_mm256_setr_epi32((int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800C800Cu,
                                              (int)0x80008000u, (int)0x80048004u, (int)0x80088008u, (int)0x800C800Cu),
                            _mm256_set1_epi32(i | j << 16)));
}

/* The word that begins in the middle of w[0]. */
TH_INLINE __m256i join(const __m256i *w) {
    return _mm256_or_si256(_mm256_srli_epi32(w[0], 16), _mm256_slli_epi32(w[1], 16));
}

/* How much of a prepared activation the caller of a token tile means. */
typedef struct ActView {
    const char *x;           /* first token of the tile */
    size_t stride;           /* bytes between tokens */
    size_t q_at, d_at, s_at; /* where this group's integers, scales and sums begin, from x */
} ActView;

/* Tokens whose prepared rows stay together in L2 (256 KiB on the older of these machines) while panels pass over them.
 */
TH_INLINE int tokens_per_pass(size_t x_stride, int T) {
    size_t fit = (size_t)160 * 1024 / (x_stride ? x_stride : 1) & ~(size_t)3;
    return fit < 8 ? th_min_int(8, T) : fit > (size_t)T ? T : (int)fit;
}

#endif
