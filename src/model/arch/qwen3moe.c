/* qwen3moe.c: Qwen3-30B-A3B, 235B-A22B, Qwen3-Coder: qwen3 with experts, weights normalised (specification 12.5). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->expert_norm = true;
    hp->gating = 1;
    hp->ff_shared = 0;
    return th_hparams_experts(hp, g, true, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)hp, (void)il;
    out->mix = &th_block_attn;
    out->qk_norm = true;
    out->ffn = &th_block_moe;
}

const Arch th_arch_qwen3moe = {.name = "qwen3moe", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer};
