/* gemma3.c: Gemma 3: five sliding layers to a full one, each with its own rotary base, norms on both sides of a block,
 * GELU, scaled embeddings (specification 12.12). */
#include <math.h>

#include "model/arch.h"

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    hp->embd_scale = sqrtf((float)hp->n_embd);
    if (hp->n_layer == 62 && hp->layer[0].H > 0) /* 27B scales by the width per head, not by the head size */
        hp->attn_scale = 1.0f / sqrtf((float)hp->n_embd / (float)hp->layer[0].H);
    return th_hparams_real(hp, g, "final_logit_softcapping", 0, 1e30, &hp->final_softcap, err) &&
           th_hparams_windows(hp, g, 6, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = &th_block_attn;
    out->qk_norm = true;
    out->attn_scale = hp->attn_scale;
    out->window = hp->layer[il].sliding ? hp->window : 0;
    out->swa_rope = hp->layer[il].sliding;
    out->mix_post_norm = "post_attention_norm";
    out->ffn = &th_block_ffn;
    out->ffn_post_norm = "post_ffw_norm";
    out->act_fn = ACT_FN_GELU;
}

const Arch th_arch_gemma3 = {.name = "gemma3", .rope = ROPE_NEOX, .read = read_numbers, .layer = describe_layer};
