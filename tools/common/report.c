/* report.c: see report.h. */
#include "common/report.h"

#include "common/text.h"

#include <stdarg.h>
#include <string.h>

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

void report_make(Report *r, const ThimbleSession *s, uint64_t generated) {
    *r = (Report){.generated = generated};
    r->stats.struct_size = sizeof r->stats;
    thimble_session_stats(s, &r->stats);
    const ThimbleStats *t = &r->stats;
    r->prefill_tps = ratio((double)t->prompt_tokens, t->prefill_s);
    r->decode_tps = ratio((double)t->generated_tokens, t->decode_s);
    r->bytes_per_token = ratio((double)t->decode_bytes_read, (double)t->generated_tokens);
    r->hit_rate = ratio((double)t->expert_hits, (double)t->expert_hits + (double)t->expert_misses);
    r->reached = ratio(r->decode_tps, t->limit_decode_tps);
}

static const char *bound_name(int bound) { return bound == 0 ? "compute" : bound == 1 ? "memory" : "flash"; }

__attribute__((format(printf, 2, 3))) static void add(Text *line, const char *format, ...) {
    char part[256];
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (line->n) text_append_string(line, " | ");
    text_append_string(line, part);
}

static void add_lossy(Text *line, const ThimbleStats *t) {
    if (t->route_bias != 0) add(line, "lossy: --route-bias %g", (double)t->route_bias);
    if (t->experts) add(line, "lossy: --experts %d", t->experts);
    if (t->route_bias != 0 || t->experts) add(line, "%llu picks changed", (unsigned long long)t->picks_changed);
}

static const char *gain_text(double gain, char out[32]) {
    out[0] = 0;
    if (gain > 0) snprintf(out, 32, ", gain %.2fx", gain);
    return out;
}

void report_closing_line(Cli *cli, const Report *r) {
    const ThimbleStats *t = &r->stats;
    Text line = {0};
    char a[32], b[32];
    add(&line, "%llu + %llu tokens", (unsigned long long)t->prompt_tokens, (unsigned long long)r->generated);
    if (t->cached_tokens) add(&line, "%llu cached", (unsigned long long)t->cached_tokens);
    if (r->prefill_tps > 0) add(&line, "prefill %.4g tok/s", r->prefill_tps);
    if (r->decode_tps > 0) add(&line, "decode %.4g tok/s", r->decode_tps);
    if (t->first_token_s > 0) add(&line, "first token %.2f s", t->first_token_s);
    if (t->expert_hits + t->expert_misses)
        add(&line, "experts %llu hits, %llu misses (%.1f %%)", (unsigned long long)t->expert_hits,
            (unsigned long long)t->expert_misses, 100 * r->hit_rate);
    add(&line, "read %s/token, stalled %.2f s", text_size((uint64_t)r->bytes_per_token, a), t->io_stall_s);
    add(&line, "peak %s of %s", text_size(t->peak_rss, a), text_size(t->budget, b));
    if (t->limit_decode_tps > 0)
        add(&line, "limit %.4g tok/s (%s), reached %.0f %%", t->limit_decode_tps, bound_name(t->limit_bound),
            100 * r->reached);
    if (t->draft_passes)
        add(&line, "drafts %llu of %llu accepted in %llu passes%s", (unsigned long long)t->draft_accepted,
            (unsigned long long)t->drafted, (unsigned long long)t->draft_passes, gain_text(t->draft_gain, a));
    add_lossy(&line, t);
    if (r->has_seed) add(&line, "seed %llu", (unsigned long long)r->seed);
    term_notice(&cli->term, "%s", line.p ? line.p : "");
    if (t->nonfinite_logits)
        term_notice(&cli->term, "%llu logits were no finite numbers and were never chosen: the file may be damaged",
                    (unsigned long long)t->nonfinite_logits);
    text_free(&line);
}

static void put_experts(Json *j, const ThimbleStats *t) {
    jout_key(j, "experts");
    jout_open(j, '{');
    jout_put_size(j, "hits", t->expert_hits);
    jout_put_size(j, "misses", t->expert_misses);
    jout_put_size(j, "lookahead_used", t->lookahead_used);
    jout_put_size(j, "lookahead_wasted", t->lookahead_wasted);
    jout_put_size(j, "slots", t->expert_slots);
    jout_put_size(j, "bytes_read", t->expert_bytes_read);
    jout_put_real(j, "stall_ms", t->expert_stall_s * 1e3);
    jout_close(j);
}

static void put_io_and_memory(Json *j, const Report *r) {
    const ThimbleStats *t = &r->stats;
    jout_key(j, "io");
    jout_open(j, '{');
    jout_put_size(j, "bytes_read", t->io_bytes_read);
    jout_put_real(j, "bytes_per_token", r->bytes_per_token);
    jout_put_text(j, "mode", t->io_mode);
    jout_put_text(j, "backend", t->io_backend);
    jout_put_real(j, "read_ms", t->io_read_s * 1e3);
    jout_put_real(j, "stall_ms", t->io_stall_s * 1e3);
    jout_close(j);
    jout_key(j, "memory");
    jout_open(j, '{');
    jout_put_size(j, "budget", t->budget);
    jout_put_size(j, "planned", t->planned);
    jout_put_size(j, "peak_rss", t->peak_rss);
    jout_put_size(j, "peak_anon", t->peak_anon);
    jout_close(j);
}

static void put_draft(Json *j, const ThimbleStats *t) {
    static const char *const name[] = {"auto", "off", "mtp", "lookup"};
    jout_key(j, "draft");
    jout_open(j, '{');
    jout_put_text(j, "mode", t->draft >= 0 && t->draft < 4 ? name[t->draft] : "off");
    jout_put_size(j, "passes", t->draft_passes);
    jout_put_size(j, "drafted", t->drafted);
    jout_put_size(j, "accepted", t->draft_accepted);
    jout_put_real(j, "accepted_per_pass", ratio((double)t->draft_accepted, (double)t->draft_passes));
    jout_put_real(j, "gain", t->draft_gain);
    jout_put_size(j, "wasted_rows", t->drafted - t->draft_accepted);
    jout_put_size(j, "watched", t->draft_watched);
    jout_put_real(j, "head_share", ratio((double)t->draft_bytes_moved, (double)t->decode_bytes_moved));
    jout_close(j);
}

static void put_limit_and_lossy(Json *j, const Report *r) {
    const ThimbleStats *t = &r->stats;
    jout_key(j, "limit");
    jout_open(j, '{');
    jout_put_text(j, "bound", bound_name(t->limit_bound));
    jout_put_real(j, "decode_tps", t->limit_decode_tps);
    jout_put_real(j, "reached", r->reached);
    jout_close(j);
    jout_key(j, "lossy");
    if (t->route_bias == 0 && !t->experts) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_real(j, "route_bias", (double)t->route_bias);
    jout_put_int(j, "experts", t->experts);
    jout_put_size(j, "picks_changed", t->picks_changed);
    jout_close(j);
}

void report_json(Json *j, const Report *r) {
    const ThimbleStats *t = &r->stats;
    jout_open(j, '{');
    jout_put_size(j, "prompt_tokens", t->prompt_tokens);
    jout_put_size(j, "cached_tokens", t->cached_tokens);
    jout_put_size(j, "generated_tokens", r->generated);
    jout_put_real(j, "prefill_tps", r->prefill_tps);
    jout_put_real(j, "decode_tps", r->decode_tps);
    jout_put_real(j, "ttft_ms", t->first_token_s * 1e3);
    jout_put_real(j, "load_ms", t->load_s * 1e3);
    jout_put_int(j, "threads", t->threads);
    jout_put_text(j, "isa", t->isa);
    jout_key(j, "seed");
    if (r->has_seed)
        jout_size(j, r->seed);
    else
        jout_null(j);
    put_experts(j, t);
    put_io_and_memory(j, r);
    put_draft(j, t);
    put_limit_and_lossy(j, r);
    jout_close(j);
}

void report_answer(Out *out, const Answer *a, const Report *r) {
    Json j;
    jout_begin(&j, out);
    jout_open(&j, '{');
    jout_key(&j, "text");
    jout_string(&j, a->text.p ? a->text.p : "", a->text.n);
    jout_key(&j, "tokens");
    jout_open(&j, '[');
    for (size_t i = 0; i < a->ids.n; i++) jout_int(&j, a->ids.id[i]);
    jout_close(&j);
    jout_put_text(&j, "finish", finish_name(a->finish));
    if (a->finish == FINISH_ERROR) jout_put_text(&j, "error", a->error.message);
    jout_key(&j, "stats");
    report_json(&j, r);
    jout_end(&j);
}
