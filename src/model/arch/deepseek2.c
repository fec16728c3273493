/* deepseek2.c: DeepSeek-V2, V3, R1, Kimi-K2, GigaChat 3, GLM-4.7-Flash: latent attention, dense first layers, then
 * experts in groups with a shared one (specification 12.18). */
#include <math.h>

#include "model/arch.h"

/* Softmax when the key is absent, except GLM-4.7-Flash, whose files leave it out. */
static int default_gating(const Hparams *hp) {
    return (hp->n_layer == 47 || hp->n_layer == 48) && hp->n_vocab == 154880 ? 2 : 1;
}

/* With yarn_log_multiplier, YaRN's magnitude belongs into the scale, squared: for the queries and for the keys. */
static bool read_scale(Hparams *hp, const Gguf *g, Err *err) {
    float multiplier = 0;
    if (!th_hparams_real(hp, g, "rope.scaling.yarn_log_multiplier", 0, 1e9, &multiplier, err)) return false;
    bool yarn = hp->rope_scaling == ROPE_SCALING_YARN && hp->rope_factor > 1;
    double mu = yarn ? 1 + (double)multiplier * log(hp->rope_factor) : 1;
    hp->yarn_in_scale = multiplier != 0;
    hp->attn_scale = (float)(mu * mu / sqrt(hp->mla_key));
    return isfinite(hp->attn_scale) ||
           th_fail(err, THIMBLE_E_FORMAT, "the scale of attention is not a finite number");
}

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (!th_hparams_latent(hp, g, err) || !read_scale(hp, g, err)) return false;
    if (hp->n_expert == 0) return true; /* small ones are dense throughout */
    if (hp->gating == 0) hp->gating = default_gating(hp);
    return th_hparams_experts(hp, g, false, err) &&
           th_hparams_shared(hp, g, (int64_t)hp->ff_expert * hp->n_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = &th_block_mla;
    out->attn_scale = hp->attn_scale;
    out->ffn = il < hp->n_dense_lead || hp->n_expert == 0 ? &th_block_ffn : &th_block_moe;
}

const Arch th_arch_deepseek2 = {
    .name = "deepseek2", .rope = ROPE_NORM, .read = read_numbers, .layer = describe_layer, .scales_experts = true};
