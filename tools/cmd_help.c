/* cmd_help.c: help out of the option table, and the welcome of a bare `thimble`. */
#include "cmd.h"

#include "common/text.h"

#include <string.h>
#include <unistd.h>

/* "  -c, --ctx N                help", the help wrapped at 110 columns. */
static void print_option(Out *out, const Option *d) {
    enum { MARGIN = 32, WIDTH = 110 };
    char left[96];
    int n = snprintf(left, sizeof left, "  %c%c%s --%s%s%s", d->letter ? '-' : ' ', d->letter ? d->letter : ' ',
                     d->letter ? "," : " ", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
    if (n > MARGIN - 2) {
        out_printf(out, "%s\n", left);
        left[0] = 0;
    }
    out_printf(out, "%-*s", MARGIN - 1, left);
    int column = MARGIN;
    for (const char *word = d->help; *word;) {
        int len = (int)strcspn(word, " ");
        if (column + len > WIDTH) {
            out_printf(out, "\n%*s", MARGIN - 1, "");
            column = MARGIN;
        }
        out_printf(out, " %.*s", len, word);
        column += len + 1;
        word += len + (word[len] == ' ');
    }
    out_string(out, "\n");
}

void help_verb(Cli *cli, const char *name, unsigned bit) {
    const Verb *v = verb_find(name);
    Out *out = &cli->out;
    out_printf(out, "thimble %s %s\n  %s\n\nOptions\n", v->name, v->usage, v->summary);
    for (int i = 0; i < n_options; i++)
        if (option_table[i].verbs & bit) print_option(out, &option_table[i]);
    if (!(bit & (VERB_HELP | VERB_VERSION)))
        out_string(out,
                   "\nEvery option is also THIMBLE_<NAME> in the environment and a key in\n"
                   "$XDG_CONFIG_HOME/thimble/thimble.ini; the command line beats the environment beats the file.\n");
}

int cmd_help(Cli *cli) {
    Out *out = &cli->out;
    if (cli->opt.n_args > 1) return usage_error(cli, "help takes one verb");
    if (cli->opt.n_args == 1) {
        const Verb *v = verb_find(cli->opt.args[0]);
        if (!v) return usage_error(cli, "unknown command '%s'", cli->opt.args[0]);
        help_verb(cli, v->name, v->bit);
        return EXIT_DONE;
    }
    out_string(out, "thimble: language models inside a memory budget\n\n");
    for (int i = 0; i < n_verbs; i++)
        out_printf(out, "  thimble %-10s %-42s %s\n", verb_table[i].name, verb_table[i].usage, verb_table[i].summary);
    out_string(out,
               "\nMODEL is a GGUF file, any shard of a split set, the folder of a set, or a name in the cache folder.\n"
               "`thimble help VERB` lists the options of a verb.\n\n"
               "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 model invalid or not supported, 4 budget too small,\n"
               "5 reading or writing failed, 130 interrupted, 143 terminated.\n");
    return EXIT_DONE;
}

int cmd_welcome(Cli *cli) {
    Out *out = &cli->out;
    const uint64_t memory = thimble_available_memory();
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char size[32];
    out_printf(out,
               "thimble %s: language models inside a memory budget\n\n"
               "  thimble run model.gguf \"Why is the sky blue?\"      answer once\n"
               "  thimble run big-moe.gguf --ram 4G -p \"Once upon\"   a model larger than the memory it gets\n"
               "  thimble chat model.gguf                            talk\n"
               "  thimble plan model.gguf --ram 2G                   what a budget buys\n\n",
               thimble_version());
    out_printf(out, "This machine: %s free for a model, %ld core%s, %s.\n", text_size(memory, size), cores,
               cores == 1 ? "" : "s", thimble_isa());
    /* A 4-bit file takes about 0.6 bytes a parameter; what does not fit streams or is paged from the disk. */
    out_printf(out,
               "It holds files up to about %s (some %.1f billion parameters at 4 bits) in memory;\n"
               "larger ones run from the disk, mixtures of experts best. `thimble help` lists the commands.\n",
               text_size(memory / 10 * 9, size), (double)memory * 0.9 / 0.6 / 1e9);
    return EXIT_DONE;
}
