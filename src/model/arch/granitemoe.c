/* granitemoe.c: Granite 3.x with experts: granite's scales, weights normalised, a plain shared expert in some
 * (specification 12.16). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->gating = 1;
    hp->expert_norm = true;
    return th_hparams_scales(hp, g, err) && th_hparams_experts(hp, g, false, err) &&
           th_hparams_shared(hp, g, hp->ff_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)il;
    out->mix = &th_block_attn;
    out->attn_scale = hp->attn_scale;
    out->ffn = &th_block_moe;
}

const Arch th_arch_granitemoe = {
    .name = "granitemoe", .rope = ROPE_NORM, .rope_factors = true, .read = read_numbers, .layer = describe_layer};
