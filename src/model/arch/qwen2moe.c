/* qwen2moe.c: Qwen1.5-MoE and Qwen2-MoE: router weights as they are, a gated shared expert (specification 12.3). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->expert_norm = false;
    hp->gating = 1;
    int shared = hp->ff_shared ? hp->ff_shared : hp->layer[0].ff;
    return th_hparams_experts(hp, g, true, err) &&
           th_hparams_shared(hp, g, shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)hp, (void)il;
    out->mix = &th_block_attn;
    out->ffn = &th_block_moe;
    out->shared_gated = true;
}

const Arch th_arch_qwen2moe = {.name = "qwen2moe", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer};
