/* hparams.c: reading and checking the numbers.
 *
 * Everything here was written by a stranger. Each number gets a range when it is read, and each product of two of them
 * that somebody will form later is within 64 bits by those ranges: widths and counts below 2^24, heads times head size
 * below 2^24. Shapes of tensors are checked against these numbers when they are bound. */
#include "model/hparams.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/arch.h"

enum { MAX_WIDTH = 1 << 24, MAX_HEADS = 1 << 16, MAX_HEAD_SIZE = 1 << 14, MAX_KEY = 128 };
static const double MAX_REAL = 1e30;

static const char *full_key(const Hparams *hp, const char *key, char out[MAX_KEY]) {
    snprintf(out, MAX_KEY, "%s.%s", hp->prefix, key);
    return out;
}

bool th_hparams_int(const Hparams *hp, const Gguf *g, const char *key, int64_t min, int64_t max, int *out, Err *err) {
    char name[MAX_KEY];
    int64_t value = *out;
    if (!th_gguf_get_int(g, full_key(hp, key, name), min, max, &value, err)) return false;
    *out = (int)value;
    return true;
}

bool th_hparams_real(const Hparams *hp, const Gguf *g, const char *key, double min, double max, float *out, Err *err) {
    char name[MAX_KEY];
    double value = (double)*out;
    if (!th_gguf_get_real(g, full_key(hp, key, name), min, max, &value, err)) return false;
    *out = (float)value;
    return true;
}

static bool read_double(const Hparams *hp, const Gguf *g, const char *key, double min, double max, double *out,
                        Err *err) {
    char name[MAX_KEY];
    return th_gguf_get_real(g, full_key(hp, key, name), min, max, out, err);
}

bool th_hparams_bool(const Hparams *hp, const Gguf *g, const char *key, bool *out, Err *err) {
    char name[MAX_KEY];
    return th_gguf_get_bool(g, full_key(hp, key, name), out, err);
}

bool th_hparams_has(const Hparams *hp, const Gguf *g, const char *key) {
    char name[MAX_KEY];
    return th_gguf_kv(g, full_key(hp, key, name)) != NULL;
}

bool th_hparams_need(const Hparams *hp, const Gguf *g, const char *key, Err *err) {
    if (th_hparams_has(hp, g, key)) return true;
    return th_fail(err, THIMBLE_E_FORMAT, "%s.%s is missing", hp->prefix, key);
}

/* ---- the architecture ------------------------------------------------------------------------------------------- */

/* Weights in a rotated basis have the names and shapes of plain ones: running them would give noise, not an error. */
static bool check_transforms(const Gguf *g, Err *err) {
    for (size_t i = 0; i < g->n_kv; i++) {
        if (!th_str_starts(g->kv[i].key, TH_STR("prism.hadamard."))) continue;
        char shown[160];
        th_str_escape(g->kv[i].key, shown, sizeof shown);
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "the weights of this file are rotated (%s): not supported", shown);
    }
    return true;
}

static bool read_architecture(Hparams *hp, const Gguf *g, Err *err) {
    Str name = {0};
    if (!th_gguf_get_str(g, "general.architecture", &name, err)) return false;
    if (!name.data) return th_fail(err, THIMBLE_E_FORMAT, "general.architecture is missing");
    char shown[160];
    th_str_escape(name, shown, sizeof shown);
    hp->arch = th_arch_find(name);
    if (!hp->arch) {
        char known[384];
        th_arch_names(known, sizeof known);
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "architecture \"%s\" is not supported; known: %s", shown, known);
    }
    snprintf(hp->prefix, sizeof hp->prefix, "%s", hp->arch->name);
    return true;
}

static bool has_in_block(const Gguf *g, int block, const char *name) {
    char full[96];
    snprintf(full, sizeof full, "blk.%d.%s.weight", block, name);
    return th_gguf_tensor(g, full) != NULL;
}

static bool is_head(const Gguf *g, int block) {
    return has_in_block(g, block, "nextn.enorm") || has_in_block(g, block, "nextn.eh_proj");
}

/* MTP blocks stand behind the trunk. A file may hold nothing else (a draft head of its own); and a converter may have
 * counted layers of the trunk among them, or them among the layers of the trunk: the tensors decide. */
static bool find_trunk(Hparams *hp, const Gguf *g, Err *err) {
    hp->n_layer = hp->n_layer_all - hp->n_nextn;
    if (is_head(g, hp->n_layer) && !has_in_block(g, 0, "attn_norm"))
        return th_fail(err, THIMBLE_E_UNSUPPORTED,
                       "this file holds only the draft head (MTP block) of a model; open the model's own file");
    while (hp->n_nextn > 0 && has_in_block(g, hp->n_layer, "attn_norm") && !is_head(g, hp->n_layer))
        hp->n_layer++, hp->n_nextn--;
    while (hp->n_layer > 1 && is_head(g, hp->n_layer - 1)) hp->n_layer--, hp->n_nextn++;
    return true;
}

static bool read_sizes(Hparams *hp, const Gguf *g, Err *err) {
    if (!th_hparams_need(hp, g, "block_count", err) || !th_hparams_need(hp, g, "embedding_length", err) ||
        !th_hparams_need(hp, g, "context_length", err) ||
        !th_hparams_need(hp, g, "attention.layer_norm_rms_epsilon", err))
        return false;
    if (!th_hparams_int(hp, g, "block_count", 1, MAX_LAYERS, &hp->n_layer_all, err) ||
        !th_hparams_int(hp, g, "nextn_predict_layers", 0, hp->n_layer_all - 1, &hp->n_nextn, err) ||
        !th_hparams_int(hp, g, "embedding_length", 1, MAX_WIDTH, &hp->n_embd, err) ||
        !th_hparams_int(hp, g, "context_length", 1, INT32_MAX, &hp->n_ctx_train, err) ||
        !th_hparams_real(hp, g, "attention.layer_norm_rms_epsilon", 0, 1, &hp->eps, err))
        return false;
    if (!find_trunk(hp, g, err)) return false;
    const GgufTensor *embd = th_gguf_tensor(g, "token_embd.weight");
    if (!embd) return th_fail(err, THIMBLE_E_FORMAT, "token_embd.weight: no such tensor");
    if (embd->dim[1] < 1 || embd->dim[1] > MAX_WIDTH || embd->dim[0] != (uint64_t)hp->n_embd)
        return th_fail(err, THIMBLE_E_FORMAT, "token_embd.weight is %llu x %llu, the embedding length is %d",
                       (unsigned long long)embd->dim[0], (unsigned long long)embd->dim[1], hp->n_embd);
    hp->n_vocab = (int)embd->dim[1];
    return true;
}

/* ---- heads and widths per layer --------------------------------------------------------------------------------- */

static bool read_per_layer(Hparams *hp, Gguf *g, Err *err) {
    size_t n = (size_t)hp->n_layer_all;
    hp->layer = th_arena_array(&g->arena, n, sizeof *hp->layer, err);
    int64_t *values = hp->layer ? th_arena_array(&g->arena, n, sizeof *values, err) : NULL;
    if (!values) return false;
    /* An array may also leave out the MTP blocks at the end: read what must be there, allow the rest. */
    size_t run = (size_t)hp->n_layer, slack = (size_t)hp->n_nextn;
    char key[MAX_KEY];
    bool present = false;
    if (!th_gguf_get_ints(g, full_key(hp, "attention.head_count", key), run, slack, 0, MAX_HEADS, values, &present,
                          err))
        return false;
    for (size_t i = 0; i < run; i++) hp->layer[i].Hk = hp->layer[i].H = present ? (int)values[i] : 0;
    if (!th_gguf_get_ints(g, full_key(hp, "attention.head_count_kv", key), run, slack, 0, MAX_HEADS, values, &present,
                          err))
        return false;
    for (size_t i = 0; i < run && present; i++) {
        hp->layer[i].Hk = (int)values[i];
        hp->layer[i].recurrent = values[i] == 0;
    }
    if (!th_gguf_get_ints(g, full_key(hp, "feed_forward_length", key), run, slack, 0, MAX_WIDTH, values, &present, err))
        return false;
    for (size_t i = 0; i < run && present; i++) hp->layer[i].ff = (int)values[i];
    /* MTP blocks are attention layers of the trunk's kind, whatever arrays say of their places. */
    for (size_t from = run - 1, i = run; i < n; i++) {
        while (from > 0 && hp->layer[from].Hk == 0) from--;
        hp->layer[i] = hp->layer[from];
        hp->layer[i].ff = hp->layer[run - 1].ff;
    }
    return true;
}

static bool read_sliding_heads(Hparams *hp, const Gguf *g, Err *err) {
    hp->D_swa = hp->D, hp->Dv_swa = hp->Dv;
    if (!th_hparams_int(hp, g, "attention.key_length_swa", 1, MAX_HEAD_SIZE, &hp->D_swa, err) ||
        !th_hparams_int(hp, g, "attention.value_length_swa", 1, MAX_HEAD_SIZE, &hp->Dv_swa, err))
        return false;
    hp->n_rot_swa = th_min_int(hp->n_rot, hp->D_swa);
    if (!th_hparams_int(hp, g, "rope.dimension_count_swa", 0, MAX_HEAD_SIZE, &hp->n_rot_swa, err)) return false;
    if (hp->n_rot_swa % 2 != 0 || hp->n_rot_swa > hp->D_swa)
        return th_fail(err, THIMBLE_E_FORMAT, "%d rotated dimensions do not fit sliding heads of %d", hp->n_rot_swa,
                       hp->D_swa);
    for (int i = 0; i < hp->n_layer; i++)
        if ((int64_t)hp->layer[i].H * th_max_int(hp->D_swa, hp->Dv_swa) > MAX_WIDTH)
            return th_fail(err, THIMBLE_E_FORMAT, "layer %d: %d sliding heads of %d values are too many", i,
                           hp->layer[i].H, hp->D_swa);
    return true;
}

/* Attention to what comes later has another mask and cannot predict token by token. */
static bool check_causal(const Hparams *hp, const Gguf *g, Err *err) {
    bool causal = true;
    if (!th_hparams_bool(hp, g, "attention.causal", &causal, err)) return false;
    return causal || th_fail(err, THIMBLE_E_UNSUPPORTED, "%s.attention.causal is false: not supported", hp->prefix);
}

static bool read_heads(Hparams *hp, const Gguf *g, Err *err) {
    int most = 0;
    for (int i = 0; i < hp->n_layer; i++) most = th_max_int(most, hp->layer[i].H);
    hp->D = most ? hp->n_embd / most : 0;
    hp->Dv = hp->D;
    if (!th_hparams_int(hp, g, "attention.key_length", 1, MAX_HEAD_SIZE, &hp->D, err)) return false;
    if (!th_hparams_has(hp, g, "attention.value_length")) hp->Dv = most ? hp->n_embd / most : hp->D;
    if (!th_hparams_int(hp, g, "attention.value_length", 1, MAX_HEAD_SIZE, &hp->Dv, err)) return false;
    if (most && (hp->D < 1 || hp->Dv < 1 || hp->D > MAX_HEAD_SIZE || hp->Dv > MAX_HEAD_SIZE))
        return th_fail(err, THIMBLE_E_FORMAT, "%d heads do not fit an embedding length of %d", most, hp->n_embd);
    for (int i = 0; i < hp->n_layer; i++) {
        const LayerNumbers *l = &hp->layer[i];
        if (l->Hk > 0 && (l->H < 1 || l->H % l->Hk != 0))
            return th_fail(err, THIMBLE_E_FORMAT, "layer %d: %d query heads cannot share %d key heads", i, l->H, l->Hk);
        if ((int64_t)l->H * th_max_int(hp->D, hp->Dv) > MAX_WIDTH)
            return th_fail(err, THIMBLE_E_FORMAT, "layer %d: %d heads of %d values are too many", i, l->H, hp->D);
    }
    hp->n_rot = hp->D;
    if (!th_hparams_int(hp, g, "rope.dimension_count", 0, MAX_HEAD_SIZE, &hp->n_rot, err)) return false;
    if (hp->n_rot % 2 != 0)
        return th_fail(err, THIMBLE_E_FORMAT, "%s.rope.dimension_count is odd: %d", hp->prefix, hp->n_rot);
    if (hp->n_rot > hp->D)
        return th_fail(err, THIMBLE_E_FORMAT, "%d rotated dimensions do not fit heads of %d", hp->n_rot, hp->D);
    return check_causal(hp, g, err) && read_sliding_heads(hp, g, err) &&
           th_hparams_int(hp, g, "attention.sliding_window", 0, INT32_MAX, &hp->window, err);
}

/* ---- rotary embedding ------------------------------------------------------------------------------------------- */

static bool read_scaling_type(Hparams *hp, const Gguf *g, Err *err) {
    char key[MAX_KEY], shown[64];
    Str type = TH_STR("linear");
    if (!th_gguf_get_str(g, full_key(hp, "rope.scaling.type", key), &type, err)) return false;
    static const char *const names[] = {"none", "linear", "yarn", "longrope"};
    for (int i = 0; i < (int)TH_COUNT(names); i++)
        if (th_str_is(type, names[i])) {
            hp->rope_scaling = i;
            return true;
        }
    th_str_escape(type, shown, sizeof shown);
    return th_fail(err, THIMBLE_E_UNSUPPORTED, "%s is \"%s\": no such scaling", key, shown);
}

/* Three numbers or four; the missing one is 0. */
static bool read_sections(Hparams *hp, const Gguf *g, Err *err) {
    char key[MAX_KEY];
    const GgufKv *kv = th_gguf_kv(g, full_key(hp, "rope.dimension_sections", key));
    size_t n = kv && kv->type == GGUF_ARRAY && kv->count == 3 ? 3 : 4;
    int64_t values[4] = {0};
    bool present;
    if (!th_gguf_get_ints(g, key, n, 0, 0, MAX_HEAD_SIZE, values, &present, err)) return false;
    for (int i = 0; i < 4; i++) hp->rope_sections[i] = (int)values[i];
    return true;
}

static bool read_rope(Hparams *hp, const Gguf *g, Err *err) {
    hp->freq_base = hp->freq_base_swa = 10000;
    hp->attn_factor = 1, hp->yarn_ext = -1, hp->yarn_beta_fast = 32, hp->yarn_beta_slow = 1;
    hp->n_ctx_orig = hp->n_ctx_train;
    double factor = 0, yarn_attn = 1;
    if (!read_scaling_type(hp, g, err) || !read_sections(hp, g, err) ||
        !read_double(hp, g, "rope.freq_base", 1e-6, MAX_REAL, &hp->freq_base, err) ||
        !read_double(hp, g, "rope.freq_base_swa", 1e-6, MAX_REAL, &hp->freq_base_swa, err) ||
        !read_double(hp, g, "rope.scale_linear", 0, 1e9, &factor, err) ||
        !read_double(hp, g, "rope.scaling.factor", 0, 1e9, &factor, err) ||
        !read_double(hp, g, "rope.scaling.attn_factor", 1e-9, 1e9, &hp->attn_factor, err) ||
        !th_hparams_int(hp, g, "rope.scaling.original_context_length", 1, INT32_MAX, &hp->n_ctx_orig, err) ||
        !read_double(hp, g, "rope.scaling.yarn_ext_factor", -1, 1e9, &hp->yarn_ext, err) ||
        !read_double(hp, g, "rope.scaling.yarn_attn_factor", 1e-9, 1e9, &yarn_attn, err) ||
        !read_double(hp, g, "rope.scaling.yarn_beta_fast", 1e-9, 1e9, &hp->yarn_beta_fast, err) ||
        !read_double(hp, g, "rope.scaling.yarn_beta_slow", 1e-9, 1e9, &hp->yarn_beta_slow, err))
        return false;
    hp->attn_factor *= yarn_attn;
    hp->rope_factor = factor > 0 && hp->rope_scaling != ROPE_SCALING_NONE ? factor : 1;
    if (hp->rope_factor < 1e-9)
        return th_fail(err, THIMBLE_E_FORMAT, "%s.rope.scaling.factor is too small: %g", hp->prefix, hp->rope_factor);
    return true;
}

bool th_hparams_scales(Hparams *hp, const Gguf *g, Err *err) {
    bool rotates = true;
    if (!th_hparams_real(hp, g, "embedding_scale", 0, 1e9, &hp->embd_scale, err) ||
        !th_hparams_real(hp, g, "residual_scale", 0, 1e9, &hp->residual_scale, err) ||
        !th_hparams_real(hp, g, "logit_scale", 0, 1e9, &hp->logit_scale, err) ||
        !th_hparams_real(hp, g, "attention.scale", 0, 1e9, &hp->attn_scale, err) ||
        !th_hparams_bool(hp, g, "rope.scaling.finetuned", &rotates, err))
        return false;
    hp->no_rope = !rotates;
    return true;
}

/* ---- windows and experts ---------------------------------------------------------------------------------------- */

bool th_hparams_windows(Hparams *hp, const Gguf *g, int pattern, Err *err) {
    char key[MAX_KEY];
    const GgufKv *kv = th_gguf_kv(g, full_key(hp, "attention.sliding_window_pattern", key));
    if (hp->window == 0) return true;
    if (!kv || kv->type != GGUF_ARRAY) {
        if (!th_hparams_int(hp, g, "attention.sliding_window_pattern", 0, MAX_LAYERS, &pattern, err)) return false;
        for (int i = 0; i < hp->n_layer; i++) hp->layer[i].sliding = pattern == 0 || i % pattern < pattern - 1;
        return true;
    }
    int64_t sliding[MAX_LAYERS];
    bool present;
    if (!th_gguf_get_ints(g, key, (size_t)hp->n_layer, (size_t)hp->n_nextn, 0, 1, sliding, &present, err)) return false;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].sliding = sliding[i] != 0;
    return true;
}

bool th_hparams_recurrent(Hparams *hp, const Gguf *g, Err *err) {
    char key[MAX_KEY];
    int64_t recurrent[MAX_LAYERS];
    bool present;
    int interval = 4;
    if (!th_gguf_get_ints(g, full_key(hp, "attention.recurrent_layers", key), (size_t)hp->n_layer, (size_t)hp->n_nextn,
                          0, 1, recurrent, &present, err) ||
        !th_hparams_int(hp, g, "full_attention_interval", 1, MAX_LAYERS, &interval, err))
        return false;
    bool marked = false; /* some exporters write 0 key heads for recurrent layers instead */
    for (int i = 0; i < hp->n_layer && !present; i++) marked |= hp->layer[i].recurrent;
    for (int i = 0; i < hp->n_layer && !marked; i++)
        hp->layer[i].recurrent = present ? recurrent[i] != 0 : (i + 1) % interval != 0;
    return true;
}

bool th_hparams_ssm(Hparams *hp, const Gguf *g, Err *err) {
    return th_hparams_need(hp, g, "ssm.conv_kernel", err) && th_hparams_need(hp, g, "ssm.inner_size", err) &&
           th_hparams_need(hp, g, "ssm.state_size", err) && th_hparams_need(hp, g, "ssm.time_step_rank", err) &&
           th_hparams_need(hp, g, "ssm.group_count", err) &&
           th_hparams_int(hp, g, "ssm.conv_kernel", 1, 16, &hp->ssm_conv, err) &&
           th_hparams_int(hp, g, "ssm.inner_size", 1, MAX_WIDTH, &hp->ssm_inner, err) &&
           th_hparams_int(hp, g, "ssm.state_size", 1, MAX_HEAD_SIZE, &hp->ssm_state, err) &&
           th_hparams_int(hp, g, "ssm.time_step_rank", 1, MAX_HEADS, &hp->ssm_rank, err) &&
           th_hparams_int(hp, g, "ssm.group_count", 1, MAX_HEADS, &hp->ssm_groups, err);
}

/* Bounds of the experts' activations; 0 and the like switch a layer's off. */
static bool read_clamps(Hparams *hp, const Gguf *g, Err *err) {
    char key[MAX_KEY];
    double routed[MAX_LAYERS], shared[MAX_LAYERS];
    bool has_routed, has_shared;
    size_t n = (size_t)hp->n_layer, slack = (size_t)hp->n_nextn;
    if (!th_gguf_get_reals(g, full_key(hp, "swiglu_clamp_exp", key), n, slack, -MAX_REAL, MAX_REAL, routed, &has_routed,
                           err) ||
        !th_gguf_get_reals(g, full_key(hp, "swiglu_clamp_shexp", key), n, slack, -MAX_REAL, MAX_REAL, shared,
                           &has_shared, err))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (has_routed && routed[i] > 1e-6) hp->layer[i].clamp = (float)routed[i];
        if (has_shared && shared[i] > 1e-6) hp->layer[i].shared_clamp = (float)shared[i];
    }
    return true;
}

static bool read_experts(Hparams *hp, const Gguf *g, Err *err) {
    if (!th_hparams_int(hp, g, "expert_count", 0, MAX_EXPERTS, &hp->n_expert, err) ||
        !th_hparams_int(hp, g, "expert_used_count", 0, MAX_EXPERTS, &hp->n_expert_used, err) ||
        !th_hparams_int(hp, g, "expert_feed_forward_length", 0, MAX_WIDTH, &hp->ff_expert, err) ||
        !th_hparams_int(hp, g, "expert_shared_feed_forward_length", 0, MAX_WIDTH, &hp->ff_shared, err) ||
        !th_hparams_int(hp, g, "expert_shared_count", 0, MAX_EXPERTS, &hp->n_shared, err) ||
        !th_hparams_int(hp, g, "expert_group_count", 0, MAX_EXPERTS, &hp->n_groups, err) ||
        !th_hparams_int(hp, g, "expert_group_used_count", 0, MAX_EXPERTS, &hp->n_groups_used, err) ||
        !th_hparams_int(hp, g, "expert_gating_func", 0, 4, &hp->gating, err) ||
        !th_hparams_int(hp, g, "leading_dense_block_count", 0, MAX_LAYERS, &hp->n_dense_lead, err) ||
        !th_hparams_real(hp, g, "expert_weights_scale", -MAX_REAL, MAX_REAL, &hp->expert_scale, err) ||
        !th_hparams_bool(hp, g, "expert_weights_norm", &hp->expert_norm, err))
        return false;
    if (!hp->arch->scales_experts) hp->expert_scale = 0;
    if (hp->n_expert == 0) return true;
    if (!read_clamps(hp, g, err)) return false;
    if (hp->n_expert_used < 1 || hp->n_expert_used > th_min_int(hp->n_expert, MAX_EXPERTS_USED))
        return th_fail(err, THIMBLE_E_FORMAT, "%d of %d experts per token is not possible", hp->n_expert_used,
                       hp->n_expert);
    if (hp->n_groups > 1) {
        int kept = hp->n_groups_used;
        if (hp->n_expert % hp->n_groups != 0 || kept < 1 || kept > hp->n_groups ||
            hp->n_expert / hp->n_groups * kept < hp->n_expert_used)
            return th_fail(err, THIMBLE_E_FORMAT, "%d of %d groups of %d experts cannot give %d experts", kept,
                           hp->n_groups, hp->n_expert, hp->n_expert_used);
    }
    return true;
}

static uint64_t first_expert_dim(const Hparams *hp, const Gguf *g, const char *name, int dim) {
    char full[64];
    snprintf(full, sizeof full, "blk.%d.%s.weight", hp->n_dense_lead, name);
    const GgufTensor *t = th_gguf_tensor(g, full);
    return t ? t->dim[dim] : 0;
}

/* What comes out of the first up projection of experts and goes into the down projection, or 0. Some files carry a key
 * that their architecture does not go by (Mixtral, Granite): where the tensors agree, they are right. */
static int expert_width(const Hparams *hp, const Gguf *g) {
    uint64_t down = first_expert_dim(hp, g, "ffn_down_exps", 0), up = first_expert_dim(hp, g, "ffn_up_exps", 1);
    if (up == 0) up = first_expert_dim(hp, g, "ffn_gate_up_exps", 1) / 2;
    if (down == 0) down = first_expert_dim(hp, g, "ffn_down.0", 0), up = first_expert_dim(hp, g, "ffn_up.0", 1);
    return down == up && down <= MAX_WIDTH ? (int)down : 0;
}

bool th_hparams_experts(Hparams *hp, const Gguf *g, bool width_is_divided, Err *err) {
    if (hp->n_expert == 0) return th_fail(err, THIMBLE_E_FORMAT, "%s.expert_count is missing or 0", hp->prefix);
    int F = 0, width = expert_width(hp, g);
    for (int i = 0; i < hp->n_layer; i++) F = th_max_int(F, hp->layer[i].ff);
    if (width) hp->ff_expert = width;
    if (hp->ff_expert == 0) hp->ff_expert = width_is_divided ? F / hp->n_expert_used : F;
    if (hp->ff_expert == 0) return th_fail(err, THIMBLE_E_FORMAT, "the width of the experts is not given");
    if (hp->gating == 0) hp->gating = 1;
    return true;
}

bool th_hparams_shared(Hparams *hp, const Gguf *g, int64_t width, Err *err) {
    uint64_t up = first_expert_dim(hp, g, "ffn_up_shexp", 1), down = first_expert_dim(hp, g, "ffn_down_shexp", 0);
    if (up > 0 && up == down) width = up > MAX_WIDTH ? MAX_WIDTH + 1 : (int64_t)up;
    if (width > MAX_WIDTH) return th_fail(err, THIMBLE_E_FORMAT, "%d shared experts are too wide", hp->n_shared);
    hp->ff_shared = (int)width;
    return true;
}

/* ---- latent attention ------------------------------------------------------------------------------------------- */

bool th_hparams_latent(Hparams *hp, const Gguf *g, Err *err) {
    hp->mla_key = hp->D, hp->mla_value = hp->Dv;
    if (!th_hparams_need(hp, g, "attention.kv_lora_rank", err) ||
        !th_hparams_int(hp, g, "attention.kv_lora_rank", 1, MAX_HEAD_SIZE, &hp->mla_latent, err) ||
        !th_hparams_int(hp, g, "attention.key_length_mla", 1, MAX_HEAD_SIZE, &hp->mla_key, err) ||
        !th_hparams_int(hp, g, "attention.value_length_mla", 1, MAX_HEAD_SIZE, &hp->mla_value, err))
        return false;
    if (hp->n_rot >= hp->mla_key)
        return th_fail(err, THIMBLE_E_FORMAT, "%d rotated dimensions do not fit heads of %d", hp->n_rot, hp->mla_key);
    int widest = th_max_int(hp->mla_latent + hp->n_rot, th_max_int(hp->mla_key, hp->mla_value));
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].H < 1 || (int64_t)hp->layer[i].H * widest > MAX_WIDTH)
            return th_fail(err, THIMBLE_E_FORMAT, "layer %d: %d heads of %d values are not possible", i, hp->layer[i].H,
                           widest);
    return true;
}

bool th_hparams_read(Hparams *hp, Gguf *g, Err *err) {
    *hp = (Hparams){0};
    if (!check_transforms(g, err) || !read_architecture(hp, g, err)) return false;
    if (!read_sizes(hp, g, err) || !read_per_layer(hp, g, err) || !read_heads(hp, g, err) || !read_rope(hp, g, err) ||
        !read_experts(hp, g, err))
        return false;
    return !hp->arch->read || hp->arch->read(hp, g, err);
}
