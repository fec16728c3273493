/* cmd_perplexity.c: `thimble perplexity`: how good a model is, in three figures.
 *
 *   bits per byte   compares models whatever their tokenisers; perplexity and ln p beside it
 *   divergence      from a base (--kl-base), which sees what a changed cache, quantisation or lossy option does
 *   loops           (--loops) how many free answers fall into repetition, which neither of the others can see
 *
 * The text is read in windows of -c tokens, each with BOS where the file's rule says so. Windows advance by half of
 * their size and count only what the window before did not reach and what has at least half a window before it: no
 * token is judged by a model that has just begun to read, except for those of the first window. Logits come row by row
 * and go; what grows with the text is its ids and, when comparing, one float a token. Both are taken off --ram. */
#include "cmd.h"

#include "common/generate.h"
#include "common/kl_base.h"
#include "common/load.h"
#include "common/logprob.h"
#include "common/loops.h"
#include "common/prompt.h"
#include "common/report.h"
#include "common/signals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_WINDOW = 512, DEFAULT_PREDICT = 512, SNIPPET = 32 };

/* A running mean and its spread. */
typedef struct Mean {
    double n, mean, squares;
} Mean;

/* Text tokens [first, end) are read, [from, end) are counted. */
typedef struct Window {
    size_t first, end, from;
} Window;

typedef struct Loops {
    Ids periods; /* of the answers that loop */
    size_t answers, ended, tokens;
    uint64_t seed;
} Loops;

typedef struct Perplexity {
    Cli *cli;
    Ids ids; /* the text, without BOS */
    size_t window, stride, predict;
    bool bos;
    ThimbleModel *model;
    ThimbleSession *session;
    int32_t *sequence; /* [window] */
    size_t counted, n_done, bytes;
    Mean loss; /* -ln p */
    size_t impossible;
    KlBase base;
    bool has_base, broken; /* broken: the base could not be written or read */
    KlResult base_result;
    float *divergence; /* [counted] when comparing */
    Mean kl, difference;
    size_t n_kl, same_top;
    Window now;
    Loops loops;
} Perplexity;

static void mean_add(Mean *m, double x) {
    const double before = x - m->mean;
    m->n++;
    m->mean += before / m->n;
    m->squares += before * (x - m->mean);
}

static double mean_error(const Mean *m) { return m->n > 1 ? sqrt(m->squares / (m->n - 1) / m->n) : 0; }

/* ---- windows ---- */

/* The window after `w` (first: w->end == 0); false: there is none. */
static bool next_window(const Perplexity *p, Window *w) {
    const size_t bos = p->bos, body = p->window - bos;
    const bool is_first = w->end == 0;
    if (w->end == p->ids.n) return false;
    const size_t covered = w->end;
    w->first = is_first ? 0 : w->first + p->stride;
    w->end = p->ids.n - w->first < body ? p->ids.n : w->first + body;
    const size_t half = w->first + p->window / 2 - bos;
    w->from = is_first ? !p->bos : covered > half ? covered : half;
    if (w->from > w->end) w->from = w->end;
    return true;
}

static size_t count_tokens(const Perplexity *p) {
    Window w = {0};
    size_t n = 0;
    while (next_window(p, &w)) n += w.end - w.from;
    return n;
}

/* ---- a row ---- */

static int compare(Perplexity *p, const float *logits, double total, int32_t token) {
    KlRow row = {0};
    p->base_result = kl_row(&p->base, logits, total, token, &row);
    if (p->base_result != KL_FINE) {
        p->broken = true;
        return 1;
    }
    if (kl_writes(&p->base)) return 0;
    p->divergence[p->n_kl++] = (float)row.divergence;
    mean_add(&p->kl, row.divergence);
    if (isfinite(row.difference)) mean_add(&p->difference, row.difference);
    p->same_top += row.same_top;
    return 0;
}

static int on_row(void *arg, size_t at, const float *logits, size_t n) {
    Perplexity *p = arg;
    if (signals_stop()) return 1;
    const int32_t token = p->ids.id[p->now.from + at];
    const double total = logprob_total(logits, n), lnp = logprob_of(logits, n, total, token);
    if (isfinite(lnp)) mean_add(&p->loss, -lnp);
    else p->impossible++;
    p->bytes += thimble_token_bytes(p->model, token, true, NULL, 0);
    p->n_done++;
    if (term_progress(&p->cli->term, TERM_PHASE_MEASURE, p->n_done, p->counted) != 0) return 1;
    return p->has_base ? compare(p, logits, total, token) : 0;
}

/* Rows before the first counted token's need no logits: they are evaluated only. */
static int read_window(Perplexity *p, ThimbleError *e) {
    const Window *w = &p->now;
    const size_t bos = p->bos, n = w->end - w->first, skip = w->from - w->first + bos - 1;
    if (w->from == w->end) return THIMBLE_OK;
    if (bos) p->sequence[0] = thimble_model_info(p->model)->bos;
    memcpy(p->sequence + bos, p->ids.id + w->first, n * sizeof *p->sequence);
    int code = thimble_session_rewind(p->session, 0, e);
    if (code == THIMBLE_OK && skip) code = thimble_session_eval(p->session, p->sequence, skip, e);
    if (code != THIMBLE_OK) return code;
    return thimble_session_score(p->session, p->sequence + skip, w->end - w->from, on_row, p, e);
}

static int base_failed(Perplexity *p, KlResult r) {
    if (r == KL_FINE) return EXIT_DONE;
    term_error(&p->cli->term, "%s", p->base.why);
    return r == KL_IO ? EXIT_IO : EXIT_FAILED;
}

static int measure(Perplexity *p, ThimbleError *e) {
    int code = THIMBLE_OK;
    term_progress(&p->cli->term, TERM_PHASE_MEASURE, 0, p->counted);
    while (code == THIMBLE_OK && next_window(p, &p->now)) {
        if (signals_stop()) {
            e->code = code = THIMBLE_E_CANCELLED;
            break;
        }
        code = read_window(p, e);
    }
    if (p->broken) return base_failed(p, p->base_result);
    return code == THIMBLE_OK ? EXIT_DONE : load_failed(p->cli, e);
}

/* ---- free answers ---- */

static int answer_once(Perplexity *p, size_t i, ThimbleSampler sampler) {
    Cli *cli = p->cli;
    Loops *l = &p->loops;
    Answer a = {0};
    Ids prompt = {0};
    const size_t n = p->ids.n < SNIPPET ? p->ids.n : SNIPPET, many = (size_t)cli->opt.loops;
    const size_t at = (size_t)((double)i * (double)(p->ids.n - n) / (double)many);
    const int32_t bos = thimble_model_info(p->model)->bos;
    int code = EXIT_DONE;
    sampler.seed += i;
    if (!ids_append(&prompt, &bos, p->bos) || !ids_append(&prompt, p->ids.id + at, n)) {
        code = EXIT_FAILED;
    } else if (thimble_session_sync(p->session, prompt.id, prompt.n, &a.error) != THIMBLE_OK) {
        code = load_failed(cli, &a.error);
    } else {
        generate(cli, p->model, p->session, &sampler, (int)p->predict, false, &a);
        if (a.finish == FINISH_ERROR) code = load_failed(cli, &a.error);
        if (signals_stop()) code = signals_exit_code();
    }
    if (code == EXIT_DONE) {
        size_t kept = a.ids.n;
        if (kept && thimble_token_is_eog(p->model, a.ids.id[kept - 1]) && !cli->opt.ignore_eog) kept--;
        const int32_t period = (int32_t)loop_period(a.ids.id, kept);
        if (period && !ids_append(&l->periods, &period, 1)) code = EXIT_FAILED;
        l->answers++;
        l->ended += a.finish == FINISH_STOP;
        l->tokens += a.ids.n;
    }
    ids_free(&prompt);
    answer_free(&a);
    return code;
}

static int answer_all(Perplexity *p) {
    ThimbleSampler sampler;
    const uint64_t many = (uint64_t)p->cli->opt.loops;
    int code = EXIT_DONE;
    if (!many) return EXIT_DONE;
    sampler_from_options(&p->cli->opt, &sampler);
    p->loops.seed = sampler.seed;
    for (uint64_t i = 0; i < many && code == EXIT_DONE; i++) {
        term_progress(&p->cli->term, TERM_PHASE_ANSWER, i, many);
        code = answer_once(p, i, sampler);
    }
    term_progress(&p->cli->term, TERM_PHASE_ANSWER, many, many);
    return code;
}

/* ---- what came of it ---- */

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double quantile(const Perplexity *p, double q) {
    return (double)p->divergence[(size_t)(q * (double)(p->n_kl - 1) + 0.5)];
}

static double bits_per_byte(const Perplexity *p, double loss) {
    return p->bytes ? loss * (double)p->n_done / (log(2) * (double)p->bytes) : 0;
}

/* A token that the model rules out makes both infinite; JSON has null for that. */
static double mean_loss(const Perplexity *p) { return p->impossible ? INFINITY : p->loss.mean; }

static void put_kl(Perplexity *p, Json *j) {
    jout_key(j, "kl");
    if (!p->n_kl) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_size(j, "rows", p->n_kl);
    jout_put_real(j, "mean", p->kl.mean);
    jout_put_real(j, "error", mean_error(&p->kl));
    jout_put_real(j, "median", quantile(p, 0.5));
    jout_put_real(j, "p90", quantile(p, 0.9));
    jout_put_real(j, "p99", quantile(p, 0.99));
    jout_put_real(j, "max", quantile(p, 1));
    jout_put_real(j, "same_top", (double)p->same_top / (double)p->n_kl);
    jout_put_real(j, "logprob_difference", p->difference.mean);
    jout_put_real(j, "logprob_difference_error", mean_error(&p->difference));
    jout_close(j);
}

static void put_loops(Perplexity *p, Json *j) {
    const Loops *l = &p->loops;
    jout_key(j, "loops");
    if (!p->cli->opt.loops) {
        jout_null(j);
        return;
    }
    jout_open(j, '{');
    jout_put_size(j, "answers", l->answers);
    jout_put_size(j, "looping", l->periods.n);
    jout_put_real(j, "share", l->answers ? (double)l->periods.n / (double)l->answers : 0);
    jout_key(j, "periods");
    jout_open(j, '[');
    for (size_t i = 0; i < l->periods.n; i++) jout_int(j, l->periods.id[i]);
    jout_close(j);
    jout_put_size(j, "ended", l->ended);
    jout_put_size(j, "tokens", l->tokens);
    jout_put_size(j, "predict", p->predict);
    jout_put_size(j, "seed", l->seed);
    jout_close(j);
}

static void put_json(Perplexity *p, const Report *report) {
    Json j;
    jout_begin(&j, &p->cli->out);
    jout_open(&j, '{');
    jout_put_int(&j, "n_vocab", thimble_model_info(p->model)->n_vocab);
    jout_put_size(&j, "window", p->window);
    jout_put_size(&j, "stride", p->stride);
    jout_put_bool(&j, "bos", p->bos);
    jout_put_size(&j, "tokens", p->ids.n);
    jout_put_size(&j, "counted", p->n_done);
    jout_put_size(&j, "bytes", p->bytes);
    jout_put_real(&j, "bits_per_byte", bits_per_byte(p, mean_loss(p)));
    jout_put_real(&j, "bits_per_byte_error", bits_per_byte(p, mean_error(&p->loss)));
    jout_put_real(&j, "perplexity", exp(mean_loss(p)));
    jout_put_real(&j, "perplexity_error", exp(mean_loss(p)) * mean_error(&p->loss));
    jout_put_real(&j, "mean_logprob", -mean_loss(p));
    put_kl(p, &j);
    put_loops(p, &j);
    jout_key(&j, "stats");
    report_json(&j, report);
    jout_end(&j);
}

static void print_text(Perplexity *p) {
    Out *out = &p->cli->out;
    const double loss = mean_loss(p), error = mean_error(&p->loss);
    const Loops *l = &p->loops;
    out_printf(out, "tokens         %zu of %zu counted, %zu bytes; windows of %zu every %zu%s\n", p->n_done, p->ids.n,
               p->bytes, p->window, p->stride, p->bos ? ", each after BOS" : "");
    out_printf(out, "bits per byte  %.5g +- %.2g\n", bits_per_byte(p, loss), bits_per_byte(p, error));
    out_printf(out, "perplexity     %.6g +- %.2g\n", exp(loss), exp(loss) * error);
    if (p->n_kl) {
        out_printf(out, "KL from base   mean %.4g +- %.2g, median %.4g, 90 %% %.4g, 99 %% %.4g, max %.4g\n", p->kl.mean,
                   mean_error(&p->kl), quantile(p, 0.5), quantile(p, 0.9), quantile(p, 0.99), quantile(p, 1));
        out_printf(out, "same best      %.4g %% of tokens; ln p %+.4g +- %.2g on average\n",
                   100 * (double)p->same_top / (double)p->n_kl, p->difference.mean, mean_error(&p->difference));
    }
    if (p->cli->opt.loops) {
        out_printf(out, "loops          %zu of %zu answers (%.4g %%) end in repetition", l->periods.n, l->answers,
                   l->answers ? 100 * (double)l->periods.n / (double)l->answers : 0);
        for (size_t i = 0; i < l->periods.n; i++)
            out_printf(out, i ? ", %d" : "; periods %d", l->periods.id[i]);
        out_printf(out, "\n");
    }
}

static void report(Perplexity *p) {
    Cli *cli = p->cli;
    Report r;
    report_make(&r, p->session, p->loops.tokens);
    r.has_seed = cli->opt.loops && cli->opt.temp > 0;
    r.seed = p->loops.seed;
    if (p->n_kl) qsort(p->divergence, p->n_kl, sizeof *p->divergence, by_size);
    if (cli->opt.json) put_json(p, &r);
    else print_text(p);
    out_flush(&cli->out);
    if (out_lost(&cli->out)) return;
    if (p->impossible)
        term_notice(&cli->term, "%zu tokens of the text have p = 0 for this model", p->impossible);
    report_closing_line(cli, &r);
}

/* ---- getting ready ---- */

/* The text becomes ids before the model is opened: what they take comes off the budget. */
static int read_text(Perplexity *p) {
    Cli *cli = p->cli;
    Text text = {0};
    ThimbleModel *vocabulary = NULL;
    ThimbleError e = {0};
    const int flags = THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS | (cli->opt.special == ON ? THIMBLE_TOK_SPECIAL : 0);
    int code = prompt_read(cli, &text);
    if (code == EXIT_DONE) code = load_part(cli, THIMBLE_LOAD_VOCAB, &vocabulary);
    if (code == EXIT_DONE && !prompt_tokenize(vocabulary, text.p ? text.p : "", text.n, flags, &p->ids, &e))
        code = load_failed(cli, &e);
    if (code == EXIT_DONE) {
        const ThimbleModelInfo *info = thimble_model_info(vocabulary);
        const size_t trained = info->trained_context > 0 ? (size_t)info->trained_context : SIZE_MAX;
        p->bos = info->add_bos && info->bos >= 0;
        if (p->window > trained) {
            if (cli->opt.ctx) term_notice(&cli->term, "windows are lowered to the model's %zu tokens", trained);
            p->window = trained;
        }
        if (cli->opt.loops && p->predict + SNIPPET + p->bos > trained)
            p->predict = trained > SNIPPET + 1 + (size_t)p->bos ? trained - SNIPPET - p->bos : 1;
    }
    thimble_model_close(vocabulary);
    text_free(&text);
    prompt_gone(cli);
    return code;
}

static int check_sizes(Perplexity *p) {
    Cli *cli = p->cli;
    if (p->window < 2) return usage_error(cli, "a window has at least 2 tokens: -c %zu is too small", p->window);
    p->stride = cli->opt.stride ? (size_t)cli->opt.stride : p->window / 2;
    if (p->stride > p->window - p->bos)
        return usage_error(cli, "--stride %zu would leave out tokens between windows of %zu%s", p->stride, p->window,
                           p->bos ? " with BOS" : "");
    p->counted = count_tokens(p);
    if (!p->counted) return usage_error(cli, "a text of %zu tokens leaves nothing to measure", p->ids.n);
    return EXIT_DONE;
}

static int stop_when_asked(void *arg, int phase, uint64_t done, uint64_t total) {
    (void)arg, (void)phase, (void)done, (void)total;
    return signals_stop();
}

static int open_model(Perplexity *p) {
    Cli *cli = p->cli;
    ThimbleSessionOptions so;
    ThimbleError e = {0};
    Need need = {.upper = p->window};
    size_t context = p->window, answer = SNIPPET + p->bos + p->predict;
    if (cli->opt.loops && answer > context) context = answer;
    const uint64_t own = p->ids.cap * sizeof *p->ids.id + p->window * sizeof *p->sequence +
                         (cli->opt.kl_base ? p->counted * sizeof *p->divergence : 0);
    cli->opt.ctx = (int)context;
    int code = load_charge(cli, own, "the text's tokens");
    if (code == EXIT_DONE) code = load_model(cli, &need, &p->model);
    if (code != EXIT_DONE) return code;
    p->sequence = malloc(p->window * sizeof *p->sequence);
    if (!p->sequence) return EXIT_FAILED;
    thimble_session_options_init(&so);
    so.progress = (ThimbleProgress){stop_when_asked, NULL};
    return thimble_session_open(&p->session, p->model, &so, &e) == THIMBLE_OK ? EXIT_DONE : load_failed(cli, &e);
}

static int open_base(Perplexity *p) {
    const int32_t bos = p->bos ? thimble_model_info(p->model)->bos : -1;
    if (!p->cli->opt.kl_base) return EXIT_DONE;
    const KlHeader want = {.n_vocab = (uint32_t)thimble_model_info(p->model)->n_vocab,
                           .window = (uint32_t)p->window,
                           .stride = (uint32_t)p->stride,
                           .n_tokens = p->ids.n,
                           .n_rows = p->counted,
                           .hash = kl_hash(kl_hash(0, &bos, 1), p->ids.id, p->ids.n)};
    p->has_base = true;
    int code = base_failed(p, kl_open(&p->base, p->cli->opt.kl_base, &want));
    if (code != EXIT_DONE || kl_writes(&p->base)) return code;
    p->divergence = malloc(p->counted * sizeof *p->divergence);
    return p->divergence ? EXIT_DONE : EXIT_FAILED;
}

static int finish_base(Perplexity *p, int code) {
    if (!p->has_base) return code;
    const bool written = kl_writes(&p->base);
    const int failed = base_failed(p, kl_close(&p->base, code == EXIT_DONE));
    if (code == EXIT_DONE && !failed && written)
        term_notice(&p->cli->term, "%zu rows written to %s: give it again to compare", p->n_done, p->cli->opt.kl_base);
    return code == EXIT_DONE ? failed : code;
}

static int prepare(Perplexity *p) {
    ThimblePlan plan;
    int code = load_plan(p->cli, &plan); /* a hopeless budget is refused before the tokenizer is built */
    if (code == EXIT_DONE && !plan.fits) code = load_refuse(p->cli, &plan);
    if (code == EXIT_DONE) code = read_text(p);
    if (code == EXIT_DONE) code = check_sizes(p);
    if (code == EXIT_DONE) code = open_model(p);
    return code == EXIT_DONE ? open_base(p) : code;
}

int cmd_perplexity(Cli *cli) {
    const Options *o = &cli->opt;
    ThimbleError e = {0};
    Perplexity *p = calloc(1, sizeof *p);
    if (!p) return EXIT_FAILED;
    p->cli = cli;
    p->window = o->ctx ? (size_t)o->ctx : DEFAULT_WINDOW;
    p->predict = o->predict == PREDICT_UNSET ? DEFAULT_PREDICT : (size_t)o->predict;
    int code = o->n_args < 1 ? usage_error(cli, "perplexity needs a MODEL") : prepare(p);
    if (code == EXIT_DONE) code = measure(p, &e);
    code = finish_base(p, code);
    if (code == EXIT_DONE) code = answer_all(p);
    if (code == EXIT_DONE) report(p);
    thimble_session_close(p->session);
    thimble_model_close(p->model);
    ids_free(&p->loops.periods);
    ids_free(&p->ids);
    free(p->sequence);
    free(p->divergence);
    free(p);
    return code;
}
