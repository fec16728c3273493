/* llama.c: Llama 1 to 3, SmolLM2, Mistral, and with experts Mixtral (specification 12.1). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (hp->n_rot != hp->D)
        return th_fail(err, THIMBLE_E_FORMAT, "llama rotates whole heads: %d of %d dimensions", hp->n_rot, hp->D);
    if (hp->n_expert == 0) return true;
    hp->expert_norm = true;
    hp->gating = 1;
    return th_hparams_experts(hp, g, false, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    (void)il;
    out->mix = &th_block_attn;
    out->ffn = hp->n_expert ? &th_block_moe : &th_block_ffn;
}

const Arch th_arch_llama = {
    .name = "llama", .rope = ROPE_NORM, .rope_factors = true, .read = read_numbers, .layer = describe_layer};
