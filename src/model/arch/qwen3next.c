/* qwen3next.c: Qwen3-Next and Qwen3-Coder-Next: three Gated DeltaNet layers to one of gated attention, experts
 * everywhere (specification 12.6). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->expert_norm = true;
    hp->gating = 1;
    int shared = hp->ff_shared ? hp->ff_shared : hp->layer[0].ff;
    return th_hparams_ssm(hp, g, err) && th_hparams_recurrent(hp, g, err) && th_hparams_experts(hp, g, true, err) &&
           th_hparams_shared(hp, g, shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_deltanet : &th_block_attn;
    out->grouped_keys = true;
    out->qk_norm = true;
    out->out_gate = true;
    out->ffn_norm = "post_attention_norm";
    out->ffn = &th_block_moe;
    out->shared_gated = true;
}

const Arch th_arch_qwen3next = {
    .name = "qwen3next", .rope = ROPE_NEOX, .mtp = true, .read = read_numbers, .layer = describe_layer};
