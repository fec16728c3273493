/* fit.c: what a budget buys: context, batch, and what is left for weights.
 *
 *   budget = metadata + reserve + KV (all sessions) + scratch + weights
 *
 * The floor has batch 1, the context asked for (512 if none was) and the least the weights need. What is above it goes
 * first to keeping weights in memory; a longer context (when none was asked for) and a larger batch take what that
 * leaves, or else a fixed share, so that neither starves the other. Everything is computed from shapes; nothing is
 * taken. */
#include "model/mtp.h"
#include "os/vm.h"

enum { FLOOR_CONTEXT = 512, AUTO_CONTEXT = 4096 };
/* Code, libraries, stacks, allocator slack: measured, see docs/MEMORY.md. */
static const uint64_t RESERVE = 6 * 1024 * 1024, RESERVE_PER_THREAD = 256 * 1024;
/* Shares of what is above the floor that context and batch may take when weights have to leave memory for them. */
enum { CONTEXT_SHARE = 4, BATCH_SHARE = 8, CHECKPOINT_SHARE = 16, CHECKPOINT_EVERY = 256 };

/* What a trial notes, of all layers together, and the largest work of one. */
static size_t measure_notes(const Model *m, int T, size_t *work_floats) {
    size_t bytes = 0;
    *work_floats = 0;
    for (int il = 0; il < m->hp.n_layer; il++) {
        const Layer *l = &m->layers[il];
        size_t work = 0;
        if (l->spec.mix->notes) bytes += l->spec.mix->notes(l->mix, l, T, &work);
        *work_floats = th_max_size(*work_floats, work);
    }
    return bytes;
}

size_t th_model_journal_bytes(const Model *m, int T) {
    size_t work;
    return measure_notes(m, T, &work);
}

size_t th_model_scan_work_floats(const Model *m) {
    size_t work;
    measure_notes(m, 1, &work);
    return work;
}

/* A pass of T rows; with `logits` rows of them kept beside the hidden states. */
static uint64_t pass_bytes(const Model *m, const PassSize *size, int logits) {
    const Hparams *hp = &m->hp;
    int T = size->T;
    uint64_t stream = th_scratch_f32_size((size_t)T * (size_t)hp->n_embd), blocks = th_embed_scratch(T);
    for (int il = 0; il < hp->n_layer; il++) {
        const Layer *l = &m->layers[il];
        uint64_t mix = l->spec.mix->scratch(l->mix, l, size), ffn = l->spec.ffn->scratch(l->ffn, l, size);
        blocks = th_max_size(blocks, th_max_size(mix, ffn));
    }
    size_t rotated = (size_t)th_max_int(hp->n_rot, hp->n_rot_swa);
    uint64_t ropes = (uint64_t)m->n_ropes * th_scratch_f32_size((size_t)T * rotated);
    int n = logits ? logits : th_min_int(T, th_model_logit_rows(m));
    uint64_t head = th_scratch_f32_size((size_t)n * (size_t)hp->n_embd) + th_prepare_scratch(hp->n_embd, n) +
                    th_scratch_f32_size((size_t)logits * (size_t)hp->n_vocab);
    uint64_t mtp = m->mtp ? th_max_size(th_mtp_scratch(m, size), stream + head) : 0;
    return stream + th_max_size(2 * stream + ropes + blocks, th_max_size(head, mtp));
}

/* Passes of T rows, and those on trial, which are few but bring logits for all of them and a journal. */
static uint64_t scratch_bytes(const Model *m, int context, int T) {
    PassSize size = {.context = context, .T = T, .threads = m->threads, .cache_type = m->options.cache_type,
                     .experts = m->options.experts};
    uint64_t rows = th_scratch_size((size_t)T * sizeof(PassRow)), bytes = pass_bytes(m, &size, 0);
    uint64_t work = th_scratch_f32_size(th_model_scan_work_floats(m) * (size_t)m->threads);
    if (m->options.state_type != THIMBLE_STATE_F32) bytes += work;
    if (m->options.draft_rows > 1) {
        size.T = m->options.draft_rows;
        uint64_t trial = th_scratch_size(th_model_journal_bytes(m, size.T)) + work;
        bytes = th_max_size(bytes, trial + pass_bytes(m, &size, size.T));
    }
    return th_vm_rounded(rows + bytes, false);
}

/* Of all sessions, with their timelines of tokens. */
static uint64_t state_bytes(const Model *m, int context, int batch) {
    uint64_t bytes = th_state_bytes(m, context, batch) + (uint64_t)context * sizeof(int32_t);
    if (!th_size_mul(bytes, (uint64_t)m->options.sessions, &bytes)) return UINT64_MAX / 4;
    return bytes;
}

/* Of all sessions; none if no layer is recurrent. */
static uint64_t checkpoint_bytes(const Model *m, int checkpoints) {
    uint64_t each = th_state_checkpoint_bytes(m), bytes;
    if (!th_size_mul(each, (uint64_t)checkpoints, &bytes) || bytes > SIZE_MAX / 4) return UINT64_MAX / 4;
    bytes = th_vm_rounded((size_t)bytes, false);
    return th_size_mul(bytes, (uint64_t)m->options.sessions, &bytes) ? bytes : UINT64_MAX / 4;
}

/* Everything but weights; saturated far above any budget rather than wrapped. */
static uint64_t others(const Model *m, const ModelPlan *plan, int context, int batch) {
    uint64_t bytes = plan->metadata + plan->reserve + scratch_bytes(m, context, batch);
    return th_size_add(bytes, state_bytes(m, context, batch), &bytes) &&
                   th_size_add(bytes, checkpoint_bytes(m, plan->checkpoints), &bytes)
               ? bytes
               : UINT64_MAX / 2;
}

typedef struct Search {
    const Model *m;
    const ModelPlan *plan;
    uint64_t most; /* for everything but weights */
    int context, batch; /* the one that is not searched for */
} Search;
static bool context_fits(const Search *s, int context) { return others(s->m, s->plan, context, s->batch) <= s->most; }
static bool batch_fits(const Search *s, int batch) { return others(s->m, s->plan, s->context, batch) <= s->most; }

/* Largest n in [low, high] that fits; low - 1 if not even low does. */
static int largest(const Search *s, bool (*fits)(const Search *s, int n), int low, int high) {
    if (!fits(s, low)) return low - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (fits(s, middle)) low = middle;
        else high = middle - 1;
    }
    return low;
}

static uint64_t minus(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

/* What context or batch may take beyond `taken`: what full residence leaves, or a share of what the floor leaves. */
static uint64_t allowance(const Model *m, const ModelPlan *plan, uint64_t taken, int share) {
    uint64_t budget = m->options.budget;
    /* With a forced home a ring can be larger than the weights themselves. */
    uint64_t all = th_max_size(plan->need.all, plan->need.floor);
    uint64_t beside_all = minus(budget, taken + all), above_floor = minus(budget, taken + plan->need.floor);
    return taken + th_max_size(beside_all, above_floor / (unsigned)share);
}

static void choose_context(const Model *m, ModelPlan *plan, int least_batch) {
    if (m->options.context > 0) return;
    Search s = {.m = m, .plan = plan, .batch = least_batch};
    s.most = allowance(m, plan, others(m, plan, plan->context, least_batch), CONTEXT_SHARE);
    int high = th_min_int(m->hp.n_ctx_train, AUTO_CONTEXT);
    int n = largest(&s, context_fits, plan->context, th_max_int(high, plan->context));
    if (n < high) n = th_max_int(plan->context, n - n % 64);
    plan->context = n;
}

static void choose_batch(const Model *m, ModelPlan *plan, int least_batch) {
    Search s = {.m = m, .plan = plan, .context = plan->context};
    uint64_t taken = others(m, plan, plan->context, least_batch);
    s.most = m->options.batch > 0 ? minus(m->options.budget, plan->need.floor) : allowance(m, plan, taken, BATCH_SHARE);
    int high = m->options.batch > 0 ? m->options.batch : AUTO_BATCH;
    high = th_max_int(least_batch, th_min_int(high, th_min_int(MOST_BATCH, plan->context)));
    int n = largest(&s, batch_fits, least_batch, high);
    if (n < high && n > 8) n -= n % 8;
    plan->batch = th_max_int(n, least_batch);
}

/* Last, because a session can do without: one for each CHECKPOINT_EVERY tokens of context and a few for turns. */
static void choose_checkpoints(const Model *m, ModelPlan *plan) {
    uint64_t taken = others(m, plan, plan->context, plan->batch);
    uint64_t most = allowance(m, plan, taken, CHECKPOINT_SHARE) - taken;
    int n = th_min_int(AUTO_CHECKPOINTS, 3 + plan->context / CHECKPOINT_EVERY);
    if (m->options.checkpoints != CHECKPOINTS_AUTO || th_state_checkpoint_bytes(m) == 0) return;
    while (n > 0 && checkpoint_bytes(m, n) > most) n--;
    plan->checkpoints = n;
}

uint64_t th_model_reserve(int threads) { return RESERVE + (uint64_t)threads * RESERVE_PER_THREAD; }

bool th_model_plan(Model *m, uint64_t extra, ModelPlan *out, Err *err) {
    const ModelOptions *o = &m->options;
    int least_batch = th_max_int(o->sessions, o->draft_rows), used = th_max_int(m->hp.n_expert_used, o->experts);
    if (m->hp.n_expert == 0) used = 0;
    *out = (ModelPlan){.reserve = th_model_reserve(m->threads), .batch = least_batch};
    out->metadata = m->budget->by_class[MEM_METADATA] + extra;
    out->context = o->context > 0 ? o->context : th_min_int(FLOOR_CONTEXT, m->hp.n_ctx_train);
    if (th_state_checkpoint_bytes(m) > 0) out->checkpoints = th_max_int(0, o->checkpoints);
    th_weights_need(m->ws, th_min_int(used, th_max_int(1, m->hp.n_expert)), &out->need);
    uint64_t least = others(m, out, out->context, least_batch);
    if (!th_size_add(least, out->need.floor, &out->floor)) out->floor = UINT64_MAX / 2;
    out->fits = o->budget >= out->floor;
    Search s = {.m = m, .plan = out, .batch = least_batch, .most = minus(o->budget, out->need.floor)};
    out->max_context = o->budget > out->need.floor ? largest(&s, context_fits, 1, m->hp.n_ctx_train) : 0;
    if (out->fits) {
        choose_context(m, out, least_batch);
        choose_batch(m, out, least_batch);
        choose_checkpoints(m, out);
    }
    out->kv = state_bytes(m, out->context, out->batch) + checkpoint_bytes(m, out->checkpoints);
    out->scratch = scratch_bytes(m, out->context, out->batch);
    if (!out->fits) return true;
    uint64_t left = o->budget - others(m, out, out->context, out->batch);
    return th_weights_plan(m->ws, left, used, &out->weights, err);
}
