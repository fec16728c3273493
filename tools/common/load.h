/* load.h: from options to an opened model: plan first, refuse early, then load.
 *
 * A budget below the floor is refused from the file's header alone, in milliseconds. The tokenizer is built before the
 * weights only when the context has to be lowered and the prompt's true length decides how far. */
#ifndef TOOLS_LOAD_H
#define TOOLS_LOAD_H

#include "cmd.h"

/* Exit code for a failed call of the library; says the error. */
int load_failed(Cli *cli, const ThimbleError *e);
/* MODEL as a path: itself, or a name in the cache folder. The result is path[] or `name`. */
const char *load_resolve(const char *name, char *path, size_t size);
/* Options of the command line as options of the library. */
void load_options(Cli *cli, ThimbleModelOptions *mo);

/* Takes what the program itself holds off --ram, so that the engine plans with the rest; little things lie in the
 * plan's reserve. Returns an exit code; says it if nothing is left. */
int load_charge(Cli *cli, uint64_t bytes, const char *what);

/* How many tokens a session must hold. `upper` is a bound that costs nothing to know; `count` (may be NULL) finds the
 * true number with the tokenizer. `room` tokens come on top (--predict). */
typedef struct Need {
    size_t upper, room;
    bool (*count)(void *arg, ThimbleModel *vocabulary, size_t *n, ThimbleError *e);
    void *arg;
} Need;

/* Opens the model of the command's first argument with a context that fits; *m is NULL on failure. Returns an exit
 * code. */
int load_model(Cli *cli, const Need *need, ThimbleModel **m);
/* Opens only the vocabulary, or only the description, of the first argument. */
int load_part(Cli *cli, int part, ThimbleModel **m);
/* The plan for the first argument as the options stand. */
int load_plan(Cli *cli, ThimblePlan *p);
/* Says that a plan does not fit: both numbers and the nearest setting that does. Returns EXIT_BUDGET. */
int load_refuse(Cli *cli, const ThimblePlan *p);
/* Opens one session; progress goes to the terminal. */
int load_session(Cli *cli, ThimbleModel *m, ThimbleSession **s);
#endif
