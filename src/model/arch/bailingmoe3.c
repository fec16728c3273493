/* bailingmoe3.c: Ling 3.0 and what derives from it: KDA layers with a layer of latent attention now and then, a dense
 * first layer, then experts with a shared one (specification 12.11). */
#include "model/arch.h"

static bool read_kda(Hparams *hp, const Gguf *g, Err *err) {
    bool safe = true;
    if (!th_hparams_need(hp, g, "kda.head_dim", err) || !th_hparams_need(hp, g, "kda.gate_lower_bound", err) ||
        !th_hparams_need(hp, g, "ssm.conv_kernel", err) ||
        !th_hparams_int(hp, g, "kda.head_dim", 1, 1 << 12, &hp->kda_head, err) ||
        !th_hparams_real(hp, g, "kda.gate_lower_bound", -1e6, 0, &hp->kda_bound, err) ||
        !th_hparams_int(hp, g, "ssm.conv_kernel", 1, 16, &hp->ssm_conv, err) ||
        !th_hparams_bool(hp, g, "kda.safe_gate", &safe, err))
        return false;
    return safe ||
           th_fail(err, THIMBLE_E_UNSUPPORTED, "%s.kda.safe_gate is false: that gate is not supported", hp->prefix);
}

static bool read_numbers(Hparams *hp, const Gguf *g, Err *err) {
    if (hp->gating == 0) hp->gating = 2;
    if (!th_hparams_latent(hp, g, err) || !read_kda(hp, g, err) || !th_hparams_experts(hp, g, true, err)) return false;
    int64_t shared = hp->ff_shared ? hp->ff_shared : (int64_t)hp->ff_expert * (hp->n_shared > 1 ? hp->n_shared : 1);
    return th_hparams_shared(hp, g, shared, err);
}

static void describe_layer(const Hparams *hp, int il, LayerSpec *out) {
    out->mix = hp->layer[il].recurrent ? &th_block_kda : &th_block_mla;
    out->head_gate = true;
    out->clamped = true;
    out->ffn = il < hp->n_dense_lead ? &th_block_ffn : &th_block_moe;
}

const Arch th_arch_bailingmoe3 = {
    .name = "bailingmoe3", .rope = ROPE_NORM, .read = read_numbers, .layer = describe_layer, .scales_experts = true};
