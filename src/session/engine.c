/* engine.c: opening a model in the order that lets a refusal cost nothing:
 *
 *   resolve options -> header -> bind (names and shapes) -> plan -> refuse, or: tokenizer -> load weights
 *
 * The tokenizer is planned for from the header (th_vocab_bytes) and built only once the plan fits. */
#include "session/engine.h"

#include <stdio.h>

#include "os/cpu.h"
#include "os/sys.h"
#include "model/mtp.h"
#include "session/session.h"

/* What reading a header may take, however small the budget, so that a refusal can tell both numbers. */
static const uint64_t HEADER_ROOM = 64 * TH_MIB;

/* What a description takes beside the header. */
static const uint64_t LIGHT_ROOM = 512 * TH_KIB;

enum { MAX_THREADS = 256, MAX_SESSIONS = 256, MAX_BATCH = 4096, MAX_CONTEXT = 1 << 24 };

static bool in_range(const char *name, int value, int low, int high, Err *err) {
    if (value >= low && value <= high) return true;
    return th_fail(err, THIMBLE_E_ARG, "%s %d is not in %d..%d", name, value, low, high);
}

static bool check_ranges(const ThimbleModelOptions *o, Err *err) {
    if (o->struct_size < sizeof(size_t) + sizeof(uint64_t))
        return th_fail(err, THIMBLE_E_ARG, "options were not initialised with thimble_model_options_init");
    if (!(o->route_bias >= 0 && o->route_bias < 1e6f))
        return th_fail(err, THIMBLE_E_ARG, "route_bias %g is not a finite number of at least 0", (double)o->route_bias);
    return in_range("threads", o->threads, 0, MAX_THREADS, err) &&
           in_range("context", o->context, 0, MAX_CONTEXT, err) &&
           in_range("sessions", o->sessions, 0, MAX_SESSIONS, err) && in_range("batch", o->batch, 0, MAX_BATCH, err) &&
           in_range("load", o->load, 0, THIMBLE_LOAD_NOTHING, err) &&
           in_range("home", o->home, 0, THIMBLE_HOME_PAGED, err) && in_range("slots", o->slots, 0, 1 << 24, err) &&
           in_range("lookahead", o->lookahead, 0, THIMBLE_OFF, err) &&
           in_range("evict", o->evict, 0, THIMBLE_EVICT_LFU, err) &&
           in_range("cache_type", o->cache_type, 0, THIMBLE_CACHE_Q8_0, err) &&
           in_range("state_type", o->state_type, 0, THIMBLE_STATE_F16, err) &&
           in_range("checkpoints", o->checkpoints, -1, MOST_CHECKPOINTS, err) &&
           in_range("experts", o->experts, 0, MAX_EXPERTS, err) &&
           in_range("draft", o->draft, 0, THIMBLE_DRAFT_LOOKUP, err) &&
           in_range("draft_max", o->draft_max, 0, DRAFT_MOST, err);
}

/* A budget of 0 takes what is free, less a margin for what others may suddenly want. */
uint64_t th_engine_automatic_budget(void) {
    uint64_t free_bytes = th_sys_available(), margin = free_bytes / 10;
    if (margin < 128 * TH_MIB) margin = 128 * TH_MIB;
    return free_bytes > 2 * margin ? free_bytes - margin : free_bytes / 2;
}

static bool lists_c(const char *list) {
    for (const char *word = list; word; word = strchr(word, ',')) {
        word += *word == ',';
        if (word[0] == 'c' && (word[1] == ',' || word[1] == 0)) return true;
    }
    return false;
}

/* A list may name more than this machine has (it only restricts), but not nothing that it has: plain C in its place
 * would be a surprise. */
static bool resolve_isa(const char *list, unsigned *isa, Err *err) {
    unsigned mask = ISA_ALL, have = th_cpu_isa();
    char names[128];
    if (list && !th_cpu_parse_isa(list, &mask))
        return th_fail(err, THIMBLE_E_ARG, "\"%.80s\" is not a list of instruction sets", list);
    *isa = have & mask;
    th_cpu_isa_names(have, names, sizeof names);
    if (list && *isa == ISA_C && !lists_c(list))
        return th_fail(err, THIMBLE_E_ARG, "this machine has no %.80s: it has %s", list, names);
    return true;
}

bool th_engine_resolve(const ThimbleModelOptions *o, ModelOptions *out, Err *err) {
    unsigned isa;
    if (!check_ranges(o, err) || !resolve_isa(o->isa, &isa, err)) return false;
    if (o->home == THIMBLE_HOME_MAPPED && o->budget)
        return th_fail(err, THIMBLE_E_ARG,
                       "home mapped lives in the page cache and cannot keep a budget; leave one of them out");
    *out = (ModelOptions){.budget = o->budget ? o->budget : th_engine_automatic_budget(),
                          .budget_explicit = o->budget != 0,
                          .threads = o->threads ? o->threads : th_cpu_threads(),
                          .context = o->context,
                          .sessions = o->sessions ? o->sessions : 1,
                          .batch = o->batch,
                          .cache_type = o->cache_type,
                          .state_type = o->state_type,
                          .experts = o->experts,
                          .checkpoints = o->checkpoints == 0   ? CHECKPOINTS_AUTO
                                         : o->checkpoints < 0 ? 0
                                                              : o->checkpoints,
                          .route_bias = o->route_bias,
                          .isa = isa};
    out->weights = (WeightsOptions){.home = o->home, .slots = o->slots, .evict = o->evict, .lookahead = o->lookahead};
    return true;
}

static void copy_str(char *out, size_t cap, Str s) {
    size_t n = th_min_size(s.len, cap - 1);
    if (n) memcpy(out, s.data, n);
    out[n] = 0;
}

static bool read_names(Engine *e, Err *err) {
    Str arch = {0}, name = {0}, model = {0}, pre = {0};
    if (!th_gguf_get_str(&e->gguf, "general.architecture", &arch, err) ||
        !th_gguf_get_str(&e->gguf, "general.name", &name, err) ||
        !th_gguf_get_str(&e->gguf, "tokenizer.ggml.model", &model, err) ||
        !th_gguf_get_str(&e->gguf, "tokenizer.ggml.pre", &pre, err))
        return false;
    copy_str(e->architecture, sizeof e->architecture, arch);
    copy_str(e->name, sizeof e->name, name);
    copy_str(e->tokenizer_model, sizeof e->tokenizer_model, model);
    copy_str(e->tokenizer_pre, sizeof e->tokenizer_pre, pre);
    return true;
}

/* Use of tensor types, in the order of their ids, with the kernel that serves each. */
static bool describe_types(Engine *e, const Kernels *k, Err *err) {
    ThimbleTypeUse *use = th_arena_array(&e->arena, N_TYPES, sizeof *use, err);
    if (!use) return false;
    for (size_t i = 0; i < e->gguf.n_tensors; i++) {
        const GgufTensor *t = &e->gguf.tensors[i];
        uint64_t n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]; /* checked by the reader */
        ThimbleTypeUse *u = &use[t->type->id];
        u->name = t->type->name;
        u->origin = k->mat[t->type->id] ? k->mat[t->type->id]->origin : NULL;
        u->tensors++;
        u->bytes += t->bytes;
        e->info.n_params += n;
        bool is_expert = t->n_dims == 3 && strstr(t->name.data, "_exps") != NULL;
        *(is_expert ? &e->info.expert_bytes : &e->info.dense_bytes) += t->bytes;
    }
    size_t n = 0;
    for (size_t i = 0; i < N_TYPES; i++)
        if (use[i].tensors) use[n++] = use[i];
    e->info.types = use;
    e->info.n_types = n;
    return true;
}

static void describe_numbers(ThimbleModelInfo *info, const Hparams *hp) {
    info->layers = hp->n_layer;
    info->embedding = hp->n_embd;
    info->experts = hp->n_expert;
    info->experts_used = hp->n_expert_used;
    info->trained_context = hp->n_ctx_train;
    info->n_vocab = hp->n_vocab;
    for (int il = 0; il < hp->n_layer; il++) {
        info->heads = th_max_int(info->heads, hp->layer[il].H);
        info->heads_kv = th_max_int(info->heads_kv, hp->layer[il].Hk);
    }
}

static bool describe_vocab(Engine *e, Err *err) {
    ThimbleModelInfo *info = &e->info;
    info->bos = info->eos = -1;
    if (e->has_vocab) {
        info->bos = e->vocab.bos;
        info->eos = e->vocab.eos;
        info->add_bos = e->vocab.add_bos;
        info->add_eos = e->vocab.add_eos;
        info->eog = e->vocab.eog;
        info->n_eog = (size_t)e->vocab.n_eog;
        if (info->n_vocab == 0) info->n_vocab = e->vocab.n;
        return true;
    }
    if (e->options.load != THIMBLE_LOAD_NOTHING || e->tokenizer_model[0] == 0) return true;
    int32_t *ids = NULL;
    int n = 0;
    Err quiet = {0};
    if (!th_vocab_eog(&e->gguf, &e->budget, &e->arena, &ids, &n, &quiet))
        return quiet.code == THIMBLE_E_UNSUPPORTED || th_fail(err, quiet.code, "%s", quiet.message);
    info->eog = ids;
    info->n_eog = (size_t)n;
    int64_t id = -1;
    if (!th_gguf_get_int(&e->gguf, "tokenizer.ggml.bos_token_id", INT64_MIN, INT64_MAX, &id, err)) return false;
    info->bos = id >= 0 && id < INT32_MAX ? (int32_t)id : -1;
    id = -1;
    if (!th_gguf_get_int(&e->gguf, "tokenizer.ggml.eos_token_id", INT64_MIN, INT64_MAX, &id, err)) return false;
    info->eos = id >= 0 && id < INT32_MAX ? (int32_t)id : -1;
    return th_gguf_get_bool(&e->gguf, "tokenizer.ggml.add_bos_token", &info->add_bos, err) &&
           th_gguf_get_bool(&e->gguf, "tokenizer.ggml.add_eos_token", &info->add_eos, err);
}

static bool describe(Engine *e, const Kernels *k, const Hparams *hp, Err *err) {
    ThimbleModelInfo *info = &e->info;
    *info = (ThimbleModelInfo){.struct_size = sizeof *info};
    info->path = e->path;
    info->architecture = e->architecture;
    info->name = e->name;
    info->supported = hp != NULL;
    info->why_unsupported = hp ? NULL : e->why_unsupported;
    info->file_bytes = e->gguf.file_bytes;
    info->shards = (int)e->gguf.n_shards;
    info->isa = e->isa;
    info->tokenizer_model = e->tokenizer_model[0] ? e->tokenizer_model : NULL;
    info->tokenizer_pre = e->tokenizer_pre[0] ? e->tokenizer_pre : NULL;
    info->has_chat_template = th_gguf_kv(&e->gguf, "tokenizer.chat_template") != NULL;
    int64_t file_type = -1;
    if (!th_gguf_get_int(&e->gguf, "general.file_type", 0, INT32_MAX, &file_type, err)) return false;
    info->file_type = th_gguf_file_type_name(file_type);
    if (hp) describe_numbers(info, hp);
    if (e->has_weights) {
        info->context = e->model.context;
        info->batch = e->model.batch;
        info->threads = e->model.threads;
    }
    return describe_types(e, k, err) && describe_vocab(e, err);
}

static void say_lacking_isa(const Engine *e, unsigned have) {
    unsigned asked = 0;
    char names[128];
    if (!e->options.isa || !th_cpu_parse_isa(e->options.isa, &asked) || !(asked & ~have)) return;
    th_cpu_isa_names(asked & ~have, names, sizeof names);
    th_log(&e->options.log, THIMBLE_LOG_NOTICE, "this machine has no %s: %s is used", names, e->isa);
}

static bool open_file(Engine *e, const char *path, const ThimbleModelOptions *o, ModelOptions *resolved, Err *err) {
    *e = (Engine){0};
    e->opened_at = th_sys_seconds();
    if (!th_engine_resolve(o, resolved, err)) return false;
    memcpy(&e->options, o, th_min_size(o->struct_size, sizeof e->options));
    snprintf(e->path, sizeof e->path, "%s", path);
    th_cpu_isa_names(resolved->isa, e->isa, sizeof e->isa);
    resolved->weights.log = &e->options.log;
    resolved->weights.progress = &e->options.progress;
    th_budget_init(&e->budget, resolved->budget > HEADER_ROOM ? resolved->budget : HEADER_ROOM);
    pthread_mutex_init(&e->lock, NULL);
    e->has_budget = true;
    th_arena_init(&e->arena, &e->budget, MEM_METADATA);
    return th_gguf_open(&e->gguf, path, &e->budget, err) && read_names(e, err);
}

/* What a session, scoring and the tokenizer need beside the model. */
static uint64_t extra_bytes(const Engine *e) {
    const Model *m = &e->model;
    uint64_t vocab = (uint64_t)m->hp.n_vocab;
    uint64_t each = th_session_own_bytes(0, m->hp.n_vocab); /* the plan counts timelines */
    if (m->mtp) each += th_session_hidden_bytes(m);
    uint64_t sessions = (uint64_t)m->options.sessions * each;
    return th_vocab_bytes(&e->gguf) + sessions + (uint64_t)th_model_logit_rows(m) * vocab * sizeof(float) + 64 * TH_KIB;
}

/* most: guesses of one pass; 0 with OFF. */
static void set_drafts(Engine *e, int draft, int most) {
    e->draft = draft;
    e->model.options.draft_rows = most > 0 ? 1 + most : 0;
}

static int usual_drafts(const Engine *e) { return e->options.draft_max ? e->options.draft_max : DRAFT_USUAL; }

/* What one more row adds to a pass, in plain passes: other experts have to be read; and some arithmetic. */
static double predict_slope(const Engine *e) {
    const Hparams *hp = &e->model.hp;
    const ModelPlan *p = &e->plan;
    double routed = hp->n_expert > 0 ? (double)p->need.experts * hp->n_expert_used / hp->n_expert : 0;
    double read = routed * (1 - p->weights.hit_rate), all = (double)p->weights.streamed_per_pass + read;
    return all > 0 ? 0.02 + read / all : 0.5;
}

/* What drafts may add to the bytes that stream, when a smaller batch does not pay for them: one part of so many. */
enum { DRAFT_SHARE = 96 };

/* As many guesses as leave context and (but for 1/DRAFT_SHARE) the resident weights as they are. What they need, a head
 * with its cache, rows of logits, a journal, comes out of the scratch memory of prompts: where the batch was not asked
 * for, down to three eighths of it. False in *fits: not even one. */
static bool try_drafts(Engine *e, const ModelPlan *plain, bool *fits, Err *err) {
    Model *m = &e->model;
    int context = m->options.context, batch = m->options.batch;
    uint64_t most_streamed = plain->weights.streamed_per_pass + plain->weights.streamed_per_pass / DRAFT_SHARE;
    m->options.context = plain->context;
    *fits = false;
    bool ok = true;
    for (int most = usual_drafts(e); ok && most >= 1 && !*fits; most = most > DRAFT_FEW ? DRAFT_FEW : most - 1)
        for (int eighths = 8; ok && !*fits && eighths >= (batch > 0 ? 8 : 3); eighths--) {
            ModelPlan drafted;
            set_drafts(e, THIMBLE_DRAFT_AUTO, most);
            if (batch == 0) m->options.batch = th_max_int(1, plain->batch * eighths / 8);
            ok = th_model_plan(m, extra_bytes(e), &drafted, err);
            *fits = ok && drafted.fits && drafted.weights.streamed_per_pass <= most_streamed;
            if (*fits) e->plan = drafted;
        }
    m->options.context = context;
    m->options.batch = batch;
    e->plan.floor = plain->floor;
    e->plan.max_context = plain->max_context;
    return ok;
}

/* Lossy options once the model is known: more experts than there are is a slip, and a model without experts loses
 * nothing (so that its result is not called lossy). */
static bool settle_lossy(Model *m, Err *err) {
    ModelOptions *o = &m->options;
    if (m->hp.n_expert == 0) o->experts = 0, o->route_bias = 0;
    if (o->experts <= m->hp.n_expert) return true;
    return th_fail(err, THIMBLE_E_ARG, "%d experts a token: this model has %d, of which it uses %d", o->experts,
                   m->hp.n_expert, m->hp.n_expert_used);
}

static bool bind_again(Engine *e, const ModelOptions *resolved, bool mtp, Err *err) {
    ModelOptions o = *resolved;
    o.mtp = mtp;
    th_model_close(&e->model);
    e->has_model = th_model_bind(&e->model, &e->gguf, &e->budget, &o, err);
    return e->has_model && settle_lossy(&e->model, err);
}

/* Rough figures of a small machine, for predictions only: bytes per second of memory and flash. */
static const double MEMORY_RATE = 10e9, FLASH_RATE = 1e9;

static double predict_pass(const Engine *e) {
    const Hparams *hp = &e->model.hp;
    const ModelPlan *p = &e->plan;
    double used = hp->n_expert > 0 ? (double)hp->n_expert_used / hp->n_expert : 0;
    double routed = (double)p->need.experts * used;
    double moved = (double)p->need.dense + (double)p->need.vectors + routed;
    double read = (double)p->weights.streamed_per_pass + routed * (1 - p->weights.hit_rate);
    return moved / MEMORY_RATE > read / FLASH_RATE ? moved / MEMORY_RATE : read / FLASH_RATE;
}

/* A head that costs a good part of a pass for each guess is none to try. */
static const double DEAREST_GUESS = 0.25;

/* Drafts pay where one reading of the dense weights serves several tokens. */
static bool plan_automatic_drafts(Engine *e, const ModelOptions *resolved, Err *err) {
    const ModelPlan plain = e->plan;
    uint64_t streamed = plain.weights.streamed_per_pass;
    e->draft = THIMBLE_DRAFT_OFF;
    e->draft_slope = predict_slope(e);
    if (!plain.fits || streamed * 8 < plain.need.dense || e->draft_slope > 0.5 || e->options.route_bias > 0)
        return true;
    bool fits = false;
    if (th_mtp_there(&e->model.hp, &e->gguf)) {
        Err why = {0}; /* a head that cannot be run is no reason to refuse the model */
        if (bind_again(e, resolved, true, &why) && !try_drafts(e, &plain, &fits, err)) return false;
        if (fits) e->draft_guess = (double)th_mtp_guess_bytes(&e->model) / MEMORY_RATE / predict_pass(e);
        if (e->draft_guess > DEAREST_GUESS) fits = false;
        if (!fits && !bind_again(e, resolved, false, err)) return false;
    }
    if (!fits && !try_drafts(e, &plain, &fits, err)) return false;
    if (fits) return true;
    set_drafts(e, THIMBLE_DRAFT_OFF, 0);
    return th_model_plan(&e->model, extra_bytes(e), &e->plan, err); /* the weights keep the last decision */
}

static bool bind_and_plan(Engine *e, const ModelOptions *resolved, Err *err) {
    int draft = e->options.draft;
    e->draft = e->draft_asked = draft;
    ModelOptions o = *resolved;
    o.mtp = draft == THIMBLE_DRAFT_MTP;
    if (!th_model_bind(&e->model, &e->gguf, &e->budget, &o, err)) return false;
    e->has_model = true;
    if (!settle_lossy(&e->model, err)) return false;
    if (o.mtp && !e->model.mtp)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "%s has no MTP head to guess tokens with (draft lookup needs none)",
                       e->path);
    if (draft == THIMBLE_DRAFT_MTP || draft == THIMBLE_DRAFT_LOOKUP) set_drafts(e, draft, usual_drafts(e));
    return th_model_plan(&e->model, extra_bytes(e), &e->plan, err) &&
           (draft != THIMBLE_DRAFT_AUTO || plan_automatic_drafts(e, resolved, err));
}

static bool refuse(const Engine *e, Err *err) {
    double mib = (double)TH_MIB;
    uint64_t budget = e->model.options.budget;
    return th_fail(err, THIMBLE_E_BUDGET,
                   "a budget of %llu bytes (%.1f MiB) is below the floor of %llu bytes (%.1f MiB) for a context of %d: "
                   "the nearest setting that fits is --ram %lluM%s",
                   (unsigned long long)budget, (double)budget / mib,
                   (unsigned long long)e->plan.floor, (double)e->plan.floor / mib, e->plan.context,
                   (unsigned long long)((e->plan.floor + TH_MIB - 1) / TH_MIB),
                   e->plan.max_context > 0 ? " or a shorter context" : "");
}

static bool open_vocab(Engine *e, Err *err) {
    if (e->tokenizer_model[0] == 0) return true; /* usable with token ids alone */
    Err why = {0};
    if (!th_vocab_open(&e->vocab, &e->gguf, &e->budget, &e->options.log, &why)) {
        th_vocab_close(&e->vocab);
        e->vocab = (Vocab){0};
        if (why.code != THIMBLE_E_UNSUPPORTED || e->options.load == THIMBLE_LOAD_VOCAB)
            return th_fail(err, why.code, "%s", why.message);
        th_log(&e->options.log, THIMBLE_LOG_WARN, "%s; only token ids can be used", why.message);
        return true;
    }
    e->has_vocab = e->vocab.kind != VOCAB_NONE;
    return !e->has_vocab || th_tokenizer_open(&e->tokenizer, &e->vocab, &e->budget, err);
}

static bool load(Engine *e, const ModelOptions *resolved, Err *err) {
    if (!bind_and_plan(e, resolved, err)) return false;
    say_lacking_isa(e, resolved->isa);
    if (!e->plan.fits) return refuse(e, err);
    if (e->model.hp.n_expert == 0 && (resolved->experts || resolved->route_bias > 0))
        th_log(&e->options.log, THIMBLE_LOG_NOTICE, "the model has no experts: options for them are without effect");
    th_budget_limit(&e->budget, resolved->budget);
    if (!open_vocab(e, err) || !th_model_load(&e->model, &e->plan, err)) return false;
    e->logit_rows = th_model_logit_rows(&e->model);
    size_t bytes = (size_t)e->logit_rows * (size_t)e->model.hp.n_vocab * sizeof(float);
    e->logits = th_mem_alloc(&e->budget, MEM_SCRATCH, bytes, 64, err);
    if (!e->logits) return false;
    e->has_weights = true;
    e->load_s = th_sys_seconds() - e->opened_at;
    return describe(e, &e->model.kernels, &e->model.hp, err);
}

/* Description and tokenizer only; an architecture we cannot run is no error here. */
static bool open_light(Engine *e, const ModelOptions *resolved, Err *err) {
    const bool vocab = e->options.load == THIMBLE_LOAD_VOCAB;
    if (vocab && e->tokenizer_model[0] == 0)
        return th_fail(err, THIMBLE_E_UNSUPPORTED, "%s holds no tokenizer", e->path);
    uint64_t floor = th_model_reserve(0) + e->budget.used + (vocab ? th_vocab_bytes(&e->gguf) : LIGHT_ROOM);
    if (resolved->budget < floor)
        return th_fail(err, THIMBLE_E_BUDGET,
                       "a budget of %llu bytes is below the %llu bytes that %s takes: the nearest setting that fits is "
                       "--ram %lluM", (unsigned long long)resolved->budget, (unsigned long long)floor,
                       vocab ? "the tokenizer" : "reading the header",
                       (unsigned long long)((floor + TH_MIB - 1) / TH_MIB));
    th_budget_limit(&e->budget, resolved->budget - th_model_reserve(0));
    if (e->options.load == THIMBLE_LOAD_VOCAB && !open_vocab(e, err)) return false;
    Hparams *hp = th_arena_alloc(&e->arena, sizeof *hp, err);
    Kernels *k = th_arena_alloc(&e->arena, sizeof *k, err);
    if (!hp || !k) return false;
    th_kernels_init(k, resolved->isa);
    Err why = {0};
    bool supported = th_hparams_read(hp, &e->gguf, &why);
    if (!supported) snprintf(e->why_unsupported, sizeof e->why_unsupported, "%s", why.message);
    return describe(e, k, supported ? hp : NULL, err);
}

/* What is wrong with a file is told with its name: a script may open many. Never a success. */
static bool name_file(const char *path, Err *err) {
    const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
    bool of_file = err && (err->code == THIMBLE_E_FORMAT || err->code == THIMBLE_E_UNSUPPORTED);
    return of_file && !strstr(err->message, name) ? th_err_prefix(err, "%s: ", name) : false;
}

bool th_engine_open(Engine *e, const char *path, const ThimbleModelOptions *o, Err *err) {
    ModelOptions resolved = {0};
    if (open_file(e, path, o, &resolved, err) &&
        (e->options.load == THIMBLE_LOAD_ALL ? load(e, &resolved, err) : open_light(e, &resolved, err)))
        return true;
    name_file(path, err);
    th_engine_close(e);
    return false;
}

void th_engine_close(Engine *e) {
    if (!e->has_budget) return;
    if (e->logits)
        th_mem_free(&e->budget, MEM_SCRATCH, e->logits,
                    (size_t)e->logit_rows * (size_t)e->model.hp.n_vocab * sizeof(float));
    th_model_close(&e->model);
    th_tokenizer_close(e->tokenizer);
    th_vocab_close(&e->vocab);
    th_arena_free(&e->arena);
    th_gguf_close(&e->gguf);
    pthread_mutex_destroy(&e->lock);
    th_budget_free(&e->budget);
    *e = (Engine){0};
}

static void predict(const Engine *e, ThimblePlan *out) {
    const ModelPlan *p = &e->plan;
    double seconds = predict_pass(e);
    out->decode_tps = seconds > 0 ? 1 / seconds : 0;
    out->prefill_tps = out->decode_tps * th_min_int(p->batch, 8);
    out->hit_rate = p->weights.hit_rate;
}

static void fill_plan(const Engine *e, ThimblePlan *out) {
    const ModelPlan *p = &e->plan;
    *out = (ThimblePlan){.struct_size = sizeof *out,
                         .floor = p->floor,
                         .budget = e->model.options.budget,
                         .fits = p->fits,
                         .context = p->context,
                         .max_context = p->max_context,
                         .batch = p->batch,
                         .threads = e->model.options.threads,
                         .metadata = p->metadata,
                         .resident = p->weights.resident,
                         .stream_ring = p->weights.ring,
                         .slots = p->weights.slots,
                         .kv = p->kv,
                         .scratch = p->scratch,
                         .io = p->weights.io,
                         .reserve = p->reserve,
                         .checkpoints = p->checkpoints,
                         .file_bytes = e->gguf.file_bytes,
                         .expert_bytes = p->need.experts,
                         .dense_bytes = p->need.dense + p->need.vectors,
                         .n_slot_classes = p->weights.n_slot_classes};
    for (int i = 0; i < p->weights.n_slot_classes; i++) {
        out->slot_class[i].bytes = p->weights.slot_class[i].bytes;
        out->slot_class[i].count = p->weights.slot_class[i].count;
        out->slot_class[i].layers = p->weights.slot_class[i].layers;
    }
    predict(e, out);
}

bool th_engine_plan(const char *path, const ThimbleModelOptions *o, ThimblePlan *out, Err *err) {
    Engine e;
    ModelOptions resolved = {0};
    bool ok = open_file(&e, path, o, &resolved, err) && bind_and_plan(&e, &resolved, err);
    if (ok) {
        ThimblePlan full;
        fill_plan(&e, &full);
        size_t size = th_min_size(out->struct_size, sizeof full);
        full.struct_size = out->struct_size;
        memcpy(out, &full, size);
    }
    th_engine_close(&e);
    return ok || name_file(path, err);
}
