/* draft.c: see draft.h.
 *
 * With p the luck of one guess, a pass with k of them yields 1 + p + ... + p^k tokens on average and costs
 * cost[1 + k] + k * guess. Costs that were never measured follow from the nearest measured one. A kind of guess is left
 * when it loses and taken up again only when it gains clearly; while it is off, its luck is still learnt by comparing
 * or watching, and for lookups one pass in `patience` is spent on measuring costs. */
#include "session/draft.h"

#include "base/base.h"

/* ---- lookup ---------------------------------------------------------------------------------------------------------
 */

enum { LONGEST_MATCH = 16, LOOKUP_REACH = 1 << 16 };

/* Tokens that agree going back from the ones before `end` and before n. */
static int agreeing(const int32_t *tokens, int end, int n) {
    int length = 0;
    while (length < LONGEST_MATCH && length < end && tokens[end - 1 - length] == tokens[n - 1 - length]) length++;
    return length;
}

int th_draft_lookup(const int32_t *tokens, int n, int32_t *draft, int k, int *match) {
    int best = 0, from = 0, low = n > LOOKUP_REACH ? n - LOOKUP_REACH : 0;
    for (int end = n - 1; end > low && best < LONGEST_MATCH; end--) {
        if (tokens[end - 1] != tokens[n - 1]) continue;
        int length = agreeing(tokens, end, n);
        if (length > best) {
            best = length;
            from = end;
        }
    }
    *match = best;
    if (best == 0) return 0;
    for (int i = 0; i < k; i++) draft[i] = from + i < n ? tokens[from + i] : draft[from + i - n];
    return k;
}

int th_draft_luck_of_match(int match) {
    return match <= 1 ? LUCK_MATCH_1 : match <= 2 ? LUCK_MATCH_2 : match <= 4 ? LUCK_MATCH_4 : LUCK_MATCH_LONG;
}

/* ---- pace -----------------------------------------------------------------------------------------------------------
 */

/* Of short matches and of heads little is expected: comparing and watching soon tell. */
static const double START_P[N_LUCKS] = {0.05, 0.15, 0.4, 0.7, 0.3};
static const double WEIGHT = 0.125; /* of a new figure in a moving average */
static const double ENTER = 1.06, LEAVE = 1.0;
static const double FIRST_TRUST = 0.6, MOST_TRUST = 3, TRUST_PER_PASS = 0.01;
enum { FIRST_PATIENCE = 32, MOST_PATIENCE = 512, PROBE = 2, STALE = 64, SETTLED = 6, PROMPT_ROWS = 64 };
/* Of the head: seen so often it may run; so often without promise it rests; after a rest so much counts as seen. */
enum { HEARD = 2, ENOUGH = 6, RESTED = 2, MOST_SEEN = 14, MOST_REST = 1024 };

void th_pace_init(Pace *p, double slope, double guess) {
    *p = (Pace){.slope = slope, .guess = guess, .trust = FIRST_TRUST};
    for (int i = 0; i < N_LUCKS; i++)
        p->luck[i] = (Luck){.p = START_P[i], .wait = FIRST_PATIENCE, .patience = FIRST_PATIENCE, .credit = 1};
}

/* Long passes say little about short ones. */
void th_pace_prompt(Pace *p, int rows, double pass_s) {
    if (rows < 2 || rows > PROMPT_ROWS) return;
    p->prompt_rows = rows;
    p->prompt_s = pass_s;
}

static double slope_of(const Pace *p) {
    double measured = p->prompt_rows && p->plain_s > 0 ? (p->prompt_s / p->plain_s - 1) / (p->prompt_rows - 1) : 0;
    return measured > p->slope ? measured < 1 ? measured : 1 : p->slope;
}

/* In plain passes. */
static double cost_of(const Pace *p, int rows) {
    if (rows <= 1) return 1;
    rows = th_min_int(rows, DRAFT_ROWS);
    if (p->cost[rows] > 0) return p->cost[rows];
    for (int d = 1; d < DRAFT_ROWS; d++) { /* the nearest measured one says what a row costs */
        const int near[] = {rows + d, rows - d};
        for (int i = 0; i < 2; i++)
            if (near[i] > 1 && near[i] <= DRAFT_ROWS && p->cost[near[i]] > 0)
                return 1 + (p->cost[near[i]] - 1) / (near[i] - 1) * (rows - 1);
    }
    return 1 + slope_of(p) * (rows - 1);
}

/* What k guesses cost beyond a plain pass, in plain passes. */
static double price_of(const Pace *p, int luck, int k) {
    double guess = luck != LUCK_MTP ? 0 : p->guess_s > 0 && p->plain_s > 0 ? p->guess_s / p->plain_s : p->guess;
    return cost_of(p, 1 + k) - 1 + k * guess;
}

double th_pace_gain(const Pace *p, int luck, int k) {
    double tokens = 1, chance = 1;
    for (int i = 0; i < k; i++) {
        chance *= p->luck[luck].p;
        tokens += chance;
    }
    return tokens / (1 + price_of(p, luck, k));
}

static int best_of(const Pace *p, int luck, int most, double *gain) {
    int best = 1;
    for (int k = 1; k <= most; k++)
        if (k == 1 || th_pace_gain(p, luck, k) > *gain) {
            best = k;
            *gain = th_pace_gain(p, luck, k);
        }
    return best;
}

double th_pace_promise(const Pace *p, int luck, int most) {
    double gain = 0;
    if (most >= 1) best_of(p, luck, most > DRAFT_MOST ? DRAFT_MOST : most, &gain);
    return gain;
}

/* As many of k guesses as may be lost. */
static int trusted(Pace *p, int luck, int k) {
    while (k > 0 && price_of(p, luck, k) > p->trust) k--;
    p->luck[luck].held = k == 0;
    return k;
}

bool th_pace_wants_plain(const Pace *p) { return p->plain_s <= 0 || p->since_plain >= STALE; }

int th_pace_choose(Pace *p, int luck, int most) {
    Luck *l = &p->luck[luck];
    if (most < 1 || th_pace_wants_plain(p)) return 0;
    if (luck == LUCK_MTP && l->seen < HEARD) return 0;
    most = most > DRAFT_MOST ? DRAFT_MOST : most;
    if (!p->tried && most > PROBE) most = PROBE; /* what rows cost is only believed as yet */
    most = trusted(p, luck, most);
    if (most == 0) return 0;
    double gain = 0;
    int k = best_of(p, luck, most, &gain);
    l->on = l->on ? gain >= LEAVE : gain > ENTER;
    if (l->on) {
        if (luck != LUCK_MTP) l->patience = l->wait = FIRST_PATIENCE;
        return k;
    }
    if (luck == LUCK_MTP || --l->wait > 0) return 0;
    l->patience = l->patience * 2 > MOST_PATIENCE ? MOST_PATIENCE : l->patience * 2;
    l->wait = l->patience;
    return most < PROBE ? most : PROBE;
}

/* What was not run for want of trust would have paid: that is worth some, as long as runs keep what that promises. */
static void restore_trust(Pace *p, int luck, int accepted) {
    const Luck *l = &p->luck[luck];
    double gain = 1 - price_of(p, luck, 1);
    if (l->held && accepted > 0 && gain > 0 && p->trust < FIRST_TRUST) p->trust += gain / 4 * l->credit;
}

static void blend(double *average, double x) { *average = *average > 0 ? *average + WEIGHT * (x - *average) : x; }

void th_pace_measured(Pace *p, int luck, int rows, double pass_s, double guess_s) {
    if (rows > 1 && luck == LUCK_MTP) blend(&p->guess_s, guess_s / (rows - 1));
    if (!(pass_s > 0) || rows < 1 || rows > DRAFT_ROWS) return;
    if (rows == 1) {
        /* A machine that paused for once must not make everything else look cheap. */
        blend(&p->plain_s, p->plain_s > 0 && pass_s > 2 * p->plain_s ? 2 * p->plain_s : pass_s);
        p->since_plain = 0;
        return;
    }
    p->since_plain++;
    if (p->plain_s <= 0) return;
    /* The prediction counts like a first figure. What is off by far is doubted, the more the better the cost is known:
     * a single figure of a busy machine proves little. */
    int seen = p->seen[rows];
    p->tried = true;
    double expected = cost_of(p, rows), cost = pass_s / p->plain_s, most = (seen < SETTLED ? 4 : 2) * expected;
    cost = cost > most ? most : cost;
    p->cost[rows] = expected + (seen < SETTLED ? 1.0 / (2 + seen) : 2 * WEIGHT) * (cost - expected);
    p->trust -= cost - expected; /* th_pace_proved took off what was expected */
    if (seen < SETTLED) p->seen[rows]++;
    /* More rows were perhaps measured when rows were dearer, and then never again. */
    for (int more = rows + 1; more <= DRAFT_ROWS; more++) {
        double now = 1 + (p->cost[rows] - 1) / (rows - 1) * (more - 1);
        if (now < p->cost[more]) p->cost[more] += WEIGHT * (now - p->cost[more]);
    }
}

/* The fewer figures of a head there are, the more does one of them count. */
static void learn_of_head(Luck *l, bool right) {
    l->p += ((right ? 1.0 : 0.0) - l->p) / (l->seen + 2);
    if (l->seen < MOST_SEEN) l->seen++;
}

void th_pace_proved(Pace *p, int luck, int drafted, int accepted, int run) {
    Luck *l = &p->luck[luck];
    for (int i = 0; i < drafted && i <= accepted; i++) {
        if (luck == LUCK_MTP) learn_of_head(l, i < accepted);
        else l->p += WEIGHT / 2 * ((i < accepted ? 1.0 : 0.0) - l->p);
    }
    p->trust += TRUST_PER_PASS;
    if (run > 0) {
        p->trust += (accepted < run ? accepted : run) - price_of(p, luck, run);
        l->credit = accepted == 0 ? l->credit / 2 : l->credit < 0.5 ? l->credit * 2 : 1;
    } else {
        restore_trust(p, luck, accepted);
    }
    if (p->trust > MOST_TRUST) p->trust = MOST_TRUST;
}

bool th_pace_watches(Pace *p) {
    Luck *l = &p->luck[LUCK_MTP];
    p->trust = p->trust + TRUST_PER_PASS > MOST_TRUST ? MOST_TRUST : p->trust + TRUST_PER_PASS;
    if (l->seen < ENOUGH || l->on || th_pace_promise(p, LUCK_MTP, DRAFT_MOST) > ENTER) return true;
    if (--l->wait > 0) return false;
    l->patience = l->patience * 2 > MOST_REST ? MOST_REST : l->patience * 2;
    l->wait = l->patience;
    l->seen = RESTED;
    return true;
}

void th_pace_foresaw(Pace *p, bool right) {
    Luck *l = &p->luck[LUCK_MTP];
    learn_of_head(l, right);
    restore_trust(p, LUCK_MTP, right);
}
