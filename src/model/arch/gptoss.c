/* gptoss.c: gpt-oss 20b and 120b: attention sinks, a window on every other layer, biases everywhere, experts chosen by
 * plain logits with a clamped activation (specification 12.19). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->gating = 3;
    hp->expert_norm = false;
    hp->ff_shared = 0;
    hp->swa_scaled = true;
    if (!th_hparams_has(hp, g, "rope.freq_base_swa")) hp->freq_base_swa = hp->freq_base;
    return th_hparams_windows(hp, g, 2, err) && th_hparams_experts(hp, g, true, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    bool sliding = hp->layer[il].sliding;
    out->mix = &th_block_attn;
    out->sinks = true;
    out->window = sliding ? hp->window : 0;
    out->swa_rope = sliding && (hp->freq_base_swa != hp->freq_base || hp->n_rot_swa != hp->n_rot);
    out->ffn = &th_block_moe;
    out->ffn_norm = "post_attention_norm";
    out->act_fn = ACT_FN_CLAMPED;
}

const Arch th_arch_gptoss = {.name = "gpt-oss", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer};
