/* bind.c: taking tensors by their short names, with companions, shapes checked and a kernel assured.
 *
 * A matrix whose type has no product, or whose rows do not fit the kernel's activation form, is refused here, by name,
 * before anything is loaded. */
#include <stdio.h>

#include "model/block.h"

enum { MAX_NAME = 160 };

static void full_name(const Binder *b, const char *name, const char *suffix, char out[MAX_NAME]) {
    if (b->layer >= 0) snprintf(out, MAX_NAME, "blk.%d.%s%s", b->layer, name, suffix);
    else snprintf(out, MAX_NAME, "%s%s", name, suffix);
}

static bool check_kernel(const Binder *b, const Weight *w) {
    const TypeInfo *type = th_weight_type(w);
    const MatKernel *kernel = b->kernels->mat[type->id];
    if (!kernel)
        return th_fail(b->err, THIMBLE_E_UNSUPPORTED, "%s: no products with weights of type %s", th_weight_name(w),
                       type->name);
    int unit = kernel->act == ACT_Q8_K ? 256 : kernel->act == ACT_Q8_0 ? 32 : 1;
    if (th_weight_cols(w) % unit != 0)
        return th_fail(b->err, THIMBLE_E_UNSUPPORTED, "%s: rows of %d weights of type %s are not whole blocks of %d",
                       th_weight_name(w), th_weight_cols(w), type->name, unit);
    return true;
}

bool th_bind_has(const Binder *b, const char *name) {
    char full[MAX_NAME];
    full_name(b, name, ".weight", full);
    return th_weights_has(b->ws, full);
}

bool th_bind_vector(Binder *b, const char *name, const char *suffix, int64_t cols, int64_t rows, int flags,
                    const Weight **out) {
    char full[MAX_NAME];
    full_name(b, name, suffix, full);
    return th_weights_find(b->ws, full, (Shape){cols, rows, 1}, flags | WEIGHT_VECTOR, out, b->err);
}

bool th_bind_linear(Binder *b, const char *name, int64_t cols, int64_t rows, int flags, Linear *l) {
    char full[MAX_NAME];
    *l = (Linear){0};
    full_name(b, name, ".weight", full);
    if (!th_weights_find(b->ws, full, (Shape){cols, rows, 1}, flags, &l->w, b->err)) return false;
    if (!l->w) return true;
    return check_kernel(b, l->w) && th_bind_vector(b, name, ".scale", 1, 1, WEIGHT_OPTIONAL, &l->scale) &&
           th_bind_vector(b, name, ".bias", rows, 1, WEIGHT_OPTIONAL, &l->bias);
}

bool th_bind_heads(Binder *b, const char *name, int64_t cols, int64_t H, int64_t per_head, Linear *l) {
    char full[MAX_NAME];
    *l = (Linear){0};
    full_name(b, name, ".weight", full);
    if (!th_weights_find(b->ws, full, (Shape){cols, H * per_head, 1}, WEIGHT_FLAT, &l->w, b->err) ||
        !check_kernel(b, l->w) || !th_bind_vector(b, name, ".bias", H * per_head, 1, WEIGHT_OPTIONAL, &l->bias))
        return false;
    return th_bind_scales(b, name, H, &l->scale);
}

bool th_bind_scales(Binder *b, const char *name, int64_t n, const Weight **out) {
    if (!th_bind_vector(b, name, ".scale", 0, 0, WEIGHT_OPTIONAL, out)) return false;
    if (!*out) return true;
    int64_t values = (int64_t)th_weight_cols(*out) * th_weight_rows(*out);
    return values == 1 || values == n ||
           th_fail(b->err, THIMBLE_E_FORMAT, "%s: %lld scales for %lld matrices", th_weight_name(*out),
                   (long long)values, (long long)n);
}

bool th_bind_experts(Binder *b, const char *name, int64_t cols, int64_t rows, int flags, const Weight **out) {
    char full[MAX_NAME];
    full_name(b, name, ".weight", full);
    if (!th_weights_find(b->ws, full, (Shape){cols, rows, b->hp->n_expert}, flags | WEIGHT_EXPERTS, out, b->err))
        return false;
    return !*out || check_kernel(b, *out);
}

void *th_bind_record(Binder *b, size_t bytes) { return th_arena_alloc(b->arena, bytes, b->err); }
