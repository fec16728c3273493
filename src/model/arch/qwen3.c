/* qwen3.c: Qwen3 dense and the Bonsai models: per-head norms on queries and keys (specification 12.4). */
#include "model/arch.h"

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)hp, (void)il;
    out->mix = &th_block_attn;
    out->qk_norm = true;
    out->ffn = &th_block_ffn;
}

const Arch th_arch_qwen3 = {.name = "qwen3", .rope = ROPE_NEOX, .layer = describe_layer};
