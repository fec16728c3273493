/* block.h: a kind of block (attention, feed-forward, mixture of experts, ...) as a record of functions, and what an
 * architecture says about a layer. New mathematics = one new block file; forward.c never changes for it. */
#ifndef THIMBLE_BLOCK_H
#define THIMBLE_BLOCK_H

#include "model/hparams.h"
#include "op/op.h"

typedef struct Layer Layer;
typedef struct Block Block;

/* Answers of an architecture for one layer; fields a block does not know are ignored by it. */
typedef struct LayerSpec {
    const Block *mix, *ffn;
    /* attention */
    bool qk_norm;         /* per head, weights [D] */
    bool qk_norm_whole;   /* over the whole projected vector (olmoe) */
    bool rope_off;
    int window;           /* 0: full */
    bool swa_rope;        /* uses freq_base_swa without scaling */
    float attn_scale;     /* 0: 1/sqrt(D) */
    /* norms */
    const char *mix_norm, *ffn_norm;           /* NULL: "attn_norm", "ffn_norm" (pre-norms) */
    const char *mix_post_norm, *ffn_post_norm; /* NULL: none (gemma3: "post_attention_norm", "post_ffw_norm") */
    int act_fn;           /* ACT_FN_* */
    bool shared_gated;    /* shared expert weighed by sigmoid(ffn_gate_inp_shexp . x) */
} LayerSpec;

struct Block {
    const char *name;
    /* Takes its tensors IN THE ORDER THEY RUN; allocates its private record from the model's arena into l->mix or l->ffn. */
    bool (*bind)(void **priv, const Layer *l, const Hparams *hp, Weights *ws, Arena *arena, Err *err);
    /* Bytes a sequence keeps for this layer with `context` tokens and passes of at most `batch`. NULL: 0. */
    uint64_t (*state)(const void *priv, const Layer *l, int context, int batch, int cache_type);
    /* Bytes of scratch for a pass of T tokens. */
    uint64_t (*scratch)(const void *priv, const Layer *l, int context, int T, int threads);
    /* y [T][E] = block(x [T][E]); x is already normalised and stays untouched. False with p->err. */
    bool (*forward)(Pass *p, const void *priv, const Layer *l, float *y, const float *x);
};

struct Layer {
    int index;
    const Hparams *hp;
    LayerSpec spec;
    void *mix, *ffn;               /* private records of the blocks */
    const Weight *mix_norm, *ffn_norm, *mix_post_norm, *ffn_post_norm;
    const Layer *next;             /* NULL after the last: for look-ahead */
    int kv_slot;                   /* which cache of a SeqState; -1: none */
};

extern const Block th_block_attn, th_block_ffn, th_block_moe;

#endif
