/* random_model.c: see random_model.h. */
#include "common/random_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string.h>
#include <string.h>

#include "base/num.h"
#include "base/rng.h"
#include "common/gguf_writer.h"
#include "quant/layout.h"

enum { MAX_SCALES = 256 };

typedef struct Making {
    const RandomModel *m;
    GgufWriter w;
    uint64_t rng[4];
    char (*names)[96]; /* or NULL: tensors are written */
    size_t n_names, cap;
} Making;

static float uniform(Making *k, float range) { return (float)(th_rng_unit(k->rng) * 2 - 1) * range; }

static U16 half(float f) {
    uint16_t h = th_f32_to_f16(f);
    return (U16){{(uint8_t)h, (uint8_t)(h >> 8)}};
}

/* Bytes of one row whose weights are about `range` large. */
static void fill_row(Making *k, uint32_t type, char *row, uint64_t n, float range) {
    for (uint64_t i = 0; i < n; i++) {
        if (type == TYPE_F32) ((float *)(void *)row)[i] = uniform(k, range);
        if (type == TYPE_F16) ((uint16_t *)(void *)row)[i] = th_f32_to_f16(uniform(k, range));
    }
    for (uint64_t i = 0; type == TYPE_Q8_0 && i < n / 32; i++) {
        BlockQ8_0 *b = (BlockQ8_0 *)(void *)row + i;
        b->d = half(range / 127 * (0.5f + (float)th_rng_unit(k->rng)));
        for (int j = 0; j < 32; j++) b->q[j] = (int8_t)uniform(k, 127);
    }
    for (uint64_t i = 0; type == TYPE_MXFP4 && i < n / 32; i++) {
        BlockMXFP4 *b = (BlockMXFP4 *)(void *)row + i;
        for (size_t j = 0; j < sizeof *b; j++) ((uint8_t *)b)[j] = (uint8_t)th_rng_next(k->rng);
        b->e = (uint8_t)(127 + ilogbf(range / 6));
    }
    for (uint64_t i = 0; type == TYPE_Q4_K && i < n / 256; i++) {
        BlockQ4_K *b = (BlockQ4_K *)(void *)row + i;
        for (size_t j = 0; j < sizeof *b; j++) ((uint8_t *)b)[j] = (uint8_t)th_rng_next(k->rng);
        b->d = half(range / (15 * 32)), b->dmin = half(range / (2 * 32));
    }
}

/* Scales of a tensor of n matrices, of which every other file has one for all. */
static void scales(Making *k, const char *name, float *data, uint64_t values, uint64_t n) {
    size_t stem = strlen(name) - strlen(".weight");
    if (k->m->scales == 0 || strcmp(name + stem, ".weight") != 0) return;
    uint64_t count = k->m->seed % 2 ? n : 1;
    float s[MAX_SCALES];
    if (n > MAX_SCALES) abort();
    for (uint64_t i = 0; i < n; i++) s[i] = ldexpf(1, (int)((stem + (count > 1 ? i : 0)) % 3) - 1);
    for (uint64_t i = 0; k->m->scales == 2 && i < n * values; i++) data[i] *= s[i / values];
    if (k->m->scales == 2) return;
    char full[96];
    snprintf(full, sizeof full, "%.*s.scale", (int)stem, name);
    gguf_writer_tensor(&k->w, full, TYPE_F32, 1, &count, s);
}

static void tensor(Making *k, const char *name, uint32_t type, uint64_t cols, uint64_t rows, uint64_t experts,
                   float offset) {
    const TypeInfo *t = th_type_info(type);
    if (k->names) {
        if (k->n_names < k->cap) snprintf(k->names[k->n_names], sizeof k->names[0], "%s", name);
        k->n_names++;
        return;
    }
    if (k->m->omit && strcmp(k->m->omit, name) == 0) return;
    if (k->m->bend && strcmp(k->m->bend, name) == 0) cols += t->block;
    uint64_t row_bytes = th_type_row_bytes(t, cols), n = rows * experts;
    if (row_bytes == 0) abort();
    char *data = calloc(n, row_bytes);
    if (!data) abort();
    for (uint64_t r = 0; r < n; r++)
        fill_row(k, type, data + r * row_bytes, cols, 1.7f / sqrtf((float)(offset != 0 ? 16 : cols)));
    for (uint64_t i = 0; offset != 0 && i < n * cols; i++) ((float *)(void *)data)[i] += offset;
    if (rows > 1) scales(k, name, (float *)(void *)data, rows * cols, experts);
    uint64_t dims[3] = {cols, rows, experts};
    gguf_writer_tensor(&k->w, name, type, experts > 1 ? 3 : rows > 1 ? 2 : 1, dims, data);
    free(data);
}

static const char *in_layer(int il, const char *name) {
    static char full[96];
    snprintf(full, sizeof full, "blk.%d.%s", il, name);
    return full;
}

static void norm(Making *k, int il, const char *name, int n) {
    tensor(k, in_layer(il, name), TYPE_F32, (uint64_t)n, 1, 1, 1.0f);
}
static void matrix(Making *k, int il, const char *name, int cols, int rows) {
    tensor(k, in_layer(il, name), k->m->type, (uint64_t)cols, (uint64_t)rows, 1, 0);
}
static void bias(Making *k, int il, const char *name, int n) {
    tensor(k, in_layer(il, name), TYPE_F32, (uint64_t)n, 1, 1, 0);
}

static void attention(Making *k, int il) {
    const RandomModel *m = k->m;
    int E = m->dim, q = m->heads * m->head_size, kv = m->heads_kv * m->head_size;
    int value = m->value_size ? m->value_size : m->head_size, v = m->heads_kv * value;
    norm(k, il, "attn_norm.weight", E);
    if (m->fused_qkv) {
        matrix(k, il, "attn_qkv.weight", E, q + kv + v);
    } else {
        matrix(k, il, "attn_q.weight", E, m->ssm_state ? 2 * q : q);
        matrix(k, il, "attn_k.weight", E, kv);
        matrix(k, il, "attn_v.weight", E, v);
    }
    if (m->biases) {
        bias(k, il, "attn_q.bias", q);
        bias(k, il, "attn_k.bias", kv);
        bias(k, il, "attn_v.bias", v);
    }
    if (m->qk_norm || m->qk_norm_whole) {
        norm(k, il, "attn_q_norm.weight", m->qk_norm_whole ? q : m->head_size);
        norm(k, il, "attn_k_norm.weight", m->qk_norm_whole ? kv : m->head_size);
    }
    if (m->sinks) {
        bias(k, il, "attn_sinks.weight", m->heads);
        bias(k, il, "attn_output.bias", E);
    }
    matrix(k, il, "attn_output.weight", m->heads * value, E);
    if (m->post_norms) norm(k, il, "post_attention_norm.weight", E);
}

static bool is_recurrent(const RandomModel *m, int il) {
    return m->attention_every && (il + 1) % m->attention_every != 0;
}

static void mamba2(Making *k, int il) {
    const RandomModel *m = k->m;
    int di = m->mamba_heads * m->mamba_head, cd = di + 2 * m->mamba_groups * m->mamba_state, N = m->mamba_heads;
    norm(k, il, "attn_norm.weight", m->dim);
    matrix(k, il, "ssm_in.weight", m->dim, di + cd + N);
    tensor(k, in_layer(il, "ssm_conv1d.weight"), TYPE_F32, (uint64_t)m->taps, (uint64_t)cd, 1, 0);
    bias(k, il, "ssm_conv1d.bias", cd);
    bias(k, il, "ssm_dt.bias", N);
    tensor(k, in_layer(il, "ssm_a"), TYPE_F32, 1, (uint64_t)N, 1, -1.0f);
    tensor(k, in_layer(il, "ssm_d"), TYPE_F32, 1, (uint64_t)N, 1, 1.0f);
    tensor(k, in_layer(il, "ssm_norm.weight"), TYPE_F32, (uint64_t)(di / m->mamba_groups), (uint64_t)m->mamba_groups, 1,
           1);
    matrix(k, il, "ssm_out.weight", di, m->dim);
}

static void short_convolution(Making *k, int il) {
    const RandomModel *m = k->m;
    norm(k, il, "attn_norm.weight", m->dim);
    matrix(k, il, "shortconv.in_proj.weight", m->dim, 3 * m->dim);
    tensor(k, in_layer(il, "shortconv.conv.weight"), TYPE_F32, (uint64_t)m->taps, (uint64_t)m->dim, 1, 0);
    matrix(k, il, "shortconv.out_proj.weight", m->dim, m->dim);
}

static void heads(Making *k, int il, const char *name, int cols, int per_head) {
    tensor(k, in_layer(il, name), k->m->type, (uint64_t)cols, (uint64_t)per_head, (uint64_t)k->m->heads, 0);
}

static void latent_attention(Making *k, int il) {
    const RandomModel *m = k->m;
    int E = m->dim, H = m->heads, C = m->latent, value = m->head_size - m->rope_dims;
    norm(k, il, "attn_norm.weight", E);
    if (m->query_latent) {
        matrix(k, il, "attn_q_a.weight", E, m->query_latent);
        norm(k, il, "attn_q_a_norm.weight", m->query_latent);
        matrix(k, il, "attn_q_b.weight", m->query_latent, H * m->head_size);
    } else {
        matrix(k, il, "attn_q.weight", E, H * m->head_size);
    }
    matrix(k, il, "attn_kv_a_mqa.weight", E, C + m->rope_dims);
    if (m->latent_every) matrix(k, il, "attn_gate.weight", E, H);
    norm(k, il, "attn_kv_a_norm.weight", C);
    if (m->legacy_kv_b) {
        matrix(k, il, "attn_kv_b.weight", C, H * 2 * value);
    } else {
        heads(k, il, "attn_k_b.weight", value, C);
        heads(k, il, "attn_v_b.weight", C, value);
        if (m->companions) bias(k, il, "attn_v_b.bias", H * value);
    }
    matrix(k, il, "attn_output.weight", H * value, E);
}

static bool is_kda(const RandomModel *m, int il) { return m->latent_every && (il + 1) % m->latent_every != 0; }

static void kda(Making *k, int il) {
    const RandomModel *m = k->m;
    static const char *const wide[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight", "ssm_f_a.weight",
                                       "ssm_g_a.weight"};
    static const char *const convs[] = {"ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight"};
    int di = m->heads * m->kda_head;
    norm(k, il, "attn_norm.weight", m->dim);
    for (int i = 0; i < 5; i++) matrix(k, il, wide[i], m->dim, di);
    for (int i = 0; i < 3; i++) tensor(k, in_layer(il, convs[i]), TYPE_F32, 4, 1, (uint64_t)di, 0);
    tensor(k, in_layer(il, "ssm_beta.weight"), TYPE_F32, (uint64_t)m->dim, (uint64_t)m->heads, 1, 0);
    norm(k, il, "ssm_a", m->heads);
    bias(k, il, "ssm_dt.bias", di);
    norm(k, il, "ssm_norm.weight", m->kda_head);
    matrix(k, il, "attn_output.weight", di, m->dim);
}

static void experts(Making *k, int il) {
    const RandomModel *m = k->m;
    uint64_t E = (uint64_t)m->dim, F = (uint64_t)m->expert_ff, X = (uint64_t)m->experts;
    tensor(k, in_layer(il, "ffn_gate_inp.weight"), TYPE_F32, E, X, 1, 0);
    if (m->groups || m->select_bias) bias(k, il, "exp_probs_b.bias", m->experts);
    if (m->sinks) bias(k, il, "ffn_gate_inp.bias", m->experts);
    if (m->shared_ff) {
        if (!m->groups && !m->shared_plain) bias(k, il, "ffn_gate_inp_shexp.weight", m->dim);
        if (m->shared_gate_bias != 0)
            tensor(k, in_layer(il, "ffn_gate_inp_shexp.bias"), TYPE_F32, 1, 1, 1, m->shared_gate_bias);
        matrix(k, il, "ffn_gate_shexp.weight", m->dim, m->shared_ff);
        matrix(k, il, "ffn_up_shexp.weight", m->dim, m->shared_ff);
        matrix(k, il, "ffn_down_shexp.weight", m->shared_ff, m->dim);
    }
    if (m->separate_experts) {
        static const char *const names[] = {"ffn_gate", "ffn_up", "ffn_down"};
        for (int i = 0; i < 3 * m->experts; i++) {
            char name[48];
            snprintf(name, sizeof name, "%s.%d.weight", names[i % 3], i / 3);
            tensor(k, in_layer(il, name), m->expert_type, i % 3 == 2 ? F : E, i % 3 == 2 ? E : F, 1, 0);
        }
        return;
    }
    if (m->fused_gate_up) {
        tensor(k, in_layer(il, "ffn_gate_up_exps.weight"), m->expert_type, E, 2 * F, X, 0);
    } else {
        tensor(k, in_layer(il, "ffn_gate_exps.weight"), m->expert_type, E, F, X, 0);
        tensor(k, in_layer(il, "ffn_up_exps.weight"), m->expert_type, E, F, X, 0);
    }
    if (m->companions) {
        tensor(k, in_layer(il, "ffn_down_exps.bias"), TYPE_F32, E, X, 1, 0);
        tensor(k, in_layer(il, m->fused_gate_up ? "ffn_gate_up_exps.bias" : "ffn_gate_exps.bias"), TYPE_F32,
               m->fused_gate_up ? 2 * F : F, X, 1, 0);
    }
    /* Every other layer in another type: files mix them, and slots then come in two sizes. */
    tensor(k, in_layer(il, "ffn_down_exps.weight"), il % 2 ? m->down_type : m->expert_type, F, E, X, 0);
}

static void delta_net(Making *k, int il) {
    const RandomModel *m = k->m;
    int E = m->dim, kd = m->ssm_key_heads * m->ssm_state, Nv = m->ssm_value_heads, vd = Nv * m->ssm_state;
    norm(k, il, "attn_norm.weight", E);
    if (m->packing == 2) {
        matrix(k, il, "ssm_in.weight", E, 2 * kd + 2 * vd);
    } else {
        matrix(k, il, "attn_qkv.weight", E, 2 * kd + vd);
        matrix(k, il, "attn_gate.weight", E, vd);
    }
    if (m->packing == 1 || m->packing == 2) {
        matrix(k, il, "ssm_ba.weight", E, 2 * Nv);
    } else {
        matrix(k, il, "ssm_beta.weight", E, Nv);
        matrix(k, il, "ssm_alpha.weight", E, Nv);
    }
    tensor(k, in_layer(il, "ssm_conv1d.weight"), TYPE_F32, 4, (uint64_t)(2 * kd + vd), 1, 0);
    bias(k, il, m->packing == 3 ? "ssm_dt" : "ssm_dt.bias", Nv);
    tensor(k, in_layer(il, "ssm_a"), TYPE_F32, (uint64_t)Nv, 1, 1, -1.0f); /* decays: negative */
    norm(k, il, "ssm_norm.weight", m->ssm_state);
    matrix(k, il, "ssm_out.weight", vd, E);
}

static void mtp_block(Making *k, int il) {
    const RandomModel *m = k->m;
    matrix(k, il, "nextn.eh_proj.weight", 2 * m->dim, m->dim);
    norm(k, il, "nextn.enorm.weight", m->dim);
    norm(k, il, "nextn.hnorm.weight", m->dim);
    norm(k, il, "nextn.shared_head_norm.weight", m->dim);
}

static void layer(Making *k, int il) {
    const RandomModel *m = k->m;
    int interval = m->interval ? m->interval : 4;
    if (m->ssm_state && il < m->layers && (il + 1) % interval != 0)
        delta_net(k, il);
    else if (is_recurrent(m, il) && m->mamba_heads)
        mamba2(k, il);
    else if (is_recurrent(m, il))
        short_convolution(k, il);
    else if (is_kda(m, il))
        kda(k, il);
    else if (m->latent)
        latent_attention(k, il);
    else
        attention(k, il);
    const char *ffn_norm = m->ssm_state ? "post_attention_norm.weight" : "ffn_norm.weight";
    norm(k, il, m->ffn_norm ? m->ffn_norm : ffn_norm, m->dim);
    if (m->experts && il >= m->dense_lead) {
        experts(k, il);
    } else {
        matrix(k, il, "ffn_gate.weight", m->dim, m->ff);
        matrix(k, il, "ffn_up.weight", m->dim, m->ff);
        matrix(k, il, "ffn_down.weight", m->ff, m->dim);
    }
    if (m->post_norms) norm(k, il, "post_ffw_norm.weight", m->dim);
}

static const char *key(const Making *k, const char *name) {
    static char full[96];
    snprintf(full, sizeof full, "%s.%s", k->m->arch, name);
    return full;
}
static void number(Making *k, const char *name, int v) {
    if (v) gguf_writer_u32(&k->w, key(k, name), (uint32_t)v);
}

/* What granitehybrid and lfm2 say about their layers; granite's scales. */
static void mixed_metadata(Making *k) {
    const RandomModel *m = k->m;
    if (strncmp(m->arch, "granite", 7) == 0) {
        gguf_writer_f32(&k->w, key(k, "embedding_scale"), 6);
        gguf_writer_f32(&k->w, key(k, "residual_scale"), 0.3f);
        gguf_writer_f32(&k->w, key(k, "logit_scale"), 3);
        gguf_writer_f32(&k->w, key(k, "attention.scale"), 0.2f);
    }
    if (!m->attention_every) return;
    uint32_t kv[64];
    for (int il = 0; il < m->layers; il++) kv[il] = is_recurrent(m, il) ? 0 : (uint32_t)m->heads_kv;
    gguf_writer_array(&k->w, key(k, "attention.head_count_kv"), GGUF_U32, kv, (size_t)m->layers);
    number(k, m->mamba_heads ? "ssm.conv_kernel" : "shortconv.l_cache", m->taps);
    number(k, "ssm.inner_size", m->mamba_heads * m->mamba_head);
    number(k, "ssm.time_step_rank", m->mamba_heads);
    number(k, "ssm.state_size", m->mamba_state);
    number(k, "ssm.group_count", m->mamba_groups);
}

static void metadata(Making *k) {
    const RandomModel *m = k->m;
    gguf_writer_str(&k->w, "general.architecture", m->arch);
    number(k, "block_count", m->layers + m->mtp);
    number(k, "nextn_predict_layers", m->mtp);
    if (m->ssm_state) {
        number(k, "ssm.conv_kernel", 4);
        number(k, "ssm.state_size", m->ssm_state);
        number(k, "ssm.group_count", m->ssm_key_heads);
        number(k, "ssm.time_step_rank", m->ssm_value_heads);
        number(k, "ssm.inner_size", m->ssm_state * m->ssm_value_heads);
        number(k, "full_attention_interval", m->interval);
        number(k, "rope.dimension_count", m->head_size / 2);
    }
    number(k, "context_length", m->context);
    number(k, "embedding_length", m->dim);
    number(k, "feed_forward_length", m->ff);
    number(k, "attention.head_count", m->heads);
    if (m->latent_every) {
        uint32_t kv[64];
        for (int il = 0; il < m->layers; il++) kv[il] = !is_kda(m, il);
        gguf_writer_array(&k->w, key(k, "attention.head_count_kv"), GGUF_U32, kv, (size_t)m->layers);
        number(k, "kda.head_dim", m->kda_head);
        gguf_writer_f32(&k->w, key(k, "kda.gate_lower_bound"), -5);
        number(k, "ssm.conv_kernel", 4);
    } else if (!m->attention_every) {
        number(k, "attention.head_count_kv", m->latent ? 1 : m->heads_kv);
    }
    mixed_metadata(k);
    number(k, "attention.key_length", m->latent ? m->latent + m->rope_dims : m->head_size);
    number(k, "attention.value_length", m->latent ? m->latent : m->value_size ? m->value_size : m->head_size);
    if (m->latent) {
        number(k, "attention.key_length_mla", m->head_size);
        number(k, "attention.value_length_mla", m->head_size - m->rope_dims);
        number(k, "attention.kv_lora_rank", m->latent);
        number(k, "attention.q_lora_rank", m->query_latent);
        number(k, "rope.dimension_count", m->rope_dims);
    }
    gguf_writer_f32(&k->w, key(k, "attention.layer_norm_rms_epsilon"), 1e-6f);
    number(k, "attention.sliding_window", m->window);
    number(k, "expert_count", m->experts);
    number(k, "expert_used_count", m->experts_used);
    number(k, "expert_feed_forward_length", m->expert_ff);
    number(k, "expert_shared_feed_forward_length", m->shared_ff);
    number(k, "leading_dense_block_count", m->dense_lead);
    if (m->companions) gguf_writer_f32(&k->w, key(k, "swiglu_clamp_exp"), 0.2f);
    if (m->companions) gguf_writer_f32(&k->w, key(k, "swiglu_clamp_shexp"), 0.3f);
    if (!m->groups) return;
    number(k, "expert_shared_count", m->shared_ff ? 1 : 0);
    number(k, "expert_group_count", m->groups);
    number(k, "expert_group_used_count", m->groups / 2);
    gguf_writer_f32(&k->w, key(k, "expert_weights_scale"), 2.5f);
    gguf_writer_bool(&k->w, key(k, "expert_weights_norm"), true);
}

static void tensors(Making *k) {
    const RandomModel *m = k->m;
    tensor(k, "token_embd.weight", m->type, (uint64_t)m->dim, (uint64_t)m->vocab, 1, 0);
    for (int il = 0; il < m->layers + m->mtp; il++) layer(k, il);
    for (int il = m->layers; il < m->layers + m->mtp; il++) mtp_block(k, il);
    tensor(k, "output_norm.weight", TYPE_F32, (uint64_t)m->dim, 1, 1, 1.0f);
    if (!m->tied) tensor(k, "output.weight", m->type, (uint64_t)m->dim, (uint64_t)m->vocab, 1, 0);
}

size_t random_model_tensors(const RandomModel *m, char (*names)[96], size_t cap) {
    Making k = {.m = m, .names = names, .cap = cap};
    tensors(&k);
    return k.n_names;
}

void random_model_write(const RandomModel *m, const char *path) {
    Making k = {.m = m};
    th_rng_seed(k.rng, m->seed);
    gguf_writer_init(&k.w);
    metadata(&k);
    tensors(&k);
    if (!gguf_writer_save(&k.w, path)) abort();
    gguf_writer_free(&k.w);
}
