/* vec_c.c: vector functions; the definition of their bits (docs/KERNELS.md). */
#include "kernel/c/c.h"
#include "kernel/c/lanes_c.h"
#include "kernel/vec_math.h"

static float dot_f32(const float *a, const float *b, int n) {
    Lanes32 acc = {0};
    for (int i = 0; i < n; i += 32) lanes32_add(&acc, a + i, b + i, n - i < 32 ? n - i : 32);
    return lanes32_sum(&acc);
}

static void from_f16(float *y, const uint16_t *x, int n) {
    for (int i = 0; i < n; i++) y[i] = th_f16_to_f32(x[i]);
}

static float dot_f16(const float *a, const uint16_t *b, int n) {
    Lanes32 acc = {0};
    for (int i = 0; i < n; i += 32) {
        int count = n - i < 32 ? n - i : 32;
        float wide[32];
        from_f16(wide, b + i, count);
        lanes32_add(&acc, wide, a + i, count);
    }
    return lanes32_sum(&acc);
}

static void axpy_f32(float *y, float a, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = th_fmaf(a, x[i], y[i]);
}

static void axpy_f16(float *y, float a, const uint16_t *x, int n) {
    for (int i = 0; i < n; i++) y[i] = th_fmaf(a, th_f16_to_f32(x[i]), y[i]);
}

static void to_f16(uint16_t *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] = th_f32_to_f16(x[i]);
}

static void add(float *y, const float *x, int n) {
    for (int i = 0; i < n; i++) y[i] += x[i];
}

static void scale(float *y, float a, int n) {
    for (int i = 0; i < n; i++) y[i] *= a;
}

static void silu_mul(float *gate, const float *up, int n) {
    for (int i = 0; i < n; i++) gate[i] = th_silu(gate[i]) * up[i];
}

static void gelu_mul(float *gate, const float *up, int n) {
    for (int i = 0; i < n; i++) gate[i] = th_gelu(gate[i]) * up[i];
}

static void rms_norm(float *y, const float *x, const float *w, int n, float eps) {
    double lane[8] = {0};
    for (int i = 0; i < n; i++) lane[i % 8] += (double)x[i] * (double)x[i];
    for (int half = 4; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    }
    float factor = (float)(1.0 / sqrt(lane[0] / (double)n + (double)eps));
    for (int i = 0; i < n; i++) y[i] = w ? x[i] * factor * w[i] : x[i] * factor;
}

static float exp_sub(float *x, float max, int n) {
    float lane[16] = {0};
    for (int i = 0; i < n; i++) {
        x[i] = th_exp(x[i] - max);
        lane[i % 16] += x[i];
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    }
    return lane[0];
}

static float max_f32(const float *x, int n) {
    float m = -INFINITY;
    for (int i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

typedef float Lane __attribute__((vector_size(16)));

static Lane load4(const float *p) {
    Lane v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void plain_dots(float *y, const float *w, int rows, const float *x, int n) {
    for (int r = 0; r < rows; r++, w += n) {
        Lane s[4] = {{0}, {0}, {0}, {0}};
        int i = 0;
        for (; i + 16 <= n; i += 16)
            for (int v = 0; v < 4; v++) s[v] += load4(w + i + 4 * v) * load4(x + i + 4 * v);
        float tail[16] = {0};
        for (int c = 0; i < n; i++, c++) tail[c] = w[i] * x[i];
        for (int v = 0; v < 4; v++) s[v] += load4(tail + 4 * v);
        Lane sum = (s[0] + s[1]) + (s[2] + s[3]);
        y[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

const VecKernel th_vec_c = {
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
    .origin = "vec_c",
};
