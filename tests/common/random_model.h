/* random_model.h: writes a GGUF file of any supported architecture with random weights, for tests that compare runs
 * with each other: the sizes are free, so that matrices have several parts and experts do not all fit.
 *
 *     RandomModel m = RANDOM_MODEL;  m.arch = "qwen2moe";  m.experts = 16;  ...
 *     random_model_write(&m, path);
 *
 * Numbers are the same on every machine. A failed write aborts: for tests alone. */
#ifndef THIMBLE_RANDOM_MODEL_H
#define THIMBLE_RANDOM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct RandomModel {
    const char *arch;
    int layers, dim, heads, heads_kv, head_size, ff, vocab, context;
    int value_size; /* of heads with plain attention; 0: head_size */
    int experts, experts_used, expert_ff, shared_ff, groups, dense_lead; /* experts 0: dense */
    int window;                                                          /* gemma3, gpt-oss, lfm2 */
    /* granitehybrid, lfm2, lfm2moe: every attention_every-th layer is attention, the others are Mamba-2 or, with
     * mamba_heads 0, short convolutions of `taps`; 0: all are attention */
    int attention_every, taps;
    int mamba_heads, mamba_head, mamba_state, mamba_groups;
    bool sinks; /* gpt-oss: sinks, biases of outputs, routers and experts */
    bool select_bias, shared_plain;
    float shared_gate_bias; /* of the shared expert's gate; 0: there is none */
    const char *ffn_norm; /* NULL: ffn_norm */
    /* latent attention (deepseek2, bailingmoe3): latent 0: none; head_size counts rope_dims, values have head_size -
     * rope_dims; query_latent 0: queries are not compressed */
    int latent, rope_dims, query_latent;
    bool legacy_kv_b; /* one matrix instead of attn_k_b and attn_v_b */
    int latent_every; /* bailingmoe3: the other layers are KDA with heads of kda_head; 0: all are latent */
    int kda_head;
    bool companions;     /* biases of expert and latent matrices, clamped activations */
    int scales; /* 1: a power of two as second-level scale of each matrix; 2: multiplied into the (F32) weights */
    /* qwen3next, qwen35, qwen35moe: every interval-th layer (0: 4th) is attention with an output gate, the others are
     * recurrent with heads of ssm_state values */
    int ssm_state, ssm_key_heads, ssm_value_heads, interval;
    int packing;         /* 0: ssm_beta and ssm_alpha, 1: ssm_ba, 2: ssm_in and ssm_ba; 3: as 0, ssm_dt without .bias */
    int mtp;             /* blocks behind the trunk, which must not run: their tensors are there, full of nonsense */
    uint32_t type;       /* of dense matrices: TYPE_F32, F16, Q8_0, MXFP4 or Q4_K */
    uint32_t expert_type, down_type;
    bool tied, fused_qkv, fused_gate_up, separate_experts, qk_norm, qk_norm_whole, biases, post_norms;
    const char *omit; /* full name of a tensor that is left out    */
    const char *bend; /* ... of one that gets a column block too many */
    uint64_t seed;
} RandomModel;
#define RANDOM_MODEL                                                                                                   \
    ((RandomModel){.arch = "llama",                                                                                    \
                   .layers = 2,                                                                                        \
                   .dim = 64,                                                                                          \
                   .heads = 4,                                                                                         \
                   .heads_kv = 2,                                                                                      \
                   .head_size = 16,                                                                                    \
                   .ff = 128,                                                                                          \
                   .vocab = 256,                                                                                       \
                   .context = 2048,                                                                                    \
                   .type = 0,                                                                                          \
                   .expert_type = 0,                                                                                   \
                   .down_type = 0,                                                                                     \
                   .seed = 1})

void random_model_write(const RandomModel *m, const char *path);
/* Full names of its tensors in file order, at most cap; returns how many there are. */
size_t random_model_tensors(const RandomModel *m, char (*names)[96], size_t cap);

#endif
