/* test_draft.c: what lookups find, and that the pace follows what was measured: takes drafts up where they pay, leaves
 * them where they lose, and comes back. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/base.h"
#include "session/draft.h"

/* ---- lookup ---------------------------------------------------------------------------------------------------------
 */

static void nothing_to_find(void **state) {
    (void)state;
    const int32_t tokens[] = {1, 2, 3, 4};
    int32_t draft[4];
    int match = -1;
    assert_int_equal(th_draft_lookup(tokens, 4, draft, 4, &match), 0);
    assert_int_equal(match, 0);
    assert_int_equal(th_draft_lookup(tokens, 1, draft, 4, &match), 0);
}

static void longest_match_wins(void **state) {
    (void)state;
    /* The end is 7 8 9: 8 9 stood at 4..5 (then 50), 7 8 9 at 0..2 (then 10 11), 9 alone at 7 (then 60). */
    const int32_t tokens[] = {7, 8, 9, 10, 11, 8, 9, 50, 9, 60, 7, 8, 9};
    int32_t draft[2] = {0};
    int match = 0;
    assert_int_equal(th_draft_lookup(tokens, 13, draft, 2, &match), 2);
    assert_int_equal(match, 3);
    assert_int_equal(draft[0], 10);
    assert_int_equal(draft[1], 11);
}

static void latest_of_equals_wins(void **state) {
    (void)state;
    const int32_t tokens[] = {1, 5, 2, 5, 3, 5};
    int32_t draft[1] = {0};
    int match = 0;
    assert_int_equal(th_draft_lookup(tokens, 6, draft, 1, &match), 1);
    assert_int_equal(match, 1);
    assert_int_equal(draft[0], 3);
}

static void a_match_at_the_end_goes_on_periodically(void **state) {
    (void)state;
    const int32_t tokens[] = {4, 1, 2, 3, 1, 2, 3};
    int32_t draft[8];
    int match = 0;
    assert_int_equal(th_draft_lookup(tokens, 7, draft, 8, &match), 8);
    assert_int_equal(match, 3);
    for (int i = 0; i < 8; i++) assert_int_equal(draft[i], i % 3 + 1);
    const int32_t same[] = {6, 6};
    assert_int_equal(th_draft_lookup(same, 2, draft, 8, &match), 8);
    for (int i = 0; i < 8; i++) assert_int_equal(draft[i], 6);
}

/* ---- pace -----------------------------------------------------------------------------------------------------------
 */

/* A machine and a text: what a pass over so many rows takes, how likely a guess is right. */
typedef struct World {
    double plain_s, slope, p;
    uint64_t rng;
} World;

static bool chance(World *w) {
    w->rng = w->rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(w->rng >> 33) / 2147483648.0 < w->p;
}

typedef struct Outcome {
    double tokens, seconds;
    int passes, drafted;
} Outcome;

/* The loop of decode.c without a model. */
static Outcome live(World *w, Pace *pace, int luck, int most, int passes) {
    Outcome out = {.passes = passes};
    for (int i = 0; i < passes; i++) {
        int k = th_pace_choose(pace, luck, most), agreed = 0, shown = k ? k : 1;
        while (agreed < shown && chance(w)) agreed++;
        th_pace_proved(pace, luck, shown, agreed, k);
        double s = w->plain_s * (1 + w->slope * k);
        th_pace_measured(pace, luck, 1 + k, s, 0);
        out.tokens += k ? 1 + agreed : 1;
        out.seconds += s;
        out.drafted += k > 0;
    }
    return out;
}

static double gain_of(const World *w, Outcome o) { return o.tokens * w->plain_s / o.seconds; }

static void one_plain_pass_comes_first(void **state) {
    (void)state;
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    assert_true(th_pace_wants_plain(&pace));
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 8), 0);
    th_pace_measured(&pace, LUCK_MATCH_LONG, 1, 0.1, 0);
    assert_false(th_pace_wants_plain(&pace));
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 8), 2); /* what rows cost is only believed */
    th_pace_measured(&pace, LUCK_MATCH_LONG, 3, 0.104, 0);
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 8), 8);
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 3), 3);
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 0), 0);
}

static void cheap_rows_are_used(void **state) {
    (void)state;
    World w = {.plain_s = 0.1, .slope = 0.01, .p = 0.9, .rng = 1};
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    assert_true(gain_of(&w, live(&w, &pace, LUCK_MATCH_LONG, 8, 200)) > 4);
}

/* Whatever rows cost and guesses are worth, adapting never loses much, and in the end next to nothing. */
static void losing_is_left(void **state) {
    (void)state;
    static const double slopes[] = {0.01, 0.1, 0.3, 0.6, 1.0}, lucks[] = {0, 0.02, 0.1, 0.3};
    for (size_t s = 0; s < TH_COUNT(slopes); s++)
        for (size_t p = 0; p < TH_COUNT(lucks); p++)
            for (int luck = 0; luck < N_LUCKS; luck++) {
                World w = {.plain_s = 0.1, .slope = slopes[s], .p = lucks[p], .rng = 7 * s + p};
                Pace pace;
                th_pace_init(&pace, 0.02, 0); /* the prediction is wrong on purpose */
                live(&w, &pace, luck, 8, 100);
                double gain = gain_of(&w, live(&w, &pace, luck, 8, 2000));
                if (gain < 0.98) fail_msg("slope %g, luck %g: gain %g", slopes[s], lucks[p], gain);
            }
}

static void what_begins_to_pay_is_taken_up(void **state) {
    (void)state;
    World w = {.plain_s = 0.1, .slope = 0.15, .p = 0, .rng = 3};
    Pace pace;
    th_pace_init(&pace, 0.15, 0);
    live(&w, &pace, LUCK_MATCH_LONG, 8, 300);
    assert_false(pace.luck[LUCK_MATCH_LONG].on);
    w.p = 0.9; /* the text begins to repeat itself: seen by comparing alone */
    live(&w, &pace, LUCK_MATCH_LONG, 8, 40);
    assert_true(pace.luck[LUCK_MATCH_LONG].on);
    assert_true(gain_of(&w, live(&w, &pace, LUCK_MATCH_LONG, 8, 300)) > 1.5);
    w.slope = 1.5; /* the model has come into memory */
    live(&w, &pace, LUCK_MATCH_LONG, 8, 100);
    double gain = gain_of(&w, live(&w, &pace, LUCK_MATCH_LONG, 8, 1000));
    if (gain < 0.98) fail_msg("gain %g", gain);
    w.slope = 0.02;
    live(&w, &pace, LUCK_MATCH_LONG, 8, 3000);
    assert_true(gain_of(&w, live(&w, &pace, LUCK_MATCH_LONG, 8, 300)) > 2);
}

static void one_hiccup_changes_nothing(void **state) {
    (void)state;
    World w = {.plain_s = 0.1, .slope = 0.02, .p = 0.6, .rng = 5};
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    live(&w, &pace, LUCK_MATCH_LONG, 8, 50);
    th_pace_measured(&pace, LUCK_MATCH_LONG, 9, 100, 0);
    th_pace_measured(&pace, LUCK_MATCH_LONG, 1, 100, 0);
    assert_true(pace.plain_s < 0.12);
    assert_true(th_pace_choose(&pace, LUCK_MATCH_LONG, 8) > 0);
}

/* Where guessing always pays, a plain pass is still measured now and then: everything is compared with it. */
static void the_plain_pass_stays_known(void **state) {
    (void)state;
    World w = {.plain_s = 0.1, .slope = 0.01, .p = 1, .rng = 5};
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    Outcome o = live(&w, &pace, LUCK_MATCH_LONG, 8, 1000);
    assert_true(o.drafted < 1000 - 5);
    assert_true(o.drafted > 950);
}

static void guesses_that_take_time_count(void **state) {
    (void)state;
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    th_pace_measured(&pace, LUCK_MATCH_LONG, 1, 0.1, 0);
    double cheap = th_pace_gain(&pace, LUCK_MTP, 2);
    for (int i = 0; i < 50; i++) th_pace_measured(&pace, LUCK_MTP, 3, 0.104, 0.4);
    assert_true(th_pace_gain(&pace, LUCK_MTP, 2) < cheap / 3);
    assert_int_equal(th_pace_choose(&pace, LUCK_MTP, 8), 0);
}

/* ---- watching a head ------------------------------------------------------------------------------------------------
 */

/* The loop of decode.c with a head: watched with luck w->p, run with luck `kept`. Watching costs `watch`, a guess
 * `guess` plain passes. *first: the first pass that ran guesses. */
typedef struct Head {
    double kept, watch, guess;
    int watched, ran, first;
} Head;

static double live_with_head(World *w, Head *h, Pace *pace, int passes) {
    double tokens = 0, cost = 0, p = w->p;
    h->watched = h->ran = h->first = 0;
    for (int i = 1; i <= passes; i++) {
        int k = th_pace_choose(pace, LUCK_MTP, 3), agreed = 0;
        if (k == 0 && th_pace_watches(pace)) {
            th_pace_foresaw(pace, chance(w));
            h->watched++;
            cost += h->watch;
        }
        w->p = h->kept;
        while (agreed < k && chance(w)) agreed++;
        w->p = p;
        if (k) th_pace_proved(pace, LUCK_MTP, k, agreed, k);
        th_pace_measured(pace, LUCK_MTP, 1 + k, w->plain_s * (1 + w->slope * k), h->guess * k * w->plain_s);
        tokens += 1 + agreed;
        cost += 1 + (w->slope + h->guess) * k;
        h->ran += k > 0;
        if (k > 0 && h->first == 0) h->first = i;
    }
    return tokens / cost;
}

static void a_hopeless_head_is_watched_and_left(void **state) {
    (void)state;
    for (int answer = 0; answer < 2; answer++) {
        World w = {.plain_s = 0.1, .slope = 0.05, .p = 0, .rng = 11};
        Head h = {.kept = 0, .watch = 0.03, .guess = 0.05};
        Pace pace;
        th_pace_init(&pace, 0.02, 0.05);
        double gain = live_with_head(&w, &h, &pace, answer ? 4000 : 48);
        assert_int_equal(h.ran, 0);
        assert_true(h.watched >= 6 && h.watched <= (answer ? 60 : 12));
        assert_true(gain > 0.99);
    }
}

static void a_good_head_runs_at_once(void **state) {
    (void)state;
    for (int unlucky = 0; unlucky < 2; unlucky++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            World w = {.plain_s = 0.1, .slope = 0.05, .p = seed % 2 ? 0.8 : 0.6, .rng = seed * 1000};
            Head h = {.kept = w.p, .watch = 0.03, .guess = 0.05};
            Pace pace;
            th_pace_init(&pace, 0.02, 0.05);
            for (int i = 0; i < (unlucky ? 4 : 0); i++) th_pace_foresaw(&pace, false); /* a prompt like no other */
            double gain = live_with_head(&w, &h, &pace, 200);
            if (h.first > (unlucky ? 20 : 12)) fail_msg("seed %d: first in pass %d", (int)seed, h.first);
            if (gain < (seed % 2 ? 1.9 : 1.4)) fail_msg("seed %d: gain %g", (int)seed, gain);
        }
}

/* Watching is cheap because it only ever flatters: whatever it promises, what runs are given is bounded. */
static void a_head_that_keeps_no_promise_loses_little(void **state) {
    (void)state;
    static const double slopes[] = {0.02, 0.1, 0.3, 0.8};
    for (size_t s = 0; s < TH_COUNT(slopes); s++)
        for (int promise = 3; promise <= 10; promise++) {
            World w = {.plain_s = 0.1, .slope = slopes[s], .p = promise / 10.0, .rng = 77};
            Head h = {.kept = 0, .watch = 0.01, .guess = 0.05};
            Pace pace;
            th_pace_init(&pace, 0.02, 0.05);
            double gain = live_with_head(&w, &h, &pace, 1000);
            if (gain < 0.97) fail_msg("slope %g, promise 0.%d: gain %g", slopes[s], promise, gain);
        }
}

/* Lookups whose luck turns bad: what is lost is what was gained before, and a hundredth. */
static void losses_are_bounded(void **state) {
    (void)state;
    for (int step = 1; step < 10; step++) {
        World w = {.plain_s = 0.1, .slope = step / 10.0, .p = 0.1, .rng = 9};
        Pace pace;
        th_pace_init(&pace, 0.02, 0);
        Outcome o = live(&w, &pace, LUCK_MATCH_LONG, 8, 48);
        double lost = o.seconds / w.plain_s - o.tokens;
        if (lost > 0.6 + 0.48 + w.slope * 2) fail_msg("slope %g: %g passes of 48 lost", w.slope, lost);
    }
}

/* A prompt's pass says what rows cost before the first draft has to find out. */
static void the_prompt_tells_what_rows_cost(void **state) {
    (void)state;
    Pace pace;
    th_pace_init(&pace, 0.02, 0);
    th_pace_prompt(&pace, 21, 0.1 * (1 + 20 * 0.9));
    th_pace_measured(&pace, LUCK_MATCH_LONG, 1, 0.1, 0);
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 8), 0);
    th_pace_init(&pace, 0.02, 0);
    th_pace_prompt(&pace, 500, 100); /* too long to say anything */
    th_pace_measured(&pace, LUCK_MATCH_LONG, 1, 0.1, 0);
    assert_int_equal(th_pace_choose(&pace, LUCK_MATCH_LONG, 8), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_find),
        cmocka_unit_test(longest_match_wins),
        cmocka_unit_test(latest_of_equals_wins),
        cmocka_unit_test(a_match_at_the_end_goes_on_periodically),
        cmocka_unit_test(one_plain_pass_comes_first),
        cmocka_unit_test(cheap_rows_are_used),
        cmocka_unit_test(losing_is_left),
        cmocka_unit_test(what_begins_to_pay_is_taken_up),
        cmocka_unit_test(one_hiccup_changes_nothing),
        cmocka_unit_test(the_plain_pass_stays_known),
        cmocka_unit_test(guesses_that_take_time_count),
        cmocka_unit_test(a_hopeless_head_is_watched_and_left),
        cmocka_unit_test(a_good_head_runs_at_once),
        cmocka_unit_test(a_head_that_keeps_no_promise_loses_little),
        cmocka_unit_test(losses_are_bounded),
        cmocka_unit_test(the_prompt_tells_what_rows_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
