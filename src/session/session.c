/* session.c: a timeline of tokens on an engine.
 *
 * The state's length moves only after a pass has succeeded, so that an error or a cancel leaves a shorter timeline and
 * never a wrong one. Logits belong to the last token; whatever shortens the timeline drops them. A memory that cannot
 * be cut goes back to a checkpoint; what lies between that and where the timeline was to end is evaluated again. */
#include "session/session.h"

#include <math.h>

#include "os/sys.h"
#include "session/sampler.h"

uint64_t th_session_own_bytes(int context, int n_vocab) {
    return (uint64_t)context * sizeof(int32_t) + (uint64_t)n_vocab * (sizeof(float) + sizeof(Candidate)) + 4096;
}

static bool reserve_place(Engine *e, Err *err) {
    int planned = e->model.options.sessions;
    pthread_mutex_lock(&e->lock);
    bool ok = e->open_sessions < planned;
    if (ok) e->open_sessions++;
    pthread_mutex_unlock(&e->lock);
    if (ok) return true;
    return th_fail(err, THIMBLE_E_BUDGET, "the budget was planned for %d open session%s", planned,
                   planned == 1 ? "" : "s");
}

bool th_session_open(Session *s, Engine *e, const ThimbleSessionOptions *o, Err *err) {
    *s = (Session){0};
    if (!e->has_weights) return th_fail(err, THIMBLE_E_STATE, "the model was opened without its weights");
    if (!reserve_place(e, err)) return false;
    s->engine = e;
    if (o) s->progress = o->progress;
    th_pace_init(&s->pace, e->draft_slope, e->draft_guess);
    size_t vocab = (size_t)e->model.hp.n_vocab, context = (size_t)e->model.context;
    if (!th_state_open(&s->state, &e->model, err) || !th_checkpoints_open(&s->checkpoints, &e->model, err)) goto fail;
    s->tokens = th_mem_alloc(&e->budget, MEM_SCRATCH, context * sizeof *s->tokens, 64, err);
    if (!s->tokens) goto fail;
    s->logits = th_mem_alloc(&e->budget, MEM_SCRATCH, vocab * sizeof *s->logits, 64, err);
    if (!s->logits) goto fail;
    if (e->model.mtp) {
        s->hidden = th_mem_alloc(&e->budget, MEM_SCRATCH, (size_t)th_session_hidden_bytes(&e->model), 64, err);
        if (!s->hidden) goto fail;
    }
    s->candidates = th_mem_alloc(&e->budget, MEM_SCRATCH, vocab * sizeof(Candidate), 64, err);
    if (!s->candidates) goto fail;
    return true;
fail:
    th_session_close(s);
    return false;
}

void th_session_close(Session *s) {
    Engine *e = s->engine;
    if (!e) return;
    size_t vocab = (size_t)e->model.hp.n_vocab, context = (size_t)e->model.context;
    th_mem_free(&e->budget, MEM_SCRATCH, s->hidden, (size_t)th_session_hidden_bytes(&e->model));
    th_mem_free(&e->budget, MEM_SCRATCH, s->candidates, vocab * sizeof(Candidate));
    th_mem_free(&e->budget, MEM_SCRATCH, s->logits, vocab * sizeof *s->logits);
    th_mem_free(&e->budget, MEM_SCRATCH, s->tokens, context * sizeof *s->tokens);
    th_checkpoints_close(&s->checkpoints);
    th_state_close(&s->state, &e->model);
    pthread_mutex_lock(&e->lock);
    e->open_sessions--;
    pthread_mutex_unlock(&e->lock);
    *s = (Session){0};
}

/* tokens[0..n) are to stand at positions at, at + 1, ... */
static bool check_tokens(const Session *s, const int32_t *tokens, size_t n, size_t at, Err *err) {
    const Model *m = &s->engine->model;
    if (n == 0 || !tokens) return th_fail(err, THIMBLE_E_ARG, "no tokens given");
    if (n > (size_t)m->context || at > (size_t)m->context - n)
        return th_fail(err, THIMBLE_E_CONTEXT_FULL, "%zu tokens do not fit a context of %d", at + n, m->context);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= m->hp.n_vocab)
            return th_fail(err, THIMBLE_E_ARG, "token %d at position %zu is not in 0..%d", tokens[i], at + i,
                           m->hp.n_vocab - 1);
    return true;
}

void th_session_mask_padding(const Engine *e, float *logits) {
    if (!e->has_vocab || e->vocab.kind == VOCAB_NONE) return;
    for (int id = e->vocab.n; id < e->model.hp.n_vocab; id++) logits[id] = -INFINITY;
}

Measure th_session_measure(Engine *e) {
    WeightsStats w;
    th_weights_stats(e->model.ws, &w);
    return (Measure){
        .at = th_sys_seconds(), .stall_s = w.io_stall_s, .io_bytes = w.io_bytes, .moved = e->model.moved};
}

void th_session_measured(Session *s, const Measure *begin, const Measure *end, int n, bool is_decode) {
    if (is_decode) {
        s->stats.generated_tokens += (uint64_t)n;
        s->stats.decode_s += end->at - begin->at;
        s->decode_stall_s += end->stall_s - begin->stall_s;
        s->stats.decode_bytes_read += end->io_bytes - begin->io_bytes;
        s->stats.decode_bytes_moved += end->moved - begin->moved;
    } else {
        s->stats.prompt_tokens += (uint64_t)n;
        s->stats.prefill_s += end->at - begin->at;
    }
}

static void measured_now(Session *s, const Measure *begin, int n, bool is_decode) {
    Measure end = th_session_measure(s->engine);
    th_session_measured(s, begin, &end, n, is_decode);
}

/* What to do with the hidden states of a pass: nothing, the last row's logits, or all rows through fn. */
typedef struct Want {
    bool last;
    ThimbleScoreFn fn;
    void *arg;
    size_t index; /* of the pass's first row, for fn */
} Want;

static bool score_rows(Session *s, const float *hidden, int T, const Want *want, Err *err) {
    Engine *e = s->engine;
    size_t vocab = (size_t)e->model.hp.n_vocab;
    int pick[64];
    int step = th_min_int(e->logit_rows, (int)TH_COUNT(pick));
    for (int t = 0; t < T; t += step) {
        int n = th_min_int(step, T - t);
        for (int i = 0; i < n; i++) pick[i] = t + i;
        if (!th_model_logits(&e->model, hidden, pick, n, e->logits, err)) return false;
        for (int i = 0; i < n; i++) {
            float *row = e->logits + (size_t)i * vocab;
            size_t index = want->index + (size_t)(t + i);
            th_session_mask_padding(e, row);
            if (want->fn(want->arg, index, row, vocab) != 0)
                return th_fail(err, THIMBLE_E_CANCELLED, "stopped by the caller after token %zu", index);
        }
        if (t + n == T) memcpy(s->logits, e->logits + (size_t)(n - 1) * vocab, vocab * sizeof(float));
    }
    return true;
}

/* One pass over tokens[0..T), which are known to be good. */
static bool run_pass(Session *s, const int32_t *tokens, int T, const Want *want, Err *err) {
    Engine *e = s->engine;
    PassRow *rows = e->model.rows;
    for (int t = 0; t < T; t++) rows[t] = (PassRow){.token = tokens[t], .position = s->length + t, .seq = &s->state};
    s->has_logits = s->has_pending = false;
    float *hidden = NULL;
    bool ok = th_weights_check(e->model.ws, err) && th_model_forward(&e->model, rows, T, &hidden, err);
    if (ok) { /* the state has moved: so does the timeline, whatever becomes of the logits */
        memmove(s->tokens + s->length, tokens, (size_t)T * sizeof *tokens); /* may be the timeline's own */
        s->length += T;
    }
    ok = ok && th_session_follow(s, rows, hidden, T, T > 1 && want->last && e->draft_asked == THIMBLE_DRAFT_AUTO, err);
    if (ok && want->fn) {
        ok = score_rows(s, hidden, T, want, err);
    } else if (ok && want->last) {
        int pick = T - 1;
        ok = th_model_logits(&e->model, hidden, &pick, 1, s->logits, err);
        if (ok) th_session_mask_padding(e, s->logits);
    }
    th_model_finish(&e->model);
    s->has_logits = ok && (want->last || want->fn);
    return ok;
}

static bool report_progress(const Session *s, size_t done, size_t total, Err *err) {
    if (!s->progress.fn || s->progress.fn(s->progress.arg, THIMBLE_PHASE_PREFILL, done, total) == 0) return true;
    return th_fail(err, THIMBLE_E_CANCELLED, "stopped by the caller after %zu of %zu prompt tokens", done, total);
}

int th_session_pass_size(const Session *s, size_t left) {
    int stop = th_checkpoints_stop(&s->checkpoints, s->length);
    if (s->parting > s->length) stop = th_min_int(stop, s->parting);
    return (int)th_min_size(th_min_size(left, (size_t)s->engine->model.batch), (size_t)(stop - s->length));
}

void th_session_take_checkpoint(Session *s) {
    Checkpoints *c = &s->checkpoints;
    if (c->n == 0) return;
    int kinds = s->length == s->parting ? CHECKPOINT_TURN : 0;
    if (s->length % c->step == 0) kinds |= CHECKPOINT_ALIGNED;
    if (kinds) th_checkpoints_take(c, &s->state, kinds, s->has_logits ? s->logits : NULL);
}

/* Appends checked tokens in passes of at most a batch. */
static bool append(Session *s, const int32_t *tokens, size_t n, bool is_decode, ThimbleScoreFn fn, void *arg,
                   Err *err) {
    Engine *e = s->engine;
    pthread_mutex_lock(&e->lock);
    bool ok = true;
    for (size_t done = 0; ok && done < n;) {
        int T = th_session_pass_size(s, n - done);
        Want want = {.last = done + (size_t)T == n, .fn = fn, .arg = arg, .index = done};
        Measure begin = th_session_measure(e);
        ok = run_pass(s, tokens + done, T, &want, err);
        if (!ok) break;
        measured_now(s, &begin, T, is_decode);
        if (done + (size_t)T == n) th_pace_prompt(&s->pace, T, th_sys_seconds() - begin.at);
        th_session_take_checkpoint(s);
        done += (size_t)T;
        if (!is_decode && !report_progress(s, done, n, done < n ? err : NULL) && done < n) ok = false;
    }
    pthread_mutex_unlock(&e->lock);
    return ok;
}

bool th_session_mend(Session *s, Err *err) {
    return th_state_intact(&s->state) || th_session_rewind(s, (size_t)s->length, err);
}

bool th_session_eval(Session *s, const int32_t *tokens, size_t n, Err *err) {
    return check_tokens(s, tokens, n, (size_t)s->length, err) && th_session_mend(s, err) &&
           append(s, tokens, n, n == 1, NULL, NULL, err);
}

bool th_session_score(Session *s, const int32_t *tokens, size_t n, ThimbleScoreFn fn, void *arg, Err *err) {
    if (!fn) return th_fail(err, THIMBLE_E_ARG, "score needs a function to hand the logits to");
    return check_tokens(s, tokens, n, (size_t)s->length, err) && th_session_mend(s, err) &&
           append(s, tokens, n, false, fn, arg, err);
}

/* What a timeline cut to `length` tokens can begin with. */
typedef struct Return {
    int length, checkpoint; /* -1: the memory itself goes back */
} Return;

static Return find_return(const Session *s, int length) {
    if (length == 0 || th_state_can_rewind(&s->state, length)) return (Return){length, -1};
    int i = th_checkpoints_find(&s->checkpoints, &s->state, length);
    return i < 0 ? (Return){0, -1} : (Return){s->checkpoints.slot[i].position, i};
}

static bool go_back(Session *s, Return to, Err *err) {
    bool ok = to.checkpoint < 0 ? th_state_rewind(&s->state, to.length)
                                : th_checkpoints_load(&s->checkpoints, to.checkpoint, &s->state);
    if (!ok) return th_fail(err, THIMBLE_E_STATE, "the memory of position %d is gone", to.length);
    const float *logits = to.checkpoint < 0 ? NULL : th_checkpoints_logits(&s->checkpoints, to.checkpoint);
    if (logits) memcpy(s->logits, logits, (size_t)s->engine->model.hp.n_vocab * sizeof *logits);
    s->has_logits = logits || (s->has_logits && to.checkpoint < 0 && to.length == s->length);
    s->has_pending = false;
    s->length = to.length;
    th_checkpoints_cut(&s->checkpoints, s->length);
    return true;
}

bool th_session_rewind(Session *s, size_t position, Err *err) {
    if (position > (size_t)s->length)
        return th_fail(err, THIMBLE_E_ARG, "position %zu is beyond the %d tokens of the session", position, s->length);
    Return to = find_return(s, (int)position);
    if (to.length == 0 && position > 0)
        return th_fail(err, THIMBLE_E_STATE, "the memory of position %zu is gone; evaluate from the start", position);
    if (!go_back(s, to, err) || to.length == (int)position) return s->length == (int)position;
    return append(s, s->tokens + to.length, position - (size_t)to.length, false, NULL, NULL, err);
}

static size_t common_prefix(const Session *s, const int32_t *tokens, size_t n) {
    size_t common = 0;
    while (common < (size_t)s->length && common < n && s->tokens[common] == tokens[common]) common++;
    return common;
}

/* Where sync begins. The last token is evaluated once more for its logits, unless a checkpoint kept them. */
static Return find_start(const Session *s, const int32_t *tokens, size_t n, int *common) {
    *common = (int)common_prefix(s, tokens, n);
    if ((size_t)*common < n) return find_return(s, *common);
    int i = th_checkpoints_find(&s->checkpoints, &s->state, *common);
    if (i >= 0 && (size_t)s->checkpoints.slot[i].position == n && s->checkpoints.slot[i].has_logits)
        return (Return){(int)n, i};
    return find_return(s, *common = (int)n - 1);
}

static bool is_at(const Session *s, const int32_t *tokens, size_t n) {
    return (size_t)s->length == n && s->has_logits && th_state_intact(&s->state) && common_prefix(s, tokens, n) == n;
}

size_t th_session_reusable(const Session *s, const int32_t *tokens, size_t n) {
    int common;
    if (n == 0) return 0;
    return is_at(s, tokens, n) ? n : (size_t)find_start(s, tokens, n, &common).length;
}

enum { WORTH_A_TURN = 8, WORTH_A_PARTING = 32 }; /* tokens evaluated anew: a checkpoint is a copy of megabytes */

bool th_session_sync(Session *s, const int32_t *tokens, size_t n, Err *err) {
    int common;
    if (!check_tokens(s, tokens, n, 0, err)) return false;
    s->has_pending = false;
    if (is_at(s, tokens, n)) return s->stats.cached_tokens += n, true;
    Return to = find_start(s, tokens, n, &common);
    if (!go_back(s, to, err)) return false;
    s->stats.cached_tokens += (uint64_t)to.length;
    size_t rest = n - (size_t)to.length;
    if (rest == 0) return true;
    s->parting = common - to.length >= WORTH_A_PARTING && (size_t)common + 1 < n ? common : 0;
    bool ok = append(s, tokens + to.length, rest, false, NULL, NULL, err);
    s->parting = 0;
    if (ok && rest >= WORTH_A_TURN) th_checkpoints_take(&s->checkpoints, &s->state, CHECKPOINT_TURN, s->logits);
    return ok;
}

static bool check_batch(Session *const *s, const int32_t *tokens, size_t n, Err *err) {
    if (n == 0) return th_fail(err, THIMBLE_E_ARG, "no sessions given");
    for (size_t i = 0; i < n; i++) {
        if (s[i]->engine != s[0]->engine) return th_fail(err, THIMBLE_E_ARG, "session %zu belongs to another model", i);
        for (size_t j = 0; j < i; j++)
            if (s[i] == s[j]) return th_fail(err, THIMBLE_E_ARG, "sessions %zu and %zu are the same", j, i);
        if (!check_tokens(s[i], &tokens[i], 1, (size_t)s[i]->length, err) || !th_session_mend(s[i], err))
            return th_err_prefix(err, "session %zu: ", i);
    }
    return true;
}

static bool batch_pass(Session *const *s, const int32_t *tokens, int n, Err *err) {
    Model *m = &s[0]->engine->model;
    for (int i = 0; i < n; i++) {
        m->rows[i] = (PassRow){.token = tokens[i], .position = s[i]->length, .seq = &s[i]->state};
        s[i]->has_logits = s[i]->has_pending = false;
    }
    float *hidden = NULL;
    bool ok = th_weights_check(m->ws, err) && th_model_forward(m, m->rows, n, &hidden, err);
    for (int i = 0; ok && i < n; i++) s[i]->tokens[s[i]->length++] = tokens[i];
    for (int i = 0; ok && i < n; i++) th_session_take_checkpoint(s[i]);
    for (int i = 0; ok && i < n; i++) {
        ok = th_session_follow(s[i], m->rows + i, hidden + (size_t)i * (size_t)m->hp.n_embd, 1, false, err) &&
             th_model_logits(m, hidden, &i, 1, s[i]->logits, err);
        s[i]->has_logits = ok;
        if (ok) th_session_mask_padding(s[0]->engine, s[i]->logits);
    }
    th_model_finish(m);
    return ok;
}

bool th_session_eval_batch(Session *const *s, const int32_t *tokens, size_t n, Err *err) {
    if (!check_batch(s, tokens, n, err)) return false;
    Engine *e = s[0]->engine;
    pthread_mutex_lock(&e->lock);
    Measure begin = th_session_measure(e);
    bool ok = true;
    for (size_t done = 0; ok && done < n;) {
        int T = (int)th_min_size(n - done, (size_t)e->model.batch);
        ok = batch_pass(s + done, tokens + done, T, err);
        done += (size_t)T;
    }
    for (size_t i = 0; ok && i < n; i++) measured_now(s[i], &begin, 1, true);
    pthread_mutex_unlock(&e->lock);
    return ok;
}

bool th_session_pick(Session *s, ThimbleSampler *sm, const float *logits, int n_history, int32_t *token, Err *err) {
    const Engine *e = s->engine;
    SampleInput in = {.logits = logits,
                      .n_vocab = e->model.hp.n_vocab,
                      .history = s->tokens,
                      .n_history = (size_t)n_history,
                      .scratch = s->candidates};
    if (e->has_vocab) {
        in.suppress = e->vocab.suppress;
        in.n_suppress = e->vocab.n_suppress;
    }
    uint64_t nonfinite = 0;
    bool ok = th_sampler_pick(sm, &in, token, &nonfinite, err);
    if (nonfinite && s->stats.nonfinite_logits == 0)
        th_log(&e->options.log, THIMBLE_LOG_WARN,
               "%llu logits are not finite and are ignored: a damaged scale in the weights "
               "(output head or last layers) is the usual cause",
               (unsigned long long)nonfinite);
    s->stats.nonfinite_logits += nonfinite;
    if (ok && s->first_token_at == 0) s->first_token_at = th_sys_seconds();
    return ok;
}

bool th_session_sample(Session *s, ThimbleSampler *sm, int32_t *token, Err *err) {
    if (!s->has_logits)
        return th_fail(err, THIMBLE_E_STATE, "there are no logits to sample from: evaluate a token first");
    return th_session_pick(s, sm, s->logits, s->length, token, err);
}

static double seconds_for(uint64_t bytes, double rate) { return rate > 0 ? (double)bytes / rate : 0; }

/* What memory and flash would have allowed for the bytes that decoding moved and read, if all overlapped. A rate that
 * was measured low (a busy machine) does not make the device slower than it was. */
static void judge_limit(const Session *s, const WeightsStats *w, ThimbleStats *out) {
    enum { COMPUTE, MEMORY, FLASH };
    const double memory = seconds_for(out->decode_bytes_moved, s->engine->model.memory_rate),
                 flash = seconds_for(out->decode_bytes_read, w->flash_rate), least = memory > flash ? memory : flash,
                 seconds = least < out->decode_s ? least : out->decode_s;
    out->limit_bound = flash > memory ? FLASH : MEMORY;
    out->limit_decode_tps = seconds > 0 ? (double)out->generated_tokens / seconds : 0;
    if (least == 0 || out->decode_s - s->decode_stall_s > 2 * least) out->limit_bound = COMPUTE;
}

void th_session_stats(const Session *s, ThimbleStats *out) {
    Engine *e = s->engine;
    *out = s->stats;
    WeightsStats w;
    pthread_mutex_lock(&e->lock);
    th_weights_stats(e->model.ws, &w);
    out->planned = e->budget.used;
    out->picks_changed = e->model.route_stats.picks_changed;
    pthread_mutex_unlock(&e->lock);
    out->load_s = e->load_s;
    out->first_token_s = s->first_token_at > 0 ? s->first_token_at - e->opened_at : 0;
    out->threads = e->model.threads;
    out->isa = e->isa;
    out->expert_hits = w.hits;
    out->expert_misses = w.misses;
    out->lookahead_used = w.guess_used;
    out->lookahead_wasted = w.guess_wasted;
    out->expert_slots = w.slots;
    out->expert_bytes_read = w.expert_bytes;
    out->expert_stall_s = w.expert_stall_s;
    out->io_bytes_read = w.io_bytes;
    out->io_read_s = w.io_read_s;
    out->io_stall_s = w.io_stall_s;
    out->io_mode = w.io_mode;
    out->io_backend = w.io_backend;
    judge_limit(s, &w, out);
    out->budget = e->budget.limit;
    out->route_bias = e->model.options.route_bias;
    out->experts = e->model.options.experts;
    out->draft_gain = s->drafted_s > 0 && s->stats.draft_passes ? s->undrafted_s / s->drafted_s : 0;
    out->draft = e->draft;
    SysMemory memory;
    th_sys_memory(&memory);
    out->peak_rss = memory.peak_rss;
    out->peak_anon = memory.peak_anon;
}
