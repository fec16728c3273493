/* cmd_run.c: `thimble run`: one prompt, one answer. */
#include "cmd.h"

#include "common/generate.h"
#include "common/keep.h"
#include "common/load.h"
#include "common/prompt.h"
#include "common/report.h"
#include "common/signals.h"

#include <string.h>

enum { DEFAULT_PREDICT = 256, TEMPLATE_ROOM = 64 };

typedef struct Run {
    Cli *cli;
    Text text;
    Ids prompt;
    PromptForm form;
    int predict;
    ThimbleModel *model;
    ThimbleSession *session;
    Keep keep;
    Answer answer;
} Run;

static bool build_prompt(Run *r, ThimbleModel *m, ThimbleError *e) {
    r->prompt.n = 0;
    r->form = prompt_form(r->cli, m, false);
    /* `echo question | thimble run M -`: the line's end is no part of the question. */
    size_t n = r->text.n;
    if (r->form == PROMPT_CHATML && n && r->text.p[n - 1] == '\n') n--;
    return prompt_turn(r->cli, m, r->form, true, r->text.p ? r->text.p : "", n, &r->prompt, e);
}

static bool count_prompt(void *arg, ThimbleModel *vocabulary, size_t *n, ThimbleError *e) {
    Run *r = arg;
    if (!build_prompt(r, vocabulary, e)) return false;
    *n = r->prompt.n;
    return true;
}

static int prepare(Run *r) {
    Cli *cli = r->cli;
    ThimbleError e = {0};
    const size_t system = cli->opt.system ? strlen(cli->opt.system) : 128;
    /* A token is at least a byte of text, but for BOS, a space in front and the form's own tokens. */
    Need need = {
        .upper = r->text.n + system + TEMPLATE_ROOM, .room = (size_t)r->predict, .count = count_prompt, .arg = r};
    int code = load_model(cli, &need, &r->model);
    if (code != EXIT_DONE) return code;
    if (!build_prompt(r, r->model, &e)) return load_failed(cli, &e);
    if (!r->prompt.n) return usage_error(cli, "the prompt is empty");
    prompt_say_form(cli, r->model, r->form);
    prompt_say_ids(cli, r->model, r->text.p ? r->text.p : "", r->text.n, &r->prompt);
    return load_session(cli, r->model, &r->session);
}

static int exit_code_of(Run *r) {
    Cli *cli = r->cli;
    switch (r->answer.finish) {
    case FINISH_ERROR:
        return load_failed(cli, &r->answer.error);
    case FINISH_STOPPED_BY_USER:
        return signals_stop() ? signals_exit_code() : EXIT_DONE;
    case FINISH_CONTEXT:
        term_notice(&cli->term, "the context of %d tokens is full: -c N gives more room",
                    thimble_model_info(r->model)->context);
        return EXIT_DONE;
    default:
        return EXIT_DONE;
    }
}

static int answer(Run *r) {
    Cli *cli = r->cli;
    ThimbleSampler sampler;
    Report report;
    sampler_from_options(&cli->opt, &sampler);
    keep_find(&r->keep, r->session, &r->prompt);
    if (thimble_session_sync(r->session, r->prompt.id, r->prompt.n, &r->answer.error) != THIMBLE_OK) {
        bool stopped = r->answer.error.code == THIMBLE_E_CANCELLED && signals_stop();
        r->answer.finish = stopped ? FINISH_STOPPED_BY_USER : FINISH_ERROR;
    } else {
        keep_prompt(&r->keep, r->session);
        generate(cli, r->model, r->session, &sampler, r->predict, !cli->opt.json, &r->answer);
    }
    report_make(&report, r->session, r->answer.ids.n);
    report.has_seed = true;
    report.seed = sampler.seed;
    if (cli->opt.json)
        report_answer(&cli->out, &r->answer, &report);
    else if (r->answer.ids.n)
        out_string(&cli->out, "\n");
    out_flush(&cli->out);
    if (out_lost(&cli->out)) return EXIT_DONE; /* main says what has to be said */
    report.has_seed = sampler.temperature > 0;
    report_closing_line(cli, &report);
    return exit_code_of(r);
}

int cmd_run(Cli *cli) {
    Run r = {.cli = cli, .predict = cli->opt.predict == PREDICT_UNSET ? DEFAULT_PREDICT : cli->opt.predict};
    if (cli->opt.n_args < 1) return usage_error(cli, "run needs a MODEL");
    int code = prompt_read(cli, &r.text);
    if (code == EXIT_DONE) code = prepare(&r);
    if (code == EXIT_DONE) {
        keep_open(&r.keep, cli, r.model);
        code = answer(&r);
    }
    keep_close(&r.keep);
    thimble_session_close(r.session);
    thimble_model_close(r.model);
    answer_free(&r.answer);
    ids_free(&r.prompt);
    text_free(&r.text);
    return code;
}
