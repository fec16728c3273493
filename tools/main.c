/* main.c: finds the verb, reads its options, runs it, and turns what happened to the streams into an exit code.
 *
 * Nothing of the engine is started before a command asks for it: `thimble version` answers in a few milliseconds. */
#include "cmd.h"

#include "common/json_out.h"
#include "common/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const Verb verb_table[] = {
    {"run", VERB_RUN, cmd_run, "MODEL [PROMPT | -p TEXT | -f FILE | -]", "answer once"},
    {"chat", VERB_CHAT, cmd_chat, "MODEL", "talk, line by line"},
    {"info", VERB_INFO, cmd_info, "MODEL", "what the file holds, and which kernel serves each tensor type"},
    {"plan", VERB_PLAN, cmd_plan, "MODEL", "what a budget buys: memory and speed"},
    {"score", VERB_SCORE, cmd_score, "MODEL (--tokens IDS | -p TEXT | -f FILE)", "log-probabilities of a text"},
    {"perplexity", VERB_PERPLEXITY, cmd_perplexity, "MODEL (-f FILE | -p TEXT | -)",
     "how well a model knows a text: bits per byte, divergence, loops"},
    {"tokenize", VERB_TOKENIZE, cmd_tokenize, "MODEL [TEXT | -p TEXT | -f FILE | -]", "text to token ids"},
    {"detokenize", VERB_DETOKENIZE, cmd_detokenize, "MODEL IDS | @FILE", "token ids to bytes"},
    {"bench", VERB_BENCH, cmd_bench, "MODEL", "speed, repeated"},
    {"version", VERB_VERSION, cmd_version, "", "the version"},
    {"help", VERB_HELP, cmd_help, "[VERB]", "this list, or the options of a verb"},
};
const int n_verbs = (int)(sizeof verb_table / sizeof *verb_table);

const Verb *verb_find(const char *name) {
    for (int i = 0; i < n_verbs; i++)
        if (!strcmp(verb_table[i].name, name)) return &verb_table[i];
    return NULL;
}

int usage_error(Cli *cli, const char *format, ...) {
    char why[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    term_error(&cli->term, "%s (see: thimble help%s%s)", why, cli->bit ? " " : "", cli->bit ? cli->verb : "");
    return EXIT_USAGE;
}

/* A descriptor 0..2 that is closed would be given to the next file opened: the model would become "standard output". A
 * read-only stand-in keeps the place and still makes writing fail. */
static void hold_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) < 0) return;
}

static int refuse_verb(Cli *cli, const char *name) {
    static const char *const later[] = {"serve", "quantize", "rewrite", "probe", "trace", "verify", "pull"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (strcmp(later[i], name) != 0) continue;
        term_error(&cli->term, "'%s' is not in this version yet; `thimble help` lists what is", name);
        return EXIT_USAGE;
    }
    return usage_error(cli, "unknown command '%s'", name);
}

/* Who asked for JSON gets JSON, also of a failure that came before there was anything to tell. */
static void put_failure(Cli *cli, int code) {
    Json j;
    if (!cli->opt.json || code == EXIT_DONE || cli->out.begun) return;
    jout_begin(&j, &cli->out);
    jout_open(&j, '{');
    jout_put_text(&j, "error", cli->term.last_error[0] ? cli->term.last_error : "interrupted");
    jout_put_int(&j, "exit", code);
    jout_end(&j);
}

/* What is left in the buffer goes out; a reader that left is a clean end, a full disk is not. */
static int close_streams(Cli *cli, int code) {
    put_failure(cli, code);
    out_flush(&cli->out);
    if (out_reader_left(&cli->out))
        code = signals_stop() ? code : EXIT_DONE;
    else if (out_lost(&cli->out)) {
        term_error(&cli->term, "standard output: %s", strerror(cli->out.error));
        code = EXIT_IO;
    }
    if (!term_close(&cli->term) && code == EXIT_DONE) code = EXIT_IO;
    options_free(&cli->opt);
    return code;
}

static int run_verb(Cli *cli, const Verb *v, int argc, char **argv) {
    char why[640];
    bool plain = v->bit & (VERB_HELP | VERB_VERSION);
    cli->verb = v->name;
    cli->bit = v->bit;
    if (!options_read(&cli->opt, v->bit, argc, argv, plain, why, sizeof why)) {
        for (int i = 0; i < argc; i++) cli->opt.json |= !strcmp(argv[i], "--json"); /* it may stand behind the fault */
        return usage_error(cli, "%s", why);
    }
    if (cli->opt.help) {
        help_verb(cli, v->name, v->bit);
        return EXIT_DONE;
    }
    if (!term_open(&cli->term, &cli->opt, why, sizeof why)) {
        term_error(&cli->term, "%s", why);
        return EXIT_IO;
    }
    const char *stray = plain ? NULL : options_unknown_variable();
    if (stray)
        term_notice(&cli->term, "%.*s in the environment is no option and is ignored", (int)strcspn(stray, "="), stray);
    /* `thimble run "$UNSET"`: the cache folder itself would answer to that name. */
    if (!plain && cli->opt.n_args > 0 && !cli->opt.args[0][0]) return usage_error(cli, "MODEL is empty");
    return v->run(cli);
}

int main(int argc, char **argv) {
    static Cli cli; /* static for its size: an output buffer lies inside */
    int code;
    hold_streams();
    signals_install();
    out_open(&cli.out, STDOUT_FILENO);
    if (argc < 2) return close_streams(&cli, cmd_welcome(&cli));
    const char *name = argv[1];
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) name = "version";
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) name = "help";
    const Verb *v = verb_find(name);
    code = v ? run_verb(&cli, v, argc - 2, argv + 2) : refuse_verb(&cli, name);
    return close_streams(&cli, code);
}
