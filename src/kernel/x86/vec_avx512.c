/* vec_avx512.c: vector functions, bit for bit those of c/vec_c.c. */
#include <math.h>

#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx512.h"
#include "kernel/x86/vec_math_avx512.h"

TH_INLINE __m512 load_few(const float *x, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), x); }
TH_INLINE __m512 load_few_f16(const uint16_t *x, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), x));
}
TH_INLINE __m512 load_f16(const uint16_t *x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x));
}

static float dot_f32(const float *a, const float *b, int n) {
    __m512 lo = _mm512_setzero_ps(), hi = _mm512_setzero_ps();
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        lo = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i), lo);
        hi = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), _mm512_loadu_ps(b + i + 16), hi);
    }
    if (i < n) {
        lo = _mm512_fmadd_ps(load_few(a + i, n - i), load_few(b + i, n - i), lo);
        hi = _mm512_fmadd_ps(load_few(a + i + 16, n - i - 16), load_few(b + i + 16, n - i - 16), hi);
    }
    return lanes32_sum(lo, hi);
}

static float dot_f16(const float *a, const uint16_t *b, int n) {
    __m512 lo = _mm512_setzero_ps(), hi = _mm512_setzero_ps();
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        lo = _mm512_fmadd_ps(_mm512_loadu_ps(a + i), load_f16(b + i), lo);
        hi = _mm512_fmadd_ps(_mm512_loadu_ps(a + i + 16), load_f16(b + i + 16), hi);
    }
    if (i < n) {
        lo = _mm512_fmadd_ps(load_few(a + i, n - i), load_few_f16(b + i, n - i), lo);
        hi = _mm512_fmadd_ps(load_few(a + i + 16, n - i - 16), load_few_f16(b + i + 16, n - i - 16), hi);
    }
    return lanes32_sum(lo, hi);
}

static void axpy_f32(float *y, float a, const float *x, int n) {
    __m512 k = _mm512_set1_ps(a);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_fmadd_ps(k, _mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));
    if (i < n)
        _mm512_mask_storeu_ps(y + i, first_lanes(n - i),
                              _mm512_fmadd_ps(k, load_few(x + i, n - i), load_few(y + i, n - i)));
}

static void axpy_f16(float *y, float a, const uint16_t *x, int n) {
    __m512 k = _mm512_set1_ps(a);
    int i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_fmadd_ps(k, load_f16(x + i), _mm512_loadu_ps(y + i)));
    if (i < n)
        _mm512_mask_storeu_ps(y + i, first_lanes(n - i),
                              _mm512_fmadd_ps(k, load_few_f16(x + i, n - i), load_few(y + i, n - i)));
}

static void to_f16(uint16_t *y, const float *x, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(void *)(y + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    if (i < n)
        _mm256_mask_storeu_epi16(
            y + i, first_lanes(n - i),
            _mm512_cvtps_ph(load_few(x + i, n - i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static void from_f16(float *y, const uint16_t *x, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, load_f16(x + i));
    if (i < n) _mm512_mask_storeu_ps(y + i, first_lanes(n - i), load_few_f16(x + i, n - i));
}

static void add(float *y, const float *x, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_add_ps(_mm512_loadu_ps(y + i), _mm512_loadu_ps(x + i)));
    if (i < n)
        _mm512_mask_storeu_ps(y + i, first_lanes(n - i), _mm512_add_ps(load_few(y + i, n - i), load_few(x + i, n - i)));
}

static void scale(float *y, float a, int n) {
    __m512 k = _mm512_set1_ps(a);
    int i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_loadu_ps(y + i), k));
    if (i < n) _mm512_mask_storeu_ps(y + i, first_lanes(n - i), _mm512_mul_ps(load_few(y + i, n - i), k));
}

static void silu_mul(float *gate, const float *up, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(gate + i, _mm512_mul_ps(silu_avx512(_mm512_loadu_ps(gate + i)), _mm512_loadu_ps(up + i)));
    if (i < n)
        _mm512_mask_storeu_ps(gate + i, first_lanes(n - i),
                              _mm512_mul_ps(silu_avx512(load_few(gate + i, n - i)), load_few(up + i, n - i)));
}

static void gelu_mul(float *gate, const float *up, int n) {
    int i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(gate + i, _mm512_mul_ps(gelu_avx512(_mm512_loadu_ps(gate + i)), _mm512_loadu_ps(up + i)));
    if (i < n)
        _mm512_mask_storeu_ps(gate + i, first_lanes(n - i),
                              _mm512_mul_ps(gelu_avx512(load_few(gate + i, n - i)), load_few(up + i, n - i)));
}

static void rms_norm(float *y, const float *x, const float *w, int n, float eps) {
    __m512d lane = _mm512_setzero_pd();
    for (int i = 0; i < n; i += 8) {
        __m512d v = _mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)first_lanes(th_min_int(8, n - i)), x + i));
        lane = _mm512_fmadd_pd(v, v, lane); /* the square of a binary32 is exact in binary64: one rounding either way */
    }
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(lane), _mm512_extractf64x4_pd(lane, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    double sum = _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    __m512 factor = _mm512_set1_ps((float)(1.0 / sqrt(sum / (double)n + (double)eps)));
    for (int i = 0; i < n; i += 16) {
        __m512 v = _mm512_mul_ps(load_few(x + i, n - i), factor);
        if (w) v = _mm512_mul_ps(v, load_few(w + i, n - i));
        _mm512_mask_storeu_ps(y + i, first_lanes(n - i), v);
    }
}

static float exp_sub(float *x, float max, int n) {
    __m512 lane = _mm512_setzero_ps(), m = _mm512_set1_ps(max);
    for (int i = 0; i < n; i += 16) {
        __mmask16 few = first_lanes(n - i);
        __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(few, x + i), m));
        _mm512_mask_storeu_ps(x + i, few, e);
        lane = _mm512_mask_add_ps(lane, few, lane, e);
    }
    return lanes16_sum(lane);
}

static float max_f32(const float *x, int n) {
    __m512 m = _mm512_set1_ps(-INFINITY);
    for (int i = 0; i < n; i += 16)
        m = _mm512_mask_max_ps(m, first_lanes(n - i), load_few(x + i, n - i), m); /* NaN: m stays */
    float largest = _mm512_reduce_max_ps(m);
    /* Of zeros of both signs the first counts. */
    for (int i = 0; i < n && largest == 0; i++) {
        if (x[i] == 0) return x[i];
    }
    return largest;
}

static float plain_sum(__m512 a) {
    __m128 sum = _mm_add_ps(_mm_add_ps(_mm512_castps512_ps128(a), _mm512_extractf32x4_ps(a, 1)),
                            _mm_add_ps(_mm512_extractf32x4_ps(a, 2), _mm512_extractf32x4_ps(a, 3)));
    float lane[4];
    _mm_storeu_ps(lane, sum);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static void plain_dots(float *y, const float *w, int rows, const float *x, int n) {
    int r = 0, whole = n & ~15;
    for (; r + 4 <= rows; r += 4) {
        const float *w0 = w + (size_t)r * (size_t)n, *w1 = w0 + n, *w2 = w1 + n, *w3 = w2 + n;
        __m512 a = _mm512_setzero_ps(), b = a, c = a, d = a;
        for (int i = 0; i < n; i += 16) {
            __mmask16 k = first_lanes(n - i);
            __m512 v = i < whole ? _mm512_loadu_ps(x + i) : _mm512_maskz_loadu_ps(k, x + i);
            a = _mm512_add_ps(a,
                              _mm512_mul_ps(i < whole ? _mm512_loadu_ps(w0 + i) : _mm512_maskz_loadu_ps(k, w0 + i), v));
            b = _mm512_add_ps(b,
                              _mm512_mul_ps(i < whole ? _mm512_loadu_ps(w1 + i) : _mm512_maskz_loadu_ps(k, w1 + i), v));
            c = _mm512_add_ps(c,
                              _mm512_mul_ps(i < whole ? _mm512_loadu_ps(w2 + i) : _mm512_maskz_loadu_ps(k, w2 + i), v));
            d = _mm512_add_ps(d,
                              _mm512_mul_ps(i < whole ? _mm512_loadu_ps(w3 + i) : _mm512_maskz_loadu_ps(k, w3 + i), v));
        }
        y[r] = plain_sum(a), y[r + 1] = plain_sum(b), y[r + 2] = plain_sum(c), y[r + 3] = plain_sum(d);
    }
    for (; r < rows; r++) {
        const float *row = w + (size_t)r * (size_t)n;
        __m512 a = _mm512_setzero_ps();
        for (int i = 0; i < n; i += 16) {
            __mmask16 k = first_lanes(n - i);
            a = _mm512_add_ps(a, _mm512_mul_ps(_mm512_maskz_loadu_ps(k, row + i), _mm512_maskz_loadu_ps(k, x + i)));
        }
        y[r] = plain_sum(a);
    }
}

const VecKernel th_vec_avx512 = {
    .dot_f32 = dot_f32,
    .dot_f16 = dot_f16,
    .axpy_f32 = axpy_f32,
    .axpy_f16 = axpy_f16,
    .to_f16 = to_f16,
    .from_f16 = from_f16,
    .add = add,
    .scale = scale,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .rms_norm = rms_norm,
    .exp_sub = exp_sub,
    .plain_dots = plain_dots,
    .max = max_f32,
    .origin = "vec_avx512",
};
