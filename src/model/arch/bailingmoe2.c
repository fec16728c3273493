/* bailingmoe2.c: Ling and Ring 2.0: sigmoid router in groups, a shared expert, dense first layers, heads rotated by
 * half (specification 12.10). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (hp->gating == 0) hp->gating = 2;
    if (!th_hparams_experts(hp, g, true, err)) return false;
    if (hp->ff_shared == 0) hp->ff_shared = hp->ff_expert;
    return th_hparams_shared(hp, g, (int64_t)hp->ff_shared * hp->n_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = &th_block_attn;
    out->qk_norm = true;
    out->ffn = il < hp->n_dense_lead ? &th_block_ffn : &th_block_moe;
}

const Arch th_arch_bailingmoe2 = {
    .name = "bailingmoe2", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer, .scales_experts = true};
