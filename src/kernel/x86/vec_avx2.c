/* vec_avx2.c: vector functions, bit for bit those of c/vec_c.c. */
#include <math.h>
#include <string.h>

#include "kernel/x86/kernels_x86.h"
#include "kernel/x86/lanes_avx2.h"
#include "kernel/x86/vec_math_avx2.h"

TH_INLINE __m256 load_f16(const uint16_t *x) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
}
TH_INLINE __m256 load_few_f16(const uint16_t *x, int n) { return _mm256_cvtph_ps(load_few_u16(x, n)); }

static float dot_f32(const float *a, const float *b, int n) {
    __m256 lane[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        TH_UNROLL for (int k = 0; k < 4; k++) lane[k] =
            _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * k), _mm256_loadu_ps(b + i + 8 * k), lane[k]);
    }
    if (i < n) {
        TH_UNROLL for (int k = 0; k < 4; k++) lane[k] =
            _mm256_fmadd_ps(load_few(a + i + 8 * k, n - i - 8 * k), load_few(b + i + 8 * k, n - i - 8 * k), lane[k]);
    }
    return lanes32_sum(lane);
}

static float dot_f16(const float *a, const uint16_t *b, int n) {
    __m256 lane[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int i = 0;
    for (; i + 32 <= n; i += 32) {
        TH_UNROLL for (int k = 0; k < 4; k++) lane[k] =
            _mm256_fmadd_ps(_mm256_loadu_ps(a + i + 8 * k), load_f16(b + i + 8 * k), lane[k]);
    }
    if (i < n) {
        TH_UNROLL for (int k = 0; k < 4; k++) {
            int left = n - i - 8 * k;
            lane[k] = _mm256_fmadd_ps(load_few(a + i + 8 * k, left), load_few_f16(b + i + 8 * k, left), lane[k]);
        }
    }
    return lanes32_sum(lane);
}

static void axpy_f32(float *y, float a, const float *x, int n) {
    __m256 k = _mm256_set1_ps(a);
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(k, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    if (i < n) store_few(y + i, n - i, _mm256_fmadd_ps(k, load_few(x + i, n - i), load_few(y + i, n - i)));
}

static void axpy_f16(float *y, float a, const uint16_t *x, int n) {
    __m256 k = _mm256_set1_ps(a);
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_fmadd_ps(k, load_f16(x + i), _mm256_loadu_ps(y + i)));
    if (i < n) store_few(y + i, n - i, _mm256_fmadd_ps(k, load_few_f16(x + i, n - i), load_few(y + i, n - i)));
}

static void to_f16(uint16_t *y, const float *x, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    if (i < n) {
        __m128i h = _mm256_cvtps_ph(load_few(x + i, n - i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        memcpy(y + i, &h, (size_t)(n - i) * 2);
    }
}

static void from_f16(float *y, const uint16_t *x, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, load_f16(x + i));
    if (i < n) store_few(y + i, n - i, load_few_f16(x + i, n - i));
}

static void add(float *y, const float *x, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    if (i < n) store_few(y + i, n - i, _mm256_add_ps(load_few(y + i, n - i), load_few(x + i, n - i)));
}

static void scale(float *y, float a, int n) {
    __m256 k = _mm256_set1_ps(a);
    int i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(y + i), k));
    if (i < n) store_few(y + i, n - i, _mm256_mul_ps(load_few(y + i, n - i), k));
}

static void silu_mul(float *gate, const float *up, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(silu_avx2(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    if (i < n) store_few(gate + i, n - i, _mm256_mul_ps(silu_avx2(load_few(gate + i, n - i)), load_few(up + i, n - i)));
}

static void gelu_mul(float *gate, const float *up, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(gate + i, _mm256_mul_ps(gelu_avx2(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    if (i < n) store_few(gate + i, n - i, _mm256_mul_ps(gelu_avx2(load_few(gate + i, n - i)), load_few(up + i, n - i)));
}

static void rms_norm(float *y, const float *x, const float *w, int n, float eps) {
    __m256d lo = _mm256_setzero_pd(), hi = _mm256_setzero_pd();
    for (int i = 0; i < n; i += 8) {
        __m256 v = i + 8 <= n ? _mm256_loadu_ps(x + i) : load_few(x + i, n - i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        lo = _mm256_fmadd_pd(a, a, lo); /* the square of a binary32 is exact in binary64: one rounding either way */
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    lo = _mm256_add_pd(lo, hi);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(lo), _mm256_extractf128_pd(lo, 1));
    double sum = _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
    __m256 factor = _mm256_set1_ps((float)(1.0 / sqrt(sum / (double)n + (double)eps)));
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), factor);
        _mm256_storeu_ps(y + i, w ? _mm256_mul_ps(v, _mm256_loadu_ps(w + i)) : v);
    }
    if (i < n) {
        __m256 v = _mm256_mul_ps(load_few(x + i, n - i), factor);
        store_few(y + i, n - i, w ? _mm256_mul_ps(v, load_few(w + i, n - i)) : v);
    }
}

static float exp_sub(float *x, float max, int n) {
    __m256 lane[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, m = _mm256_set1_ps(max);
    for (int i = 0; i < n; i += 8) {
        __m256 e = exp_avx2(_mm256_sub_ps(load_few(x + i, n - i), m));
        store_few(x + i, n - i, e);
        e = _mm256_and_ps(e, first_lanes(n - i));
        lane[i / 8 % 2] = _mm256_add_ps(lane[i / 8 % 2], e);
    }
    return lanes8_sum(_mm256_add_ps(lane[0], lane[1]));
}

static float max_f32(const float *x, int n) {
    const __m256 least = _mm256_set1_ps(-INFINITY);
    __m256 m = least;
    for (int i = 0; i < n; i += 8) {
        __m256 v = _mm256_blendv_ps(least, load_few(x + i, n - i), first_lanes(n - i));
        m = _mm256_max_ps(v, m); /* where v is NaN, m stays */
    }
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    float largest = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
    /* Of zeros of both signs the first counts. */
    for (int i = 0; i < n && largest == 0; i++) {
        if (x[i] == 0) return x[i];
    }
    return largest;
}

/* Lanes 0..7 in lo, 8..15 in hi. */
static float plain_sum(__m256 lo, __m256 hi) {
    __m128 sum = _mm_add_ps(_mm_add_ps(_mm256_castps256_ps128(lo), _mm256_extractf128_ps(lo, 1)),
                            _mm_add_ps(_mm256_castps256_ps128(hi), _mm256_extractf128_ps(hi, 1)));
    float lane[4];
    _mm_storeu_ps(lane, sum);
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

static void plain_dots(float *y, const float *w, int rows, const float *x, int n) {
    for (int r = 0; r < rows; r += 2) {
        const float *w0 = w + (size_t)r * (size_t)n, *w1 = r + 1 < rows ? w0 + n : w0;
        __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
        int i = 0;
        for (; i + 16 <= n; i += 16) {
            __m256 lo = _mm256_loadu_ps(x + i), hi = _mm256_loadu_ps(x + i + 8);
            a = _mm256_add_ps(a, _mm256_mul_ps(_mm256_loadu_ps(w0 + i), lo));
            b = _mm256_add_ps(b, _mm256_mul_ps(_mm256_loadu_ps(w0 + i + 8), hi));
            c = _mm256_add_ps(c, _mm256_mul_ps(_mm256_loadu_ps(w1 + i), lo));
            d = _mm256_add_ps(d, _mm256_mul_ps(_mm256_loadu_ps(w1 + i + 8), hi));
        }
        float first[16] = {0}, second[16] = {0};
        for (int k = 0; i < n; i++, k++) first[k] = w0[i] * x[i], second[k] = w1[i] * x[i];
        y[r] = plain_sum(_mm256_add_ps(a, _mm256_loadu_ps(first)), _mm256_add_ps(b, _mm256_loadu_ps(first + 8)));
        if (r + 1 < rows)
            y[r + 1] =
                plain_sum(_mm256_add_ps(c, _mm256_loadu_ps(second)), _mm256_add_ps(d, _mm256_loadu_ps(second + 8)));
    }
}

const VecKernel th_vec_avx2 = {
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
    .origin = "vec_avx2",
};
