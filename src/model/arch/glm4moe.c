/* glm4moe.c: GLM-4.5, 4.5-Air, 4.6: partly rotated heads, biases on queries, keys and values, dense first layers,
 * sigmoid router with a selection bias, shared experts (specification 12.20). Without sections MROPE is NEOX. The MTP
 * block is not run. */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (hp->gating == 0) hp->gating = 2;
    if (!th_hparams_experts(hp, g, true, err)) return false;
    return th_hparams_shared(hp, g, (int64_t)hp->ff_expert * hp->n_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = &th_block_attn;
    out->qk_norm = out->qk_norm_optional = true;
    out->ffn = il < hp->n_dense_lead ? &th_block_ffn : &th_block_moe;
    out->ffn_norm = "post_attention_norm";
}

const Arch th_arch_glm4moe = {
    .name = "glm4moe", .rope = ROPE_MROPE, .read = read_numbers, .layer = describe_layer, .scales_experts = true};
