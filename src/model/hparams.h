/* hparams.h: the numbers of a model, read from metadata, every one checked (architectures specification, section 2). */
#ifndef THIMBLE_HPARAMS_H
#define THIMBLE_HPARAMS_H

#include "gguf/gguf.h"

enum { MAX_LAYERS = 1024, MAX_EXPERTS = 4096, MAX_EXPERTS_USED = 256 };
enum { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_YARN, ROPE_SCALING_LONGROPE };

typedef struct Arch Arch;

typedef struct LayerNumbers { /* what may differ from layer to layer */
    int H, Hk, ff;
    bool sliding, recurrent; /* recurrent: head_count_kv is 0 here, until th_hparams_recurrent knows better */
    float clamp, shared_clamp; /* of the activations of routed and of shared experts; 0: none */
} LayerNumbers;

typedef struct Hparams {
    const Arch *arch;
    char prefix[64];         /* general.architecture */
    int n_layer;             /* that run; MTP blocks excluded */
    int n_layer_all;         /* block_count */
    int n_embd, n_vocab, n_ctx_train;
    int D, Dv, n_rot;
    int D_swa, Dv_swa, n_rot_swa; /* of sliding layers; as the others unless keys say otherwise */
    float eps;
    LayerNumbers *layer;     /* [n_layer_all] */
    /* rope */
    double freq_base, freq_base_swa;
    int rope_scaling;        /* ROPE_SCALING_* */
    double rope_factor;      /* s; 1: none */
    double attn_factor, yarn_ext /* < 0: by type */, yarn_beta_fast, yarn_beta_slow;
    bool yarn_in_scale;      /* the YaRN magnitude lies in attn_scale and not in the rotation (deepseek2) */
    int n_ctx_orig;
    int rope_sections[4];    /* all 0: none */
    bool no_rope;            /* queries and keys are not rotated at all (Granite without positions) */
    bool swa_scaled;         /* sliding layers are scaled like the others (gpt-oss)                 */
    /* attention */
    int mla_latent, mla_key, mla_value; /* C, Dk, Dv of latent attention; n_rot is its R */
    int window;
    float attn_scale;        /* 0: 1/sqrt(D) */
    float final_softcap;     /* of the logits (gemma3); 0: off */
    /* experts */
    int n_expert, n_expert_used, ff_expert, ff_shared, n_shared, n_groups, n_groups_used, gating, n_dense_lead;
    float expert_scale;
    bool expert_norm;
    /* scales (Granite, Gemma): 0 or 1 means off */
    float embd_scale, residual_scale, logit_scale;
    int n_nextn;
    /* recurrent layers; 0 where the architecture does not read them */
    int ssm_conv /* taps, also of short convolutions */, ssm_inner, ssm_state, ssm_rank, ssm_groups;
    int kda_head;
    float kda_bound; /* of a key's log decay per token */
} Hparams;

/* Reads what all architectures share, then the architecture's own. Arrays from g's arena. E_UNSUPPORTED names an
 * unknown architecture and lists the known ones. n_vocab comes from token_embd.weight. */
bool th_hparams_read(Hparams *hp, Gguf *g, Err *err);

/* For the files in arch/: getters of "<architecture>.<key>"; *out stays when the key is absent. */
bool th_hparams_int(const Hparams *hp, const Gguf *g, const char *key, int64_t min, int64_t max, int *out, Err *err);
bool th_hparams_real(const Hparams *hp, const Gguf *g, const char *key, double min, double max, float *out, Err *err);
bool th_hparams_bool(const Hparams *hp, const Gguf *g, const char *key, bool *out, Err *err);
bool th_hparams_need(const Hparams *hp, const Gguf *g, const char *key, Err *err); /* E_FORMAT if absent */
bool th_hparams_has(const Hparams *hp, const Gguf *g, const char *key);
/* Marks sliding layers from attention.sliding_window_pattern (number or BOOL array; `pattern` if absent), section 4.2.
 */
bool th_hparams_windows(Hparams *hp, const Gguf *g, int pattern, Err *err);
/* Marks recurrent layers: from attention.recurrent_layers; else those with 0 key heads, if there are any; else all but
 * every full_attention_interval-th (4). */
bool th_hparams_recurrent(Hparams *hp, const Gguf *g, Err *err);
/* The ssm.* numbers, all required. Each is at least 1; conv_kernel is at most 16. */
bool th_hparams_ssm(Hparams *hp, const Gguf *g, Err *err);
/* What Granite multiplies by (embedding_scale, residual_scale, logit_scale, attention.scale; 0: off), and whether it
 * rotates at all (rope.scaling.finetuned). */
bool th_hparams_scales(Hparams *hp, const Gguf *g, Err *err);
/* Latent attention: attention.kv_lora_rank, key_length_mla and value_length_mla (key_length, value_length in old
 * files). */
bool th_hparams_latent(Hparams *hp, const Gguf *g, Err *err);
/* Width of the shared experts together: that of the first tensors if these agree, or else `width`. */
bool th_hparams_shared(Hparams *hp, const Gguf *g, int64_t width, Err *err);
/* E_FORMAT unless there are experts and their numbers fit together. Their width is that of the first tensors of
 * experts; if these do not agree, that of the key, else F / K or F. */
bool th_hparams_experts(Hparams *hp, const Gguf *g, bool width_is_divided, Err *err);

#endif
