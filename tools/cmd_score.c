/* cmd_score.c: `thimble score`: how likely a text is, token by token.
 *
 * Steps are written as they are computed: with `--top all` one step holds as many numbers as the vocabulary has words,
 * and only one is ever in memory. After an error the document is still closed, with "error" in it. */
#include "cmd.h"

#include "common/json_out.h"
#include "common/load.h"
#include "common/logprob.h"
#include "common/prompt.h"
#include "common/report.h"
#include "common/signals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Score {
    Cli *cli;
    Text text;
    Ids ids;
    ThimbleModel *model;
    ThimbleSession *session;
    Json json;
    Top top;
    size_t n_top;
    double next; /* ln p of the coming token; NAN before the first */
    double sum;  /* of what was printed */
    size_t n_summed;
} Score;

static bool tokenize(Score *sc, ThimbleModel *m, ThimbleError *e) {
    sc->ids.n = 0;
    const int special = sc->cli->opt.special == ON ? THIMBLE_TOK_SPECIAL : 0;
    return prompt_tokenize(m, sc->text.p ? sc->text.p : "", sc->text.n, special | THIMBLE_TOK_NO_EOS, &sc->ids, e);
}

static bool count_tokens(void *arg, ThimbleModel *vocabulary, size_t *n, ThimbleError *e) {
    Score *sc = arg;
    if (!tokenize(sc, vocabulary, e)) return false;
    *n = sc->ids.n;
    return true;
}

static int read_input(Score *sc) {
    Cli *cli = sc->cli;
    if (!cli->opt.tokens) return prompt_read(cli, &sc->text);
    if (cli->opt.n_args > 1 || cli->opt.prompt || cli->opt.file)
        return usage_error(cli, "the text is given twice: as --tokens, and as TEXT, -p or -f");
    int code = prompt_ids(cli, cli->opt.tokens, "--tokens: ", &sc->ids);
    return code == EXIT_DONE ? load_charge(cli, sc->ids.cap * sizeof *sc->ids.id, "the tokens") : code;
}

static int prepare(Score *sc) {
    Cli *cli = sc->cli;
    ThimbleError e = {0};
    char why[128];
    const bool given = cli->opt.tokens != NULL;
    Need need = {.upper = given ? sc->ids.n : sc->text.n + 16, .count = given ? NULL : count_tokens, .arg = sc};
    int code = load_model(cli, &need, &sc->model);
    if (code != EXIT_DONE) return code;
    const ThimbleModelInfo *info = thimble_model_info(sc->model);
    if (given && !ids_check(&sc->ids, info->n_vocab, why, sizeof why)) return usage_error(cli, "%s", why);
    if (!given && !tokenize(sc, sc->model, &e)) return load_failed(cli, &e);
    if (!sc->ids.n) return usage_error(cli, "there is nothing to score");
    sc->n_top = cli->opt.top == TOP_ALL || !cli->opt.json ? 0 : (size_t)cli->opt.top;
    if (sc->n_top > (size_t)info->n_vocab) sc->n_top = (size_t)info->n_vocab;
    sc->top.id = calloc(sc->n_top + 1, sizeof *sc->top.id);
    if (!sc->top.id) return EXIT_FAILED;
    return load_session(cli, sc->model, &sc->session);
}

static void put_step(Score *sc, size_t at, const float *logits, size_t n, double total) {
    Json *j = &sc->json;
    jout_open(j, '{');
    jout_put_size(j, "pos", at);
    jout_put_int(j, "token", sc->ids.id[at]);
    jout_key(j, "logprob");
    jout_exact(j, sc->next);
    jout_key(j, "top");
    jout_open(j, '[');
    if (sc->cli->opt.top == TOP_ALL) {
        for (size_t i = 0; i < n && !out_lost(&sc->cli->out); i++)
            jout_pair(j, (int32_t)i, logprob_of(logits, n, total, (int32_t)i));
    } else {
        logprob_top(logits, n, sc->n_top, &sc->top);
        for (size_t i = 0; i < sc->top.n; i++) jout_pair(j, sc->top.id[i], logprob_of(logits, n, total, sc->top.id[i]));
    }
    jout_close(j);
    jout_close(j);
}

static void print_line(Score *sc, size_t at) {
    char raw[256], text[600];
    int32_t id = sc->ids.id[at];
    size_t n = thimble_token_bytes(sc->model, id, true, raw, sizeof raw);
    text_printable(raw, n < sizeof raw ? n : sizeof raw, false, text, sizeof text);
    out_printf(&sc->cli->out, "%zu\t%d\t%s\t", at, id, text);
    if (isfinite(sc->next))
        out_printf(&sc->cli->out, "%.9g\n", sc->next);
    else
        out_string(&sc->cli->out, at ? "-inf\n" : "-\n");
}

static int on_row(void *arg, size_t at, const float *logits, size_t n) {
    Score *sc = arg;
    if (signals_stop() || out_lost(&sc->cli->out)) return 1;
    const double total = logprob_total(logits, n);
    if (sc->cli->opt.json)
        put_step(sc, at, logits, n, total);
    else
        print_line(sc, at);
    if (at && isfinite(sc->next)) {
        sc->sum += sc->next;
        sc->n_summed++;
    }
    if (at + 1 < sc->ids.n) sc->next = logprob_of(logits, n, total, sc->ids.id[at + 1]);
    return 0;
}

static int score(Score *sc) {
    Cli *cli = sc->cli;
    Json *j = &sc->json;
    ThimbleError e = {0};
    Report report;
    if (cli->opt.json) {
        jout_begin(j, &cli->out);
        jout_open(j, '{');
        jout_put_int(j, "n_vocab", thimble_model_info(sc->model)->n_vocab);
        jout_key(j, "steps");
        jout_open(j, '[');
    }
    sc->next = NAN;
    int failed = thimble_session_score(sc->session, sc->ids.id, sc->ids.n, on_row, sc, &e) != THIMBLE_OK;
    report_make(&report, sc->session, 0);
    if (cli->opt.json) {
        while (j->depth > 1) jout_close(j);
        if (failed) jout_put_text(j, "error", e.message);
        jout_key(j, "stats");
        report_json(j, &report);
        jout_end(j);
    }
    out_flush(&cli->out);
    if (out_lost(&cli->out)) return EXIT_DONE;
    if (failed) return load_failed(cli, &e);
    if (sc->n_summed)
        term_notice(&cli->term, "mean ln p %.6g over %zu tokens", sc->sum / (double)sc->n_summed, sc->n_summed);
    report_closing_line(cli, &report);
    return EXIT_DONE;
}

int cmd_score(Cli *cli) {
    Score sc = {.cli = cli};
    if (cli->opt.n_args < 1) return usage_error(cli, "score needs a MODEL");
    int code = read_input(&sc);
    if (code == EXIT_DONE) code = prepare(&sc);
    if (code == EXIT_DONE) code = score(&sc);
    thimble_session_close(sc.session);
    thimble_model_close(sc.model);
    free(sc.top.id);
    ids_free(&sc.ids);
    text_free(&sc.text);
    return code;
}
