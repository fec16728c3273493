/* qwen35.c: Qwen3.5 dense: as qwen3next with tiled value heads, IMROPE and a plain feed-forward (specification 12.7).
 */
#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    return th_hparams_ssm(hp, g, err) && th_hparams_recurrent(hp, g, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_deltanet : &th_block_attn;
    out->qk_norm = true;
    out->out_gate = true;
    out->ffn_norm = "post_attention_norm";
    out->ffn = &th_block_ffn;
}

const Arch th_arch_qwen35 = {
    .name = "qwen35", .rope = ROPE_IMROPE, .mtp = true, .read = read_numbers, .layer = describe_layer};
