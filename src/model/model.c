/* model.c: opening a transformer: bind (names, shapes, kernels), load (memory, bytes), close. What fits a budget is
 * decided in between, in fit.c. */
#include "model/mtp.h"

#include <math.h>

#include "os/memrate.h"
#include "os/vm.h"

/* ---- bind ------------------------------------------------------------------------------------------------------- */

static bool bind_norm(Binder *b, const char *name, const Weight **out) {
    *out = NULL;
    return !name || !*name || th_bind_vector(b, name, ".weight", b->hp->n_embd, 1, 0, out);
}

static bool bind_layer(Layer *l, Binder *b) {
    const LayerSpec *s = &l->spec;
    return bind_norm(b, s->mix_norm ? s->mix_norm : "attn_norm", &l->norm[0]) && s->mix->bind(&l->mix, l, b) &&
           bind_norm(b, s->mix_post_norm, &l->norm[2]) &&
           bind_norm(b, s->ffn_norm ? s->ffn_norm : "ffn_norm", &l->norm[1]) && s->ffn->bind(&l->ffn, l, b) &&
           bind_norm(b, s->ffn_post_norm, &l->norm[3]);
}

static bool bind_layers(Model *m, Binder *b, Err *err) {
    int n = m->hp.n_layer;
    m->n_layers = n + (m->options.mtp && th_mtp_there(&m->hp, m->gguf));
    m->layers = th_arena_array(&m->arena, (size_t)m->n_layers, sizeof *m->layers, err);
    if (!m->layers) return false;
    for (int il = 0; il < n; il++) {
        Layer *l = &m->layers[il];
        *l = (Layer){.index = il, .hp = &m->hp, .next = il + 1 < n ? l + 1 : NULL};
        m->hp.arch->layer(&m->hp, il, &l->spec);
        b->layer = il;
        if (!bind_layer(l, b)) return th_err_prefix(err, "layer %d: ", il);
        if (l->spec.swa_rope) m->n_ropes = 2;
    }
    b->layer = -1;
    return true;
}

static bool bind_head(Model *m, Binder *b) {
    const char *norm = m->hp.arch->final_norm;
    if (!norm || !th_bind_has(b, norm)) norm = "output_norm";
    if (!bind_norm(b, norm, &m->final_norm)) return false;
    bool tied = !th_bind_has(b, "output");
    if (!th_bind_linear(b, tied ? "token_embd" : "output", m->hp.n_embd, m->hp.n_vocab, 0, &m->head)) return false;
    return !tied || th_bind_vector(b, "output", ".bias", m->hp.n_vocab, 1, WEIGHT_OPTIONAL, &m->head.bias);
}

/* Rope factor tensors that the file may hold (section 3.1); which of long and short applies depends on the context. */
static bool bind_rope(Model *m, Binder *b) {
    static const char *const names[] = {"rope_freqs", "rope_factors_long", "rope_factors_short"};
    for (int i = 0; i < 3 && m->hp.arch->rope_factors && m->hp.n_rot > 0; i++)
        if (!th_bind_vector(b, names[i], ".weight", m->hp.n_rot / 2, 1, WEIGHT_OPTIONAL, &m->rope_factors[i]))
            return false;
    return true;
}

/* What load would otherwise take from the arena: now, so that the plan can count it. */
static bool take_tables(Model *m, Err *err) {
    size_t pairs = (size_t)th_max_int(m->hp.n_rot, m->hp.n_rot_swa) / 2;
    for (int i = 0; i < MAX_ROPES; i++) {
        m->rope_freq[i] = th_arena_array(&m->arena, pairs + 1, sizeof(double), err);
        if (!m->rope_freq[i]) return false;
    }
    return true;
}

/* The embedding with its scale, which becomes a part of hp.embd_scale when it is known. */
static bool bind_embedding(Model *m, Binder *b) {
    return th_weights_find(m->ws, "token_embd.weight", (Shape){m->hp.n_embd, m->hp.n_vocab, 1}, WEIGHT_EMBED, &m->embd,
                           b->err) &&
           th_bind_scales(b, "token_embd", 1, &m->embd_scale);
}

bool th_model_bind(Model *m, Gguf *g, Budget *b, const ModelOptions *o, Err *err) {
    *m = (Model){.options = *o, .budget = b, .gguf = g, .threads = th_max_int(1, o->threads), .n_ropes = 1};
    m->options.sessions = th_max_int(1, th_min_int(o->sessions, MOST_SESSIONS));
    th_arena_init(&m->arena, b, MEM_METADATA);
    if (!th_hparams_read(&m->hp, g, err) || !take_tables(m, err)) goto fail;
    th_kernels_init(&m->kernels, o->isa);
    if (!th_weights_open(&m->ws, g, &m->kernels, b, &m->options.weights, err)) goto fail;
    Binder binder = {.hp = &m->hp,
                     .ws = m->ws,
                     .kernels = &m->kernels,
                     .arena = &m->arena,
                     .layer = -1,
                     .err = err};
    if (!bind_embedding(m, &binder) || !bind_rope(m, &binder) || !bind_layers(m, &binder, err) ||
        !bind_head(m, &binder) || (m->n_layers > m->hp.n_layer && !th_mtp_bind(m, &binder)))
        goto fail;
    if (th_model_scan_work_floats(m) == 0) m->options.state_type = THIMBLE_STATE_F32;
    return true;
fail:
    th_model_close(m);
    return false;
}

int th_model_logit_rows(const Model *m) {
    size_t rows = TH_MIB / ((size_t)m->hp.n_vocab * sizeof(float));
    return rows < 1 ? 1 : rows > 16 ? 16 : (int)rows;
}

/* ---- load ------------------------------------------------------------------------------------------------------- */

static const float *choose_factors(const Model *m, Err *err, bool *ok) {
    const Hparams *hp = &m->hp;
    const Weight *w = m->rope_factors[0];
    if (hp->rope_scaling == ROPE_SCALING_LONGROPE && (m->rope_factors[1] || m->rope_factors[2])) {
        w = m->rope_factors[m->context > hp->n_ctx_orig ? 1 : 2];
        if (!w) *ok = th_fail(err, THIMBLE_E_FORMAT, "longrope factors for a context of %d are missing", m->context);
    }
    const float *factors = w ? th_weights_f32(w) : NULL;
    for (int i = 0; factors && i < hp->n_rot / 2; i++)
        if (!isfinite(factors[i]) || factors[i] <= 0)
            *ok = th_fail(err, THIMBLE_E_FORMAT, "%s: factor %d is not a positive number", th_weight_name(w), i);
    return factors;
}

static bool make_ropes(Model *m, Err *err) {
    const Hparams *hp = &m->hp;
    bool ok = true;
    const float *factors = choose_factors(m, err, &ok);
    if (!ok) return false;
    bool yarn = hp->rope_scaling == ROPE_SCALING_YARN;
    RopeNumbers full = {.kind = hp->arch->rope,
                        .dims = hp->n_rot,
                        .base = hp->freq_base,
                        .freq_scale = 1 / hp->rope_factor,
                        .ext = hp->yarn_ext >= 0 ? hp->yarn_ext
                               : yarn            ? 1
                                                 : 0,
                        .attn_factor = hp->attn_factor,
                        .beta_fast = hp->yarn_beta_fast,
                        .beta_slow = hp->yarn_beta_slow,
                        .yarn_magnitude = !hp->yarn_in_scale,
                        .n_ctx_orig = hp->n_ctx_orig,
                        .factors = factors};
    memcpy(full.sections, hp->rope_sections, sizeof full.sections);
    RopeNumbers sliding = full;
    if (!hp->swa_scaled) sliding.freq_scale = 1, sliding.factors = NULL;
    sliding.base = hp->freq_base_swa, sliding.dims = hp->n_rot_swa;
    for (int i = 0; i < m->n_ropes; i++)
        if (!th_rope_init(&m->rope[i], i == 0 ? &full : &sliding, m->rope_freq[i], err)) return false;
    return true;
}

static void resolve_norms(Model *m) {
    for (int il = 0; il < m->n_layers; il++) {
        Layer *l = &m->layers[il];
        l->mix_norm = th_vector(l->norm[0]), l->ffn_norm = th_vector(l->norm[1]);
        l->mix_post_norm = th_vector(l->norm[2]), l->ffn_post_norm = th_vector(l->norm[3]);
    }
}

bool th_model_load(Model *m, const ModelPlan *plan, Err *err) {
    m->context = plan->context, m->batch = plan->batch, m->checkpoints = plan->checkpoints;
    if (!th_budget_take(m->budget, MEM_RESERVE, plan->reserve, err)) return false;
    m->reserve = plan->reserve;
    if (!th_pool_open(&m->pool, m->threads, err)) return false;
    m->scratch_bytes = (size_t)plan->scratch;
    m->scratch_memory = th_vm_alloc(m->budget, MEM_SCRATCH, m->scratch_bytes, false, err);
    if (!m->scratch_memory) return false;
    size_t rows = th_scratch_size((size_t)m->batch * sizeof *m->rows);
    m->rows = m->scratch_memory;
    m->scratch = (Scratch){.base = (char *)m->scratch_memory + rows, .bytes = m->scratch_bytes - rows};
    if (!th_weights_load(m->ws, err) || !make_ropes(m, err)) return false;
    if (m->embd_scale)
        m->hp.embd_scale = (m->hp.embd_scale != 0 ? m->hp.embd_scale : 1) * th_scale_of(m->embd_scale, 0);
    resolve_norms(m);
    size_t resident_bytes;
    const void *resident = th_weights_resident(m->ws, &resident_bytes);
    m->memory_rate = th_memory_rate(m->pool, resident, resident_bytes);
    return true;
}

void th_model_close(Model *m) {
    if (!m->budget) return;
    th_weights_close(m->ws);
    th_pool_close(m->pool);
    if (m->scratch_memory) th_vm_free(m->budget, MEM_SCRATCH, m->scratch_memory, m->scratch_bytes, false);
    if (m->reserve) th_budget_give(m->budget, MEM_RESERVE, m->reserve);
    th_arena_free(&m->arena);
    *m = (Model){0};
}
