/* keep.h: what outlives a process: the store of evaluated prompts (--cache-dir) and talks that were saved by name.
 *
 * Neither may stand in the way: a folder that cannot be used is said once and the work goes on without it. */
#ifndef TOOLS_KEEP_H
#define TOOLS_KEEP_H

#include "cmd.h"
#include "common/ids.h"

typedef struct Keep {
    Cli *cli;
    ThimbleStore *store; /* NULL: none asked for, or it failed */
    uint64_t evaluated;  /* prompt tokens of the session when keep_find was last called */
} Keep;

void keep_open(Keep *k, Cli *cli, ThimbleModel *m);
void keep_close(Keep *k);
/* Before a sync to ids. */
void keep_find(Keep *k, ThimbleSession *s, const Ids *ids);
/* After it: keeps the session if much of the prompt had to be evaluated. */
void keep_prompt(Keep *k, ThimbleSession *s);
/* At the end of a talk: keeps it anyway. */
void keep_talk(Keep *k, ThimbleSession *s);

/* A name for a talk: letters, digits, '.', '_' and '-', beginning with a letter or digit; at most 64. */
bool keep_is_name(const char *name);
/* Where the talk of that name lies: in --cache-dir if given, else in $XDG_STATE_HOME/thimble or ~/.local/state/thimble.
 * With `make` the folder is made. False: said why. */
bool keep_path(Cli *cli, const char *name, bool make, char *path, size_t size);
#endif
