/* lfm2.c: LFM2 and LFM2.5: short convolutions with a few attention layers (specification 12.13).
 * attention.head_count_kv is 0 where a layer is a convolution. */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    return th_hparams_int(hp, g, "shortconv.l_cache", 1, 16, &hp->ssm_conv, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_shortconv : &th_block_attn;
    out->qk_norm = true;
    out->window = hp->window;
    out->ffn = &th_block_ffn;
}

const Arch th_arch_lfm2 = {
    .name = "lfm2", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer, .final_norm = "token_embd_norm"};
