/* granitehybrid.c: Granite 4.0 H and Bamba: Mamba-2 with a few attention layers, dense or with experts, granite's
 * scales (specification 12.17). attention.head_count_kv is 0 where a layer is recurrent. */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    bool any = false;
    for (int i = 0; i < hp->n_layer; i++) any |= hp->layer[i].recurrent;
    if (!th_hparams_scales(hp, g, err) || (any && !th_hparams_ssm(hp, g, err))) return false;
    hp->gating = 1;
    hp->expert_norm = true;
    if (hp->n_expert == 0) return true;
    return th_hparams_experts(hp, g, false, err) && th_hparams_shared(hp, g, hp->ff_shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_mamba2 : &th_block_attn;
    out->attn_scale = hp->attn_scale;
    out->ffn = hp->n_expert ? &th_block_moe : &th_block_ffn;
}

const Arch th_arch_granitehybrid = {
    .name = "granitehybrid", .rope = ROPE_NORM, .rope_factors = true, .read = read_numbers, .layer = describe_layer};
