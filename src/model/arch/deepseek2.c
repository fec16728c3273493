/* deepseek2.c: DeepSeek-V2, V3, R1, Kimi-K2, GigaChat 3, GLM-4.7-Flash: latent attention, dense first layers, then
 * experts in groups with a shared one (specification 12.18). */
#include <math.h>

#include "model/arch.h"

/* Softmax when the key is absent, except GLM-4.7-Flash, whose files leave it out. */
static int default_gating(const Hparams *hp) {
    return (hp->n_layer == 47 || hp->n_layer == 48) && hp->n_vocab == 154880 ? 2 : 1;
}

/* YaRN's magnitude belongs into the scale here, squared: once for the queries, once for the keys. */
static float attention_scale(const Hparams *hp) {
    bool yarn = hp->rope_scaling == ROPE_SCALING_YARN && hp->rope_factor > 1;
    double mu = yarn ? 1 + hp->yarn_log * log(hp->rope_factor) : 1;
    return (float)(mu * mu / sqrt(hp->mla_key));
}

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (!th_hparams_latent(hp, g, err)) return false;
    hp->attn_scale = attention_scale(hp);
    if (!isfinite(hp->attn_scale))
        return th_fail(err, THIMBLE_E_FORMAT, "the scale of attention is not a finite number");
    if (hp->n_expert == 0) return true; /* small ones are dense throughout */
    if (hp->gating == 0) hp->gating = default_gating(hp);
    return th_hparams_experts(hp, false, err) && th_hparams_shared(hp, g, (int64_t)hp->ff_expert * hp->n_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = &th_block_mla;
    out->attn_scale = hp->attn_scale;
    out->ffn = il < hp->n_dense_lead || hp->n_expert == 0 ? &th_block_ffn : &th_block_moe;
}

const Arch th_arch_deepseek2 = {.name = "deepseek2", .rope = ROPE_NORM, .read = read_numbers, .layer = describe_layer};
