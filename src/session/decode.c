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
#include "os/sys.h"

typedef struct Guess {
    int32_t token[DRAFT_MOST];
    int n;    /* guesses there are */
    int rows; /* of them, so many take part in the pass */
    int luck;
    double seconds; /* it took to make them */
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

/* Guesses for what follows the pending token; `room`: most tokens that the call may still hand out. */
static Guess guess(Session *s, size_t room) {
    const Engine *e = s->engine;
    Guess g = {0};
    int most = th_min_int(e->model.options.draft_rows - 1, e->model.context - s->length - 1);
    most = th_min_int(most, th_session_pass_size(s, th_min_size(room, DRAFT_ROWS)) - 1);
    if (e->draft == THIMBLE_DRAFT_OFF || most < 1) return g;
    double start = th_sys_seconds();
    int match = 0;
    g.n = th_draft_lookup(s->tokens, s->length + 1, g.token, most, &match);
    g.luck = th_draft_luck_of_match(match);
    if (s->script) follow_script(s, &g, most);
    if (g.n) g.rows = e->draft_asked == THIMBLE_DRAFT_AUTO ? th_pace_choose(&s->pace, g.luck, g.n) : g.n;
    g.seconds = th_sys_seconds() - start;
    return g;
}

/* Evaluates the pending token and the guesses; *logits has a row for each of them. */
static bool run_rows(Session *s, const Guess *g, float **logits, Err *err) {
    Engine *e = s->engine;
    Model *m = &e->model;
    int T = 1 + g->rows;
    for (int i = 0; i < g->rows; i++) s->tokens[s->length + 1 + i] = g->token[i];
    for (int t = 0; t < T; t++)
        m->rows[t] = (PassRow){.token = s->tokens[s->length + t], .position = s->length + t, .seq = &s->state};
    s->has_logits = false;
    float *hidden = NULL;
    if (!th_weights_check(m->ws, err) || !th_model_forward(m, m->rows, T, &hidden, err)) return false;
    s->length += T;
    s->has_pending = false;
    *logits = s->logits;
    int first = 0;
    bool ok = T == 1 ? th_model_logits(m, hidden, &first, 1, s->logits, err)
                     : th_model_draft_logits(m, hidden, T, logits, err);
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

static void take_stock(Session *s, const Guess *g, const int32_t *tok, int n, double pass_s) {
    int agreed = 0;
    while (agreed < n && agreed < g->n && tok[agreed] == g->token[agreed]) agreed++;
    if (g->n) th_pace_proved(&s->pace, g->luck, th_min_int(g->n, n), agreed);
    th_pace_measured(&s->pace, 1 + g->rows, pass_s, g->seconds);
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
    Guess g = guess(s, cap);
    float *logits = NULL;
    bool ok = run_rows(s, &g, &logits, err);
    Measure end = th_session_measure(e);
    int row = ok ? choose(s, sm, &g, base, logits, tok, &chosen, err) : 0;
    if (ok && logits != s->logits) memcpy(s->logits, logits + (size_t)row * vocab, vocab * sizeof *logits);
    th_model_finish(&e->model);
    if (!ok && s->length == base) return false; /* the pending token still is */
    int length = base + 1 + row;
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
