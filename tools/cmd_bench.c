/* cmd_bench.c: `thimble bench`: prefill and decode, timed apart, each repeated.
 *
 * The prompt is random but the same every time. Prefill of P tokens starts from nothing; decode of N tokens feeds one
 * token a pass, from nothing as well (what llama-bench calls pp P and tg N). Speed without the right result is worth
 * nothing, so each prefill also yields a checksum of its logits, which --check compares: equal inputs give equal bits.
 */
#include "cmd.h"

#include "common/ids.h"
#include "common/json_out.h"
#include "common/load.h"
#include "common/report.h"
#include "common/signals.h"
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REPETITIONS = 1000 };

typedef struct Row {
    int n_prompt, n_gen;
    double samples[MAX_REPETITIONS];
    int n_samples;
    double average, deviation, bytes_per_token, hit_rate, reached;
    uint64_t peak_rss, checksum;
} Row;

typedef struct Bench {
    Cli *cli;
    ThimbleModel *model;
    Ids tokens;
    Row row;
    char type[160];
    bool json_started;
    Json json;
} Bench;

/* ---- measuring ---- */

static bool fill_tokens(Bench *b, size_t n, int n_vocab) {
    uint64_t x = 0x243F6A8885A308D3u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        int32_t id = (int32_t)(x % (uint64_t)n_vocab);
        if (!ids_append(&b->tokens, &id, 1)) return false;
    }
    return true;
}

static bool drop_caches(Cli *cli) {
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    bool fine = fd >= 0 && write(fd, "3", 1) == 1;
    if (!fine) term_error(&cli->term, "--cold: the system's caches cannot be dropped: %s", strerror(errno));
    if (fd >= 0) close(fd);
    return fine;
}

/* FNV-1a over the bits of the logits. */
static uint64_t checksum_of(const float *logits, size_t n) {
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        for (int k = 0; k < 4; k++) {
            h ^= bits >> (8 * k) & 0xFF;
            h *= 0x100000001B3u;
        }
    }
    return h;
}

/* With guesses, the tokens have to be the model's own: the likeliest ones after the first. */
static int run_guessing(Bench *b, ThimbleSession *s, int n_gen, ThimbleError *e) {
    ThimbleSampler sampler;
    thimble_sampler_init(&sampler);
    sampler.temperature = 0;
    int code = thimble_session_sync(s, b->tokens.id, 1, e);
    size_t n = 0;
    for (int done = 0; code == THIMBLE_OK && done < n_gen && !signals_stop(); done += (int)n) {
        int32_t token[16];
        int left = n_gen - done;
        code = thimble_session_next(s, &sampler, token, left < 16 ? (size_t)left : 16, &n, e);
    }
    if (code == THIMBLE_OK && signals_stop()) code = e->code = THIMBLE_E_CANCELLED;
    return code;
}

static int run_once(Bench *b, ThimbleSession *s, int n_prompt, int n_gen, ThimbleError *e) {
    int code = thimble_session_rewind(s, 0, e);
    if (code == THIMBLE_OK && n_prompt) return thimble_session_sync(s, b->tokens.id, (size_t)n_prompt, e);
    int draft = b->cli->opt.draft;
    if (code == THIMBLE_OK && (draft == THIMBLE_DRAFT_MTP || draft == THIMBLE_DRAFT_LOOKUP))
        return run_guessing(b, s, n_gen, e);
    for (int i = 0; code == THIMBLE_OK && i < n_gen; i++) {
        if (signals_stop()) {
            e->code = THIMBLE_E_CANCELLED;
            return e->code;
        }
        code = thimble_session_eval(s, &b->tokens.id[i], 1, e);
    }
    return code;
}

static void summarise(Row *r, const ThimbleStats *before, const ThimbleStats *after) {
    double sum = 0, squares = 0, tokens = (double)(r->n_prompt + r->n_gen) * r->n_samples;
    for (int i = 0; i < r->n_samples; i++) sum += r->samples[i];
    r->average = r->n_samples ? sum / r->n_samples : 0;
    for (int i = 0; i < r->n_samples; i++) squares += (r->samples[i] - r->average) * (r->samples[i] - r->average);
    r->deviation = r->n_samples > 1 ? sqrt(squares / (r->n_samples - 1)) : 0;
    double hits = (double)(after->expert_hits - before->expert_hits),
           misses = (double)(after->expert_misses - before->expert_misses);
    r->hit_rate = hits + misses > 0 ? hits / (hits + misses) : 0;
    r->bytes_per_token = tokens > 0 ? (double)(after->io_bytes_read - before->io_bytes_read) / tokens : 0;
    r->peak_rss = after->peak_rss;
}

static void get_stats(const ThimbleSession *s, ThimbleStats *out) {
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    thimble_session_stats(s, out);
}

static int measure(Bench *b, int n_prompt, int n_gen) {
    Cli *cli = b->cli;
    Row *r = &b->row;
    ThimbleSession *s = NULL;
    ThimbleError e = {0};
    ThimbleStats before, after;
    *r = (Row){.n_prompt = n_prompt, .n_gen = n_gen};
    int code = load_session(cli, b->model, &s);
    if (code != EXIT_DONE) return code;
    int failed = cli->opt.cold ? 0 : run_once(b, s, n_prompt < 32 ? n_prompt : 32, n_gen ? 1 : 0, &e); /* warm up */
    get_stats(s, &before);
    while (!failed && r->n_samples < cli->opt.repetitions) {
        if (cli->opt.cold && !drop_caches(cli)) {
            code = EXIT_FAILED;
            break;
        }
        double start = term_now();
        failed = run_once(b, s, n_prompt, n_gen, &e);
        double took = term_now() - start;
        if (!failed) r->samples[r->n_samples++] = took > 0 ? (n_prompt + n_gen) / took : 0;
    }
    size_t n_vocab;
    const float *logits = thimble_session_logits(s, &n_vocab);
    if (logits) r->checksum = checksum_of(logits, n_vocab);
    get_stats(s, &after);
    Report whole; /* what was reached is of the same passes as the limit: all of the session's */
    report_make(&whole, s, 0);
    r->reached = n_gen ? whole.reached : 0;
    thimble_session_close(s);
    if (failed) return load_failed(cli, &e);
    summarise(r, &before, &after);
    return code;
}

/* ---- rows ---- */

static void put_fields(Bench *b) {
    const ThimbleModelInfo *info = thimble_model_info(b->model);
    const Row *r = &b->row;
    Json *j = &b->json;
    char sum[24];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)r->checksum);
    jout_open(j, '{');
    jout_put_text(j, "model_filename", info->path);
    jout_put_text(j, "model_type", b->type);
    jout_put_size(j, "model_size", info->file_bytes);
    jout_put_size(j, "model_n_params", info->n_params);
    jout_put_text(j, "isa", info->isa);
    jout_put_int(j, "n_batch", info->batch);
    jout_put_int(j, "n_threads", info->threads);
    jout_put_int(j, "n_prompt", r->n_prompt);
    jout_put_int(j, "n_gen", r->n_gen);
    jout_put_real(j, "avg_ts", r->average);
    jout_put_real(j, "stddev_ts", r->deviation);
    jout_key(j, "samples_ts");
    jout_open(j, '[');
    for (int i = 0; i < r->n_samples; i++) jout_real(j, r->samples[i]);
    jout_close(j);
    jout_put_real(j, "bytes_per_token", r->bytes_per_token);
    jout_put_real(j, "hit_rate", r->hit_rate);
    jout_put_size(j, "peak_rss", r->peak_rss);
    jout_put_real(j, "reached", r->reached);
    jout_put_text(j, "logits_checksum", sum);
    jout_put_bool(j, "cold", b->cli->opt.cold);
    jout_close(j);
}

/* A CSV field in quotes, quotes doubled. */
static void put_quoted(Out *out, const char *s) {
    out_write(out, "\"", 1);
    for (; *s; s++) out_write(out, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
    out_write(out, "\"", 1);
}

static void put_csv(Bench *b, bool first) {
    const ThimbleModelInfo *info = thimble_model_info(b->model);
    const Row *r = &b->row;
    Out *out = &b->cli->out;
    if (first)
        out_string(out, "model_filename,model_type,model_size,model_n_params,n_threads,n_prompt,n_gen,avg_ts,stddev_ts,"
                        "samples_ts,bytes_per_token,hit_rate,peak_rss,reached,logits_checksum\n");
    put_quoted(out, info->path);
    out_write(out, ",", 1);
    put_quoted(out, b->type);
    out_printf(out, ",%llu,%llu,%d,%d,%d,%.6g,%.6g,\"", (unsigned long long)info->file_bytes,
               (unsigned long long)info->n_params, info->threads, r->n_prompt, r->n_gen, r->average, r->deviation);
    for (int i = 0; i < r->n_samples; i++) out_printf(out, i ? ",%.6g" : "%.6g", r->samples[i]);
    out_printf(out, "\",%.6g,%.6g,%llu,%.6g,%016llx\n", r->bytes_per_token, r->hit_rate,
               (unsigned long long)r->peak_rss, r->reached, (unsigned long long)r->checksum);
}

static void put_md(Bench *b, bool first) {
    const ThimbleModelInfo *info = thimble_model_info(b->model);
    const Row *r = &b->row;
    Out *out = &b->cli->out;
    char size[32], read[32], peak[32], test[32], reached[16] = "-";
    if (first)
        out_string(out, "| model | size | params | threads | test | t/s | read/token | hits | peak | reached |\n"
                        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    snprintf(test, sizeof test, r->n_gen ? "tg%d" : "pp%d", r->n_gen ? r->n_gen : r->n_prompt);
    if (r->reached > 0) snprintf(reached, sizeof reached, "%.0f %%", 100 * r->reached);
    out_printf(out, "| %s | %s | %.2f B | %d | %s | %.2f ± %.2f | %s | %.1f %% | %s | %s |\n", b->type,
               text_size(info->file_bytes, size), (double)info->n_params / 1e9, info->threads, test, r->average,
               r->deviation, text_size((uint64_t)r->bytes_per_token, read), 100 * r->hit_rate,
               text_size(r->peak_rss, peak), reached);
}

static void put_row(Bench *b, bool first) {
    Cli *cli = b->cli;
    switch (cli->opt.output) {
    case BENCH_CSV:
        put_csv(b, first);
        break;
    case BENCH_JSONL:
        jout_begin(&b->json, &cli->out);
        put_fields(b);
        jout_end(&b->json);
        break;
    case BENCH_JSON:
        if (first) {
            jout_begin(&b->json, &cli->out);
            jout_open(&b->json, '[');
        }
        put_fields(b);
        break;
    default:
        put_md(b, first);
    }
    out_flush(&cli->out);
}

/* ---- the command ---- */

/* A slow path must not hide: types served by the plain C kernels on a machine that has better. */
static void name_fallbacks(Bench *b) {
    const ThimbleModelInfo *info = thimble_model_info(b->model);
    for (size_t i = 0; i < info->n_types; i++) {
        const char *origin = info->types[i].origin;
        size_t n = origin ? strlen(origin) : 0;
        if (n > 2 && !strcmp(origin + n - 2, "_c") && strcmp(info->isa, "c") != 0)
            term_notice(&b->cli->term, "%s runs on the plain C kernel (%s): there is no faster one for it yet",
                        info->types[i].name, origin);
    }
}

static void name_type(Bench *b) {
    const ThimbleModelInfo *info = thimble_model_info(b->model);
    char raw[160];
    double n = (double)info->n_params;
    snprintf(raw, sizeof raw, n < 1e9 ? "%s %.0fM %s" : "%s %.1fB %s", info->architecture, n < 1e9 ? n / 1e6 : n / 1e9,
             info->file_type ? info->file_type : "unknown type");
    text_printable(raw, strlen(raw), false, b->type, sizeof b->type);
}

static int check(Bench *b, bool first) {
    char sum[24];
    if (!first || !b->cli->opt.check) return EXIT_DONE;
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)b->row.checksum);
    if (!strcmp(sum, b->cli->opt.check)) return EXIT_DONE;
    term_error(&b->cli->term, "the logits have the checksum %s, not %s: the result is not what it was", sum,
               b->cli->opt.check);
    return EXIT_FAILED;
}

static int measure_all(Bench *b) {
    const Options *o = &b->cli->opt;
    int code = EXIT_DONE;
    bool first = true;
    for (int k = 0; k < o->n_prompt.n + o->n_gen.n; k++) {
        bool is_prompt = k < o->n_prompt.n;
        int n = is_prompt ? o->n_prompt.value[k] : o->n_gen.value[k - o->n_prompt.n];
        if (n == 0) continue;
        code = measure(b, is_prompt ? n : 0, is_prompt ? 0 : n);
        if (code != EXIT_DONE) break;
        put_row(b, first);
        code = check(b, first);
        first = false;
        if (code != EXIT_DONE || out_lost(&b->cli->out)) break;
    }
    if (o->output == BENCH_JSON && !first) jout_end(&b->json);
    return code;
}

static int longest_test(const Options *o) {
    int longest = 0;
    for (int i = 0; i < o->n_prompt.n; i++) longest = o->n_prompt.value[i] > longest ? o->n_prompt.value[i] : longest;
    for (int i = 0; i < o->n_gen.n; i++) longest = o->n_gen.value[i] > longest ? o->n_gen.value[i] : longest;
    return longest;
}

int cmd_bench(Cli *cli) {
    Options *o = &cli->opt;
    const int longest = longest_test(o);
    if (o->n_args > 1) return usage_error(cli, "bench takes one MODEL");
    if (!longest) return usage_error(cli, "nothing to measure: -p and -n are both 0");
    if (o->json) o->output = BENCH_JSON;
    Bench *b = calloc(1, sizeof *b);
    if (!b) return EXIT_FAILED;
    b->cli = cli;
    Need need = {.upper = (size_t)longest};
    int code = load_model(cli, &need, &b->model);
    if (code == EXIT_DONE && !fill_tokens(b, (size_t)longest, thimble_model_info(b->model)->n_vocab))
        code = EXIT_FAILED;
    if (code == EXIT_DONE) {
        name_type(b);
        name_fallbacks(b);
        if (o->cold) term_notice(&cli->term, "the system's caches are dropped before each repetition");
        code = measure_all(b);
    }
    thimble_model_close(b->model);
    ids_free(&b->tokens);
    free(b);
    return code;
}
