/* granite.c: Granite 3.x and the dense Granite 4.0: llama with four scales, some without positions (specification
 * 12.15). */
#include "model/arch.h"

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)il;
    out->mix = &th_block_attn;
    out->attn_scale = hp->attn_scale;
    out->ffn = &th_block_ffn;
}

const Arch th_arch_granite = {
    .name = "granite", .rope = ROPE_NORM, .rope_factors = true, .read = th_hparams_scales, .layer = describe_layer};
