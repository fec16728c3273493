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
    bool qk_norm_optional; /* only where the file has the tensors */
    bool qk_norm_whole;   /* over the whole projected vector (olmoe) */
    bool rope_off;
    int window;           /* 0: full */
    bool swa_rope;        /* uses freq_base_swa, n_rot_swa; frequencies unscaled unless Hparams.swa_scaled */
    bool sinks;           /* attn_sinks [H] join the softmax's denominator */
    float attn_scale;     /* 0: 1/sqrt(D) */
    bool head_gate;       /* latent attention: each head's output times sigmoid of its row of attn_gate [E][H] */
    bool out_gate;        /* attn_q has 2 D rows a head, query then gate: the head's output *= sigmoid(gate) */
    /* Gated DeltaNet */
    bool grouped_keys; /* value head j uses key head j / (heads / key heads), not j % key heads; ssm_ba accordingly */
    /* norms */
    const char *mix_norm, *ffn_norm;           /* before a block; NULL: "attn_norm", "ffn_norm"; "": none */
    const char *mix_post_norm, *ffn_post_norm; /* behind it, or NULL (gemma3: "post_attention_norm", "post_ffw_norm") */
    int act_fn;           /* ACT_FN_* */
    bool clamped;         /* a dense feed-forward is limited like a shared expert (LayerNumbers.shared_clamp) */
    bool shared_gated;    /* shared expert weighed by sigmoid(ffn_gate_inp_shexp . x) */
} LayerSpec;

/* What a block needs to take its tensors (bind.c). */
typedef struct Binder {
    const Hparams *hp;
    Weights *ws;
    const Kernels *kernels;
    Arena *arena; /* of the model: private records */
    int layer;    /* -1: tensors of the whole model */
    Err *err;
} Binder;
/* What a pass of T tokens is measured with. */
typedef struct PassSize {
    int context, T, threads, cache_type;
    int experts; /* Pass.experts_override */
} PassSize;

/* Cached rows of one kind (a head's keys, say): that of position p lies at base + p % n_cells * row_bytes. */
typedef struct CacheRows {
    char *base;
    size_t row_bytes;
    int n_cells, first;
} CacheRows;

struct Block {
    const char *name;
    /* Takes its tensors IN THE ORDER THEY RUN; allocates its private record from the model's arena. */
    bool (*bind)(void **priv, const Layer *l, Binder *b);
    /* Bytes of cache a sequence keeps for this layer with `context` tokens and passes of at most `batch`. NULL: 0. */
    uint64_t (*state)(const void *priv, const Layer *l, int context, int batch, int cache_type);
    /* Bytes of recurrent memory: what the past has become, whatever its length; laid out and handed out by
     * state.h (th_state_runs). state_type is that of scans. NULL: 0. */
    uint64_t (*recurrent)(const void *priv, const Layer *l, int state_type);
    /* Bytes that a pass of T tokens on trial notes for this layer (ScanJournal), and floats of work for each thread
     * (ScanRun.work), 0 without a scan. There whenever recurrent is. */
    size_t (*notes)(const void *priv, const Layer *l, int T, size_t *work);
    /* Bytes of scratch for a pass. */
    uint64_t (*scratch)(const void *priv, const Layer *l, const PassSize *size);
    /* May the cache forget positions >= length of s? NULL: always. (Going back to 0 is always allowed.) */
    bool (*can_rewind)(const void *priv, const Layer *l, const SeqState *s, int length);
    /* For snapshots: the i-th of the cache's series of rows. What a sequence of `length` tokens still needs of it are
     * the positions out->first .. length - 1. False beyond the last series. There whenever state is. */
    bool (*rows)(const void *priv, const Layer *l, const SeqState *s, int length, int i, CacheRows *out);
    /* y [T][E] = block(x [T][E]); x is normalised (where there is a norm) and stays untouched. False with p->err. */
    bool (*forward)(Pass *p, const void *priv, const Layer *l, float *y, const float *x);
    /* Reads ahead what this layer would probably use for hidden x [E] of an earlier layer. NULL: nothing. */
    void (*guess)(Pass *p, const void *priv, const Layer *l, const float *x);
};

struct Layer {
    int index;
    const Hparams *hp;
    LayerSpec spec;
    void *mix, *ffn;               /* private records of the blocks */
    const float *mix_norm, *ffn_norm, *mix_post_norm, *ffn_post_norm; /* after load */
    const Weight *norm[4];         /* their weights, in that order */
    const Layer *next;             /* NULL after the last: for look-ahead */
};

#include "block_list.h" /* th_block_attn, ...: one for each file of block/, listed by the Makefile */

/* ---- bind.c: taking tensors by their short name ("attn_q": "blk.<layer>.attn_q.weight") ------------------------- */

/* A matrix cols -> rows with its companions; checks shape, and that a kernel serves its type. flags: WEIGHT_OPTIONAL
 * leaves l->w NULL; WEIGHT_EMBED is passed on. */
bool th_bind_linear(Binder *b, const char *name, int64_t cols, int64_t rows, int flags, Linear *l);
/* A resident f32 vector or small matrix; `suffix` is ".weight", ".bias" or "". */
bool th_bind_vector(Binder *b, const char *name, const char *suffix, int64_t cols, int64_t rows, int flags,
                    const Weight **out);
/* One matrix per expert, for a bundle. */
bool th_bind_experts(Binder *b, const char *name, int64_t cols, int64_t rows, int flags, const Weight **out);
/* A matrix cols -> per_head for each of H heads, head after head in one tensor of two or three dimensions. */
bool th_bind_heads(Binder *b, const char *name, int64_t cols, int64_t H, int64_t per_head, Linear *l);
/* The optional second-level scales of a tensor of n matrices: one value for all, or one for each. */
bool th_bind_scales(Binder *b, const char *name, int64_t n, const Weight **out);
/* The value of matrix i (1 without scales). */
static inline float th_scale_of(const Weight *scale, int i) {
    if (!scale) return 1.0f;
    return th_weights_f32(scale)[(int64_t)th_weight_cols(scale) * th_weight_rows(scale) > 1 ? i : 0];
}
bool th_bind_has(const Binder *b, const char *name);
/* Zeroed private record from the model's arena. */
void *th_bind_record(Binder *b, size_t bytes);
static inline const float *th_vector(const Weight *w) { return w ? th_weights_f32(w) : NULL; }

#endif
