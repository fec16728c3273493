/* lfm2moe.c: LFM2-8B-A1B and 24B-A2B: lfm2 with dense first layers, then experts behind a sigmoid router with a
 * selection bias (specification 12.14). */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (hp->gating == 0) hp->gating = 2;
    hp->expert_norm = true;
    hp->ff_shared = 0;
    return th_hparams_int(hp, g, "shortconv.l_cache", 1, 16, &hp->ssm_conv, err) &&
           th_hparams_experts(hp, g, true, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_shortconv : &th_block_attn;
    out->qk_norm = true;
    out->window = hp->window;
    out->ffn = il < hp->n_dense_lead ? &th_block_ffn : &th_block_moe;
}

const Arch th_arch_lfm2moe = {.name = "lfm2moe",
                              .rope = ROPE_NEOX,
                              .read = read_numbers,
                              .layer = describe_layer,
                              .final_norm = "token_embd_norm"};
