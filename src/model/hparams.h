/* hparams.h: the numbers of a model, read from metadata, every one checked (architectures specification, section 2). */
#ifndef THIMBLE_HPARAMS_H
#define THIMBLE_HPARAMS_H

#include "gguf/gguf.h"

enum { MAX_LAYERS = 1024, MAX_EXPERTS = 4096 };

typedef struct Arch Arch;

typedef struct LayerNumbers { /* what may differ from layer to layer */
    int H, Hk, ff;
    bool sliding, recurrent;
} LayerNumbers;

typedef struct Hparams {
    const Arch *arch;
    char prefix[64];         /* general.architecture */
    int n_layer;             /* that run; MTP blocks excluded */
    int n_layer_all;         /* block_count */
    int n_embd, n_vocab, n_ctx_train;
    int D, Dv, n_rot;
    float eps;
    LayerNumbers *layer;     /* [n_layer_all] */
    /* rope */
    double freq_base, freq_base_swa, freq_scale; /* freq_scale = 1/s */
    int rope_scaling;        /* 0 none/linear, 1 yarn, 2 longrope */
    double rope_factor, attn_factor, yarn_ext, yarn_beta_fast, yarn_beta_slow;
    int n_ctx_orig;
    /* attention */
    int window;
    float attn_scale, attn_softcap, final_softcap;
    /* experts */
    int n_expert, n_expert_used, ff_expert, ff_shared, n_shared, n_groups, n_groups_used, gating, n_dense_lead;
    float expert_scale;
    bool expert_norm;
    /* scales (Granite, Gemma): 0 or 1 means off */
    float embd_scale, residual_scale, logit_scale;
    int n_nextn;
} Hparams;

/* Reads what all architectures share, then the architecture's own. Arrays from g's arena. E_UNSUPPORTED names an unknown
 * architecture and lists the known ones. n_vocab comes from token_embd.weight. */
bool th_hparams_read(Hparams *hp, Gguf *g, Err *err);

#endif
