/* qwen2.c: Qwen2, Qwen2.5 and what was distilled into them: llama with NEOX pairs and biases (specification 12.2). */
#include "model/arch.h"

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)hp, (void)il;
    out->mix = &th_block_attn;
    out->ffn = &th_block_ffn;
}

const Arch th_arch_qwen2 = {.name = "qwen2", .rope = ROPE_NEOX, .layer = describe_layer};
