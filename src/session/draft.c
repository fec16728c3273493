/* draft.c: see draft.h.
 *
 * With p the luck of one guess, a pass with k of them yields 1 + p + ... + p^k tokens on average and costs
 * cost[1 + k] + k * guess. Costs that were never measured follow from the nearest measured one. A kind of guess is left
 * when it loses and taken up again only when it gains clearly; while it is off, its luck is still compared for free
 * where guesses cost nothing, and one pass in `patience` is spent on measuring. */
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

static const double START_P[N_LUCKS] = {0.15, 0.3, 0.5, 0.7, 0.6};
static const double WEIGHT = 0.125; /* of a new figure in a moving average */
static const double ENTER = 1.06, LEAVE = 1.0;
enum { FIRST_PATIENCE = 32, MOST_PATIENCE = 512, PROBE = 2, STALE = 64, SETTLED = 6 };

void th_pace_init(Pace *p, double slope) {
    *p = (Pace){.slope = slope};
    for (int i = 0; i < N_LUCKS; i++)
        p->luck[i] = (Luck){.p = START_P[i], .wait = FIRST_PATIENCE, .patience = FIRST_PATIENCE};
}

/* In plain passes. */
static double cost_of(const Pace *p, int rows) {
    if (rows <= 1) return 1;
    if (p->cost[rows] > 0) return p->cost[rows];
    for (int d = 1; d < DRAFT_ROWS; d++) { /* the nearest measured one says what a row costs */
        const int near[] = {rows + d, rows - d};
        for (int i = 0; i < 2; i++)
            if (near[i] > 1 && near[i] <= DRAFT_ROWS && p->cost[near[i]] > 0)
                return 1 + (p->cost[near[i]] - 1) / (near[i] - 1) * (rows - 1);
    }
    return 1 + p->slope * (rows - 1);
}

double th_pace_gain(const Pace *p, int luck, int k) {
    double tokens = 1, chance = 1, guess = p->plain_s > 0 ? p->guess_s / p->plain_s : 0;
    for (int i = 0; i < k; i++) {
        chance *= p->luck[luck].p;
        tokens += chance;
    }
    return tokens / (cost_of(p, 1 + k) + k * guess);
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

int th_pace_choose(Pace *p, int luck, int most) {
    Luck *l = &p->luck[luck];
    if (most < 1 || p->plain_s <= 0) return 0;
    if (most > DRAFT_MOST) most = DRAFT_MOST;
    if (p->since_plain >= STALE) return 0; /* what a plain pass takes is what all is compared with */
    double gain = 0;
    int k = best_of(p, luck, most, &gain);
    if (l->on ? gain >= LEAVE : gain > ENTER) {
        l->on = true;
        l->patience = l->wait = FIRST_PATIENCE;
        return k;
    }
    l->on = false;
    if (--l->wait > 0) return 0;
    l->patience = l->patience * 2 > MOST_PATIENCE ? MOST_PATIENCE : l->patience * 2;
    l->wait = l->patience;
    return most < PROBE ? most : PROBE;
}

static void blend(double *average, double x) { *average = *average > 0 ? *average + WEIGHT * (x - *average) : x; }

void th_pace_measured(Pace *p, int rows, double pass_s, double guess_s) {
    if (rows > 1) blend(&p->guess_s, guess_s / (rows - 1));
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
    double expected = cost_of(p, rows), cost = pass_s / p->plain_s, most = (seen < SETTLED ? 4 : 2) * expected;
    p->cost[rows] =
        expected + (seen < SETTLED ? 1.0 / (2 + seen) : 2 * WEIGHT) * ((cost > most ? most : cost) - expected);
    if (seen < SETTLED) p->seen[rows]++;
}

void th_pace_proved(Pace *p, int luck, int drafted, int accepted) {
    double *average = &p->luck[luck].p;
    for (int i = 0; i < drafted && i <= accepted; i++) *average += WEIGHT / 2 * ((i < accepted ? 1.0 : 0.0) - *average);
}
