/* cmd.h: what every command gets, and the commands.
 *
 * The program is a client: thimble.h and libraries, nothing of src/. A command returns its exit code; main() has read
 * the options, opened the streams and installed the signals before, and flushes and closes after. */
#ifndef TOOLS_CMD_H
#define TOOLS_CMD_H

#include "common/options.h"
#include "common/out.h"
#include "common/term.h"
#include "thimble/thimble.h"

/* Exit codes that scripts rely on (docs: thimble(1)). */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_MODEL = 3,
    EXIT_BUDGET = 4,
    EXIT_IO = 5,
    EXIT_INTERRUPTED = 130,
    EXIT_TERMINATED = 143
};

typedef struct Cli {
    const char *verb;
    unsigned bit;
    Options opt;
    uint64_t charged; /* bytes that the program holds itself, taken off opt.ram */
    Term term;
    Out out;
} Cli;

int cmd_run(Cli *cli);
int cmd_chat(Cli *cli);
int cmd_info(Cli *cli);
int cmd_plan(Cli *cli);
int cmd_score(Cli *cli);
int cmd_perplexity(Cli *cli);
int cmd_tokenize(Cli *cli);
int cmd_detokenize(Cli *cli);
int cmd_bench(Cli *cli);
int cmd_version(Cli *cli);
int cmd_help(Cli *cli);

/* `thimble` alone: four examples and what this machine can hold. */
int cmd_welcome(Cli *cli);
/* The help of one verb, to standard output. */
void help_verb(Cli *cli, const char *verb, unsigned bit);
/* Says what is wrong and where the help is; returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int usage_error(Cli *cli, const char *format, ...);

typedef struct Verb {
    const char *name;
    unsigned bit;
    int (*run)(Cli *cli);
    const char *usage, *summary;
} Verb;
extern const Verb verb_table[];
extern const int n_verbs;
const Verb *verb_find(const char *name);
#endif
