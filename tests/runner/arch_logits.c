/* arch_logits.c: tiny F32 models of many architectures against llama.cpp's log-probabilities: every listed value within
 * 2e-4 (gemma3 within 5e-3, because the oracle takes GELU from a 16-bit table). */
#include <math.h>
#include <string.h>

#include "runner/replay.h"

/* Where values are listed for all ids; null stands for p = 0. */
static double all_difference(const Replay *r, const json_t *logp) {
    double worst = 0;
    for (size_t i = 0; i < json_array_size(logp) && i < r->n_vocab; i++) {
        const json_t *want = json_array_get(logp, i);
        if (json_is_null(want)) continue;
        double difference = fabs(r->logp[i] - json_number_value(want));
        if (!(difference <= worst)) worst = difference;
    }
    return worst;
}

static void judge(Tally *t, const char *name, Replay *r, const json_t *expect) {
    const char *arch = json_string_value(json_object_get(expect, "arch"));
    double limit = arch && strcmp(arch, "gemma3") == 0 ? 5e-3 : 2e-4, worst = 0;
    const json_t *prompts = json_object_get(expect, "prompts");
    for (size_t p = 0; p < json_array_size(prompts); p++) {
        const json_t *prompt = json_array_get(prompts, p), *forced = json_object_get(prompt, "forced");
        int32_t ids[1024], fed[256];
        size_t n = replay_ids(json_object_get(prompt, "ids"), ids, TH_COUNT(ids));
        size_t n_fed = replay_ids(json_object_get(forced, "tokens"), fed, TH_COUNT(fed));
        const json_t *steps = json_object_get(forced, "steps");
        bool ok = replay_restart(r) && replay_feed(r, ids, n);
        for (size_t i = 0; ok && i < json_array_size(steps); i++) {
            const json_t *step = json_array_get(steps, i);
            worst = fmax(worst, replay_top_difference(r, json_object_get(step, "top")));
            worst = fmax(worst, all_difference(r, json_object_get(step, "logp")));
            if (isnan(r->logp[0])) worst = INFINITY;
            ok = i >= n_fed || replay_feed(r, &fed[i], 1);
        }
        if (!ok) {
            tally_fail(t, "%s: prompt %zu: %s", name, p, r->why);
            return;
        }
    }
    if (worst <= limit) tally_pass(t, "%s", name);
    else tally_fail(t, "%s: expected log-probabilities within %g, got %g", name, limit, worst);
}

bool vectors_arch_logits(const char *dir, Tally *t) { return replay_cases(dir, t, judge); }
