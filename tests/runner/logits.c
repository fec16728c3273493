/* logits.c: models in all weight types against exact arithmetic on their weights, in the oracle's own measure of noise
 * (vectors/logits/README.md). Each case gives its given-token steps, its greedy-token steps and its own greedy choices.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runner/replay.h"

enum { MAX_STEPS = 1024 };

typedef struct Measured {
    double step[MAX_STEPS]; /* largest |ln p - ln p| over exact's ids */
    size_t n_steps;
    double kl;
    size_t n_kl;
    size_t greedy_checked;
    char why[256]; /* first wrong greedy choice */
} Measured;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As NumPy's: linear between neighbours. */
static double percentile(const Measured *m, double share) {
    double at = share * (double)(m->n_steps - 1);
    size_t i = (size_t)at;
    double low = m->step[i], high = m->step[i + 1 < m->n_steps ? i + 1 : i];
    return low + (high - low) * (at - (double)i);
}

static double divergence(const Replay *r, const json_t *exact) {
    double kl = 0;
    for (size_t i = 0; i < json_array_size(exact) && i < r->n_vocab; i++) {
        const json_t *value = json_array_get(exact, i);
        if (json_is_null(value)) continue;
        double want = json_number_value(value);
        kl += exp(want) * (want - r->logp[i]);
    }
    return kl;
}

/* One step: the difference, and whether the own choice is the oracle's wherever that is not a near tie. */
static void measure_step(Replay *r, Measured *m, const json_t *exact, int32_t oracle, double tie, bool *follows,
                         size_t at) {
    const json_t *top = json_object_get(exact, "top"), *logp = json_object_get(exact, "logp");
    if (m->n_steps < MAX_STEPS) m->step[m->n_steps++] = replay_top_difference(r, top);
    if (logp) {
        m->kl += divergence(r, logp);
        m->n_kl++;
    }
    if (!*follows || oracle < 0) return;
    double first = json_number_value(json_array_get(json_array_get(top, 0), 1));
    double second = json_number_value(json_array_get(json_array_get(top, 1), 1));
    if (first - second < 2 * tie) {
        *follows = false;
        return;
    }
    m->greedy_checked++;
    if (replay_best(r) != oracle && !m->why[0])
        snprintf(m->why, sizeof m->why, "step %zu: expected token %d, got %d", at, (int)oracle, (int)replay_best(r));
}

static bool measure_prompt(Replay *r, const json_t *prompt, const char *mode, double tie, Measured *m) {
    int32_t ids[1024], fed[256];
    bool greedy = strcmp(mode, "greedy") == 0, follows = greedy;
    size_t n = replay_ids(json_object_get(prompt, "ids"), ids, TH_COUNT(ids));
    size_t n_fed = replay_ids(json_object_get(json_object_get(prompt, mode), "tokens"), fed, TH_COUNT(fed));
    const json_t *steps = json_object_get(json_object_get(prompt, "exact"), mode);
    bool ok = replay_restart(r) && replay_feed(r, ids, n);
    for (size_t i = 0; ok && i < json_array_size(steps); i++) {
        measure_step(r, m, json_array_get(steps, i), greedy && i < n_fed ? fed[i] : -1, tie, &follows, i);
        ok = i + 1 >= json_array_size(steps) || i >= n_fed || replay_feed(r, &fed[i], 1);
    }
    return ok;
}

static double noise(const json_t *expect, const char *group, const char *suffix, const char *field) {
    char key[64];
    snprintf(key, sizeof key, "%s%s", group, suffix);
    return json_number_value(json_object_get(json_object_get(json_object_get(expect, "noise"), key), field));
}

static void judge_float(Tally *t, const char *name, const char *mode, const Measured *m, double limit, bool moe) {
    size_t off = 0;
    for (size_t i = 0; i < m->n_steps; i++) off += !(m->step[i] <= limit);
    if (off <= (moe ? m->n_steps / 50 : 0)) tally_pass(t, "%s", name);
    else
        tally_fail(t, "%s %s: %zu of %zu steps are further off than %g, the worst %g", name, mode, off, m->n_steps,
                   limit, m->step[m->n_steps - 1]);
}

static void judge_quantised(Tally *t, const char *name, const char *mode, const Measured *m, const json_t *expect,
                            bool moe) {
    const char *suffix = strcmp(mode, "forced") == 0 ? "_forced" : "";
    double p50 = percentile(m, 0.5), p90 = percentile(m, 0.9), kl = m->n_kl ? m->kl / (double)m->n_kl : 0;
    double want50 = 1.5 * noise(expect, "oracle_vs_exact", suffix, "step_p50");
    double want90 = (moe ? 2.5 : 2.0) * noise(expect, "oracle_vs_exact", suffix, "step_p90");
    double want_kl = 2 * noise(expect, "kl_oracle_vs_exact", suffix, "mean");
    bool kl_ok = moe || kl <= want_kl;
    if (p50 <= want50 && p90 <= want90 && kl_ok) tally_pass(t, "%s", name);
    else
        tally_fail(t, "%s %s: expected p50 <= %.4g, p90 <= %.4g, KL <= %.3g; got %.4g, %.4g, %.3g", name, mode, want50,
                   want90, want_kl, p50, p90, kl);
}

static void judge(Tally *t, const char *name, Replay *r, const json_t *expect) {
    const char *mix = json_string_value(json_object_get(expect, "mix"));
    bool moe = thimble_model_info(r->model)->experts > 0;
    bool is_float = mix && (!strcmp(mix, "f32") || !strcmp(mix, "f16") || !strcmp(mix, "bf16"));
    double tie = noise(expect, "oracle_vs_exact", "", "step_p90");
    static const char *const modes[] = {"forced", "greedy"};
    for (size_t i = 0; i < TH_COUNT(modes); i++) {
        static Measured m;
        m = (Measured){0};
        const json_t *prompts = json_object_get(expect, "prompts");
        for (size_t p = 0; p < json_array_size(prompts); p++)
            if (!measure_prompt(r, json_array_get(prompts, p), modes[i], tie, &m)) {
                tally_fail(t, "%s: prompt %zu: %s", name, p, r->why);
                return;
            }
        qsort(m.step, m.n_steps, sizeof m.step[0], compare);
        if (is_float) judge_float(t, name, modes[i], &m, strcmp(mix, "bf16") == 0 ? 0.1 : 0.03, moe);
        else judge_quantised(t, name, modes[i], &m, expect, moe);
        if (i == 0) continue;
        if (m.why[0]) tally_fail(t, "%s greedy: %s", name, m.why);
        else tally_pass(t, "%s greedy choices: %zu", name, m.greedy_checked);
    }
}

bool vectors_logits(const char *dir, Tally *t) { return replay_cases(dir, t, judge); }
