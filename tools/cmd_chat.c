/* cmd_chat.c: `thimble chat`: a plain talk loop.
 *
 * The timeline is one growing list of ids; each turn appends to it and the session evaluates only what is new. A turn
 * that does not fit is taken back, so the talk goes on from where it was. */
#include "cmd.h"

#include "common/generate.h"
#include "common/keep.h"
#include "common/lines.h"
#include "common/load.h"
#include "common/prompt.h"
#include "common/report.h"
#include "common/signals.h"

#include <string.h>

typedef struct Chat {
    Cli *cli;
    ThimbleModel *model;
    ThimbleSession *session;
    Keep keep;
    Lines *lines;
    PromptForm form;
    Ids timeline;
    ThimbleSampler sampler;
    uint64_t generated;
    double heard_at, first_token_s; /* of the last turn: from its line to the first token of its answer */
} Chat;

typedef enum Turn { TURN_GO_ON, TURN_END } Turn;

/* A line with its tokens comes out of what the plan leaves to the program. */
static size_t line_most(const Cli *cli) {
    enum { LINE_SHARE = 64, LINE_LEAST = 64 << 10 };
    size_t most = prompt_most(cli, LINE_SHARE);
    return most < LINE_LEAST ? LINE_LEAST : most;
}

static void say_full(Chat *c) {
    term_notice(&c->cli->term, "the context of %d tokens is full: /reset starts anew, -c N gives more room",
                thimble_model_info(c->model)->context);
}

/* Evaluates the new turn; false if it cannot be answered. */
static bool hear(Chat *c, const char *text, size_t n, int *code) {
    ThimbleError e = {0};
    const size_t before = c->timeline.n;
    c->heard_at = term_now();
    bool fine = before == 0 || prompt_close_answer(c->model, c->form, &c->timeline, &e);
    fine = fine && prompt_turn(c->cli, c->model, c->form, before == 0, text, n, &c->timeline, &e);
    if (fine && c->timeline.n == before) return false; /* nothing in it */
    if (fine) keep_find(&c->keep, c->session, &c->timeline);
    fine = fine && thimble_session_sync(c->session, c->timeline.id, c->timeline.n, &e) == THIMBLE_OK;
    if (fine) {
        keep_prompt(&c->keep, c->session);
        return true;
    }
    c->timeline.n = before;
    if (e.code == THIMBLE_E_CONTEXT_FULL)
        say_full(c);
    else if (e.code == THIMBLE_E_BUDGET) /* a text of one piece, too long to be split beside the weights */
        term_notice(&c->cli->term, "%s: say it in shorter parts", e.message);
    else if (e.code != THIMBLE_E_CANCELLED || !signals_stop())
        *code = load_failed(c->cli, &e);
    return false;
}

/* What the session counts from the model's opening holds the time that the user took to write. */
static void make_report(Chat *c, Report *r, uint64_t generated) {
    report_make(r, c->session, generated);
    r->stats.first_token_s = c->first_token_s;
    r->seed = c->sampler.seed;
}

/* Answers; the tokens that were fed back belong to the timeline from now on. */
static void reply(Chat *c, int *code) {
    Answer a = {0};
    const bool json = c->cli->opt.json;
    generate(c->cli, c->model, c->session, &c->sampler, c->cli->opt.predict, !json, &a);
    if (a.first_at > 0) c->first_token_s = a.first_at - c->heard_at;
    if (json) {
        Report report;
        make_report(c, &report, c->generated + a.ids.n);
        report.has_seed = true;
        report_answer(&c->cli->out, &a, &report);
    } else {
        out_string(&c->cli->out, "\n");
    }
    out_flush(&c->cli->out);
    c->generated += a.ids.n;
    if (!ids_append(&c->timeline, a.ids.id, a.ids.n)) a.finish = FINISH_ERROR;
    if (a.finish == FINISH_CONTEXT) say_full(c);
    if (a.finish == FINISH_ERROR) *code = load_failed(c->cli, &a.error);
    answer_free(&a);
}

static void say_help(Chat *c) {
    term_notice(&c->cli->term, "/reset forgets the talk, /save NAME and /load NAME keep it, /exit (or the end of "
                               "input) leaves, Ctrl-C ends an answer");
}

/* What the last answer ended with has not been evaluated yet. */
static bool save_talk(Chat *c, const char *path, ThimbleError *e) {
    if (thimble_session_length(c->session) < c->timeline.n &&
        thimble_session_sync(c->session, c->timeline.id, c->timeline.n, e) != THIMBLE_OK && signals_stop())
        return false;
    return thimble_session_save_file(c->session, path, e) == THIMBLE_OK;
}

static bool load_talk(Chat *c, const char *path, ThimbleError *e) {
    if (thimble_session_load_file(c->session, path, e) != THIMBLE_OK) return false;
    c->timeline.n = 0;
    return ids_append(&c->timeline, thimble_session_tokens(c->session), thimble_session_length(c->session));
}

/* "/save NAME" and "/load NAME"; the talk goes on whatever becomes of it. n is the whole line's length. */
static void save_or_load(Chat *c, bool save, const char *line, size_t n) {
    Term *term = &c->cli->term;
    char name[256] = "", path[4096];
    ThimbleError e = {0};
    const char *begin = line + 5 + strspn(line + 5, " \t");
    size_t len = strcspn(begin, " \t\r");
    if (len < sizeof name) memcpy(name, begin, len), name[len] = 0;
    if (strlen(line) != n || begin[len + strspn(begin + len, " \t\r")] || !keep_is_name(name)) {
        term_notice(term, "%.5s takes one NAME of letters, digits, '.', '_' and '-', at most 64 long", line);
        return;
    }
    if (save && c->timeline.n == 0) {
        term_notice(term, "there is nothing to save yet");
        return;
    }
    if (!keep_path(c->cli, name, save, path, sizeof path)) return;
    if (save ? save_talk(c, path, &e) : load_talk(c, path, &e))
        term_notice(term, save ? "saved: %zu tokens as %s" : "loaded: %zu tokens from %s",
                    thimble_session_length(c->session), path);
    else
        term_notice(term, "%s: %s", save ? "not saved" : "not loaded", e.message);
}

static Turn take_line(Chat *c, const Text *line, int *code) {
    const char *s = line->p ? line->p : "";
    if (s[strspn(s, " \t\r")] == 0) return TURN_GO_ON; /* nothing said */
    if (!strcmp(s, "/exit") || !strcmp(s, "/quit")) return TURN_END;
    if (!strcmp(s, "/help")) {
        say_help(c);
        return TURN_GO_ON;
    }
    bool save = !strncmp(s, "/save", 5), load = !strncmp(s, "/load", 5);
    if ((save || load) && strchr(" \t\r", s[5])) { /* the NUL, too */
        save_or_load(c, save, s, line->n);
        return TURN_GO_ON;
    }
    if (!strcmp(s, "/reset")) {
        keep_talk(&c->keep, c->session);
        c->timeline.n = 0;
        term_notice(&c->cli->term, "forgotten");
        return TURN_GO_ON;
    }
    if (hear(c, s, line->n, code)) reply(c, code);
    return *code == EXIT_DONE ? TURN_GO_ON : TURN_END;
}

/* Ctrl-C during an answer has ended that answer; at the prompt it leaves, as does SIGTERM anywhere. */
static bool should_leave(Chat *c, int *code) {
    if (out_lost(&c->cli->out)) return true;
    if (!signals_stop()) return false;
    if (lines_interactive(c->lines) && !signals_terminated()) {
        signals_forget_interrupt();
        return false;
    }
    *code = signals_exit_code();
    return true;
}

static int talk(Chat *c) {
    Text line = {0};
    char size[32];
    int code = EXIT_DONE;
    bool leaving = false;
    for (;;) {
        LineKind kind = lines_next(c->lines, &line);
        if (kind == LINE_INTERRUPTED && lines_interactive(c->lines) && !signals_terminated() && !leaving) {
            leaving = true; /* once drops the line, twice leaves */
            signals_forget_interrupt();
            fputc('\n', stderr); /* the editor's line is still open */
            term_notice(&c->cli->term, "Ctrl-C again leaves");
            continue;
        }
        if (kind == LINE_INTERRUPTED) {
            code = signals_exit_code();
            break;
        }
        leaving = false;
        if (kind == LINE_FAILED) {
            term_error(&c->cli->term, "standard input cannot be read");
            code = EXIT_IO;
            break;
        }
        if (kind == LINE_TOO_LONG) {
            term_notice(&c->cli->term, "a line of more than %s is too long and left out",
                        text_size(line_most(c->cli), size));
            continue;
        }
        if (kind == LINE_END || take_line(c, &line, &code) == TURN_END || should_leave(c, &code)) break;
    }
    text_free(&line);
    return code;
}

static int start(Chat *c) {
    Cli *cli = c->cli;
    Need need = {0};
    if (cli->opt.n_args > 1) return usage_error(cli, "chat takes one MODEL; what you say comes from standard input");
    int code = load_model(cli, &need, &c->model);
    if (code == EXIT_DONE) code = load_session(cli, c->model, &c->session);
    if (code != EXIT_DONE) return code;
    c->lines = lines_open("> ", line_most(cli));
    if (!c->lines) return EXIT_FAILED;
    keep_open(&c->keep, cli, c->model);
    c->form = prompt_form(cli, c->model, true);
    prompt_say_form(cli, c->model, c->form);
    sampler_from_options(&cli->opt, &c->sampler);
    if (lines_interactive(c->lines)) say_help(c);
    return EXIT_DONE;
}

int cmd_chat(Cli *cli) {
    Chat c = {.cli = cli};
    Report report;
    int code = start(&c);
    if (code == EXIT_DONE) {
        code = talk(&c);
        keep_talk(&c.keep, c.session);
        make_report(&c, &report, c.generated);
        report.has_seed = c.sampler.temperature > 0;
        if (c.generated) report_closing_line(cli, &report);
    }
    lines_close(c.lines);
    keep_close(&c.keep);
    thimble_session_close(c.session);
    thimble_model_close(c.model);
    ids_free(&c.timeline);
    return code;
}
