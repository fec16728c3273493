/* decode.c: the next tokens of a session: guess, prove, keep what came true.
 *
 *     timeline   ... t        p          | p was handed out, t evaluated
 *     pass             p  d1 d2 d3       | rows: the pending token and the guesses
 *     sampled          d1 d2 x           | row by row, as if each row were a pass of its own
 *     timeline   ... t p  d1 d2   x      | d3 is taken back, x is pending
 *
 * A row of a pass has the bits it would have alone (second law), and the sampler sees the same logits, history and
 * random numbers as without guesses: what comes out is the same, token for token, at any temperature. A guess can only
 * make it come sooner. The pass that evaluates the last token handed out begins with the next call: a token that ends
 * an answer costs no pass. */
#include "session/session.h"

#include <string.h>

#include "base/rng.h"
#include "model/mtp.h"
#include "os/sys.h"

typedef struct Guess {
    int32_t token[DRAFT_MOST];
    int n;    /* guesses there are */
    int rows; /* of them, so many take part in the pass */
    int luck;
    bool watch;      /* the head, in a plain pass */
    double seconds;  /* it took to make them */
    uint64_t moved;  /* bytes of weights used for them, and for watching and following */
} Guess;

static void follow_script(const Session *s, Guess *g, int most) {
    const DraftScript *script = s->script;
    g->n = most;
    for (int i = 0; i < g->n; i++) {
        int at = s->length + 1 + i, n_vocab = s->engine->model.hp.n_vocab;
        if (at >= script->n) {
            g->n = i;
            return;
        }
        bool right = th_rng_unit(script->rng) < script->chance;
        g->token[i] = right ? script->truth[at] : (script->truth[at] + 1) % n_vocab;
    }
}

/* Behind row `row` of a pass that began at position base. Nothing without a head. */
static void keep_hidden(Session *s, const float *hidden, int row, int base) {
    if (!s->hidden) return;
    size_t E = (size_t)s->engine->model.hp.n_embd;
    memcpy(s->hidden, hidden + (size_t)row * E, E * sizeof *hidden);
    s->hidden_at = base + 1 + row;
}

/* Would the head, in this hidden state of its own, have guessed `token`? */
static bool foresee(Session *s, const float *hidden, int position, int32_t token, Err *err) {
    int foresaw;
    if (!th_mtp_foresaw(&s->engine->model, hidden, token, s->candidates, &foresaw, err)) return false;
    const DraftScript *script = s->script;
    if (script && position < script->n) foresaw = th_rng_unit(script->rng) < script->chance;
    if (foresaw >= 0) th_pace_foresaw(&s->pace, foresaw == 1);
    return true;
}

enum { WATCHED = 4 }; /* tokens of a prompt that a head is asked about */

/* n rows whose hidden states of the head are `own`. */
static bool watch_rows(Session *s, const PassRow *rows, const float *own, int n, Err *err) {
    size_t E = (size_t)s->engine->model.hp.n_embd;
    bool ok = true;
    for (int i = th_max_int(0, n - 1 - WATCHED); ok && i < n - 1; i++)
        ok = foresee(s, own + (size_t)i * E, rows[i + 1].position, rows[i + 1].token, err);
    memcpy(s->hidden + E, own + (size_t)(n - 1) * E, E * sizeof *own);
    s->foresight_at = rows[n - 1].position + 1;
    return ok;
}

bool th_session_follow(Session *s, const PassRow *rows, const float *hidden, int n, bool watch, Err *err) {
    Model *m = &s->engine->model;
    enum { AT_ONCE = 64 };
    const float *prev[AT_ONCE];
    size_t E = (size_t)m->hp.n_embd;
    s->foresight_at = 0;
    if (!m->mtp) return true;
    for (int first = 0; first < n; first += AT_ONCE) {
        int some = th_min_int(n - first, AT_ONCE);
        bool is_last = first + some == n;
        size_t mark = m->scratch.used;
        float *own = NULL;
        for (int i = 0; i < some; i++) prev[i] = first + i ? hidden + (size_t)(first + i - 1) * E : NULL;
        if (first == 0 && rows[0].position > 0 && s->hidden_at == rows[0].position) prev[0] = s->hidden;
        bool watched = watch && is_last && (prev[0] || some > 1);
        bool ok = th_mtp_forward(m, rows + first, some, prev, watched ? &own : NULL, err) &&
                  (!watched || watch_rows(s, rows + first, own, some, err));
        m->scratch.used = mark;
        if (!ok) return false;
    }
    keep_hidden(s, hidden, n - 1, rows[0].position);
    return true;
}

/* n guesses of the MTP head: each step goes on from what the one before guessed. */
static bool ask_head(Session *s, Guess *g, int n, Err *err) {
    Engine *e = s->engine;
    Model *m = &e->model;
    size_t E = (size_t)m->hp.n_embd;
    const float *prev = s->hidden;
    int32_t token = s->pending;
    g->n = 0;
    g->luck = LUCK_MTP;
    if (!m->mtp || s->hidden_at != s->length) return true;
    for (; g->n < n; g->n++) {
        PassRow row = {.token = token, .position = s->length + g->n, .seq = &s->state};
        float *hidden = NULL;
        if (!th_mtp_forward(m, &row, 1, &prev, &hidden, err)) return false;
        memcpy(s->hidden + E, hidden, E * sizeof *hidden);
        th_model_finish(m);
        prev = s->hidden + E;
        /* The sampler's candidates are not in use before the pass. */
        if (!th_mtp_guess(m, prev, e->has_vocab ? e->vocab.n : m->hp.n_vocab, s->candidates, &token, err)) return false;
        g->token[g->n] = token;
    }
    return true;
}

static void look_up(const Session *s, Guess *g, int most) {
    int match = 0;
    g->n = th_draft_lookup(s->tokens, s->length + 1, g->token, most, &match);
    g->luck = th_draft_luck_of_match(match);
}

/* The means that promises more; the head is asked for no more guesses than will run. */
static bool guess_automatically(Session *s, Guess *g, int most, Err *err) {
    look_up(s, g, most);
    bool has_head = s->engine->model.mtp && s->hidden_at == s->length;
    double looked_up = g->n ? th_pace_promise(&s->pace, g->luck, g->n) : 0;
    int rows = 0;
    if (has_head && looked_up <= th_pace_promise(&s->pace, LUCK_MTP, most))
        rows = th_pace_choose(&s->pace, LUCK_MTP, most);
    if (rows > 0) {
        if (!ask_head(s, g, rows, err)) return false;
        g->rows = g->n;
        return true;
    }
    if (g->n) g->rows = th_pace_choose(&s->pace, g->luck, g->n); /* if not, it is compared all the same */
    g->watch = has_head && g->rows == 0 && th_pace_watches(&s->pace);
    return true;
}

/* Guesses for what follows the pending token; `room`: most tokens that the call may still hand out. */
static bool guess(Session *s, size_t room, Guess *g, Err *err) {
    const Engine *e = s->engine;
    *g = (Guess){0};
    int most = th_min_int(e->model.options.draft_rows - 1, e->model.context - s->length - 1);
    most = th_min_int(most, th_session_pass_size(s, th_min_size(room, DRAFT_ROWS)) - 1);
    bool is_auto = e->draft_asked == THIMBLE_DRAFT_AUTO;
    if (e->draft == THIMBLE_DRAFT_OFF || most < 1 || (!is_auto && th_pace_wants_plain(&s->pace))) return true;
    double start = th_sys_seconds();
    uint64_t moved = e->model.moved;
    bool ok = true;
    if (is_auto)
        ok = guess_automatically(s, g, most, err);
    else if (e->draft == THIMBLE_DRAFT_MTP)
        ok = ask_head(s, g, most, err);
    else
        look_up(s, g, most);
    if (s->script && (!is_auto || (g->n && g->luck == LUCK_MTP))) follow_script(s, g, is_auto ? g->n : most);
    g->rows = is_auto ? th_min_int(g->rows, g->n) : g->n;
    g->seconds = th_sys_seconds() - start;
    g->moved = e->model.moved - moved;
    return ok;
}

/* Evaluates the pending token and the guesses; *logits has a row for each of them. */
static bool run_rows(Session *s, Guess *g, float **hidden, float **logits, Err *err) {
    Engine *e = s->engine;
    Model *m = &e->model;
    int T = 1 + g->rows;
    for (int i = 0; i < g->rows; i++) s->tokens[s->length + 1 + i] = g->token[i];
    for (int t = 0; t < T; t++)
        m->rows[t] = (PassRow){.token = s->tokens[s->length + t], .position = s->length + t, .seq = &s->state};
    s->has_logits = false;
    if (!(T > 1 ? th_model_try : th_model_forward)(m, m->rows, T, hidden, err)) return false;
    s->length += T;
    s->has_pending = false;
    *logits = s->logits;
    int first = 0;
    uint64_t moved = m->moved;
    bool ok = th_session_follow(s, m->rows, *hidden, T, g->watch, err);
    g->moved += m->moved - moved;
    if (ok && T == 1) ok = th_model_logits(m, *hidden, &first, 1, s->logits, err);
    if (ok && T > 1) ok = th_model_draft_logits(m, *hidden, T, logits, err);
    for (int t = 0; ok && t < T; t++) th_session_mask_padding(e, *logits + (size_t)t * (size_t)m->hp.n_vocab);
    return ok;
}

/* Samples row after row for as long as the guesses come true. Returns the row of the last choice; *n tokens were chosen
 * (one for each row up to it; one less, with *err, if that row had nothing to choose from). */
static int choose(Session *s, ThimbleSampler *sm, const Guess *g, int base, const float *logits, int32_t *tok, int *n,
                  Err *err) {
    const Engine *e = s->engine;
    for (int row = 0;; row++) {
        const float *these = logits + (size_t)row * (size_t)e->model.hp.n_vocab;
        if (!th_session_pick(s, sm, these, base + 1 + row, &tok[row], err)) return row;
        *n = row + 1;
        bool ends = e->has_vocab && tok[row] < e->vocab.n && th_vocab_is_eog(&e->vocab, tok[row]);
        if (row == g->rows || tok[row] != g->token[row] || ends) return row;
    }
}

/* What the head foresaw against what was chosen. */
static bool watch_choice(Session *s, Guess *g, int32_t token, Err *err) {
    Model *m = &s->engine->model;
    uint64_t moved = m->moved;
    bool ok = foresee(s, s->hidden + (size_t)m->hp.n_embd, s->foresight_at, token, err);
    g->moved += m->moved - moved;
    return ok;
}

static void take_stock(Session *s, const Guess *g, const int32_t *tok, int n, double pass_s) {
    int agreed = 0;
    while (agreed < n && agreed < g->n && tok[agreed] == g->token[agreed]) agreed++;
    if (g->n) th_pace_proved(&s->pace, g->luck, th_min_int(g->n, n), agreed, g->rows);
    th_pace_measured(&s->pace, g->luck, 1 + g->rows, pass_s, g->seconds);
    s->stats.draft_bytes_moved += g->moved;
    s->stats.draft_watched += g->watch;
    if (s->pace.plain_s > 0) {
        s->drafted_s += pass_s + g->seconds;
        s->undrafted_s += n * s->pace.plain_s;
    }
    if (!g->rows) return;
    s->stats.draft_passes++;
    s->stats.drafted += (uint64_t)g->rows;
    s->stats.draft_accepted += (uint64_t)th_min_int(agreed, n - 1);
}

/* One pass and its choices. */
static bool advance(Session *s, ThimbleSampler *sm, int32_t *tok, size_t cap, size_t *n, Err *err) {
    Engine *e = s->engine;
    size_t vocab = (size_t)e->model.hp.n_vocab;
    int base = s->length, chosen = 0;
    s->tokens[base] = s->pending;
    Measure begin = th_session_measure(e);
    Guess g = {0};
    float *logits = NULL, *hidden = NULL;
    bool ok = th_weights_check(e->model.ws, err) && guess(s, cap, &g, err) && run_rows(s, &g, &hidden, &logits, err);
    Measure end = th_session_measure(e);
    int row = ok ? choose(s, sm, &g, base, logits, tok, &chosen, err) : 0;
    if (ok && logits != s->logits) memcpy(s->logits, logits + (size_t)row * vocab, vocab * sizeof *logits);
    if (ok && hidden) keep_hidden(s, hidden, row, base);
    if (ok && s->foresight_at == base + 1 && chosen > 0) ok = watch_choice(s, &g, tok[0], err);
    int length = s->length == base ? base : base + 1 + row;
    th_state_settle(&s->state, length);
    th_model_finish(&e->model);
    if (length == base) return false; /* the pending token still is */
    if (length < s->length && !th_state_rewind(&s->state, length))
        return th_fail(err, THIMBLE_E_STATE, "the memory cannot take %d guesses back", s->length - length);
    s->length = length;
    s->has_logits = ok;
    if (!ok) return false;
    th_session_measured(s, &begin, &end, 1 + row, true);
    th_session_take_checkpoint(s);
    if (chosen == 0) return false;
    take_stock(s, &g, tok, chosen, end.at - begin.at - g.seconds);
    s->has_pending = chosen == row + 1; /* otherwise the next call says what was wrong with the last row */
    s->pending = tok[chosen - 1];
    *n = (size_t)chosen;
    return true;
}

bool th_session_next(Session *s, ThimbleSampler *sm, int32_t *tok, size_t cap, size_t *n, Err *err) {
    Engine *e = s->engine;
    *n = 0;
    if (cap < 1) return th_fail(err, THIMBLE_E_ARG, "next needs room for a token");
    if (!s->has_pending) {
        if (!th_session_sample(s, sm, tok, err)) return false;
        s->pending = tok[0];
        s->has_pending = true;
        *n = 1;
        return true;
    }
    if (s->length >= e->model.context)
        return th_fail(err, THIMBLE_E_CONTEXT_FULL, "%d tokens do not fit a context of %d", s->length + 1,
                       e->model.context);
    if (!th_state_intact(&s->state)) {
        int32_t pending = s->pending;
        if (!th_session_mend(s, err)) return false;
        s->pending = pending;
        s->has_pending = true;
    }
    pthread_mutex_lock(&e->lock);
    bool ok = advance(s, sm, tok, cap, n, err);
    pthread_mutex_unlock(&e->lock);
    return ok;
}
