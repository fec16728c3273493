/* olmoe.c: OLMoE: norms over whole projected queries and keys, router weights as they are (specification 12.9). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->expert_norm = false;
    hp->gating = 1;
    hp->ff_shared = 0;
    return th_hparams_experts(hp, g, false, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)hp, (void)il;
    out->mix = &th_block_attn;
    out->qk_norm_whole = true;
    out->ffn = &th_block_moe;
}

const Arch th_arch_olmoe = {.name = "olmoe", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer};
