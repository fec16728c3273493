/* options.h: every option of the program, from four places, into one struct.
 *
 * ONE table (options_table.c) drives the command-line flag, the THIMBLE_<NAME> variable, the key in thimble.ini and the
 * help, so the four cannot drift apart. The command line beats the environment, which beats the file. Values are
 * checked where they are read: a command sees numbers in range or does not run. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Verbs as bits, so that a row of the table can name several. */
enum {
    VERB_RUN = 1 << 0,
    VERB_CHAT = 1 << 1,
    VERB_INFO = 1 << 2,
    VERB_PLAN = 1 << 3,
    VERB_SCORE = 1 << 4,
    VERB_TOKENIZE = 1 << 5,
    VERB_DETOKENIZE = 1 << 6,
    VERB_BENCH = 1 << 7,
    VERB_VERSION = 1 << 8,
    VERB_HELP = 1 << 9,
    VERB_PERPLEXITY = 1 << 10,
    VERB_ALL = (1 << 11) - 1
};

enum { AUTO = 0, ON = 1, OFF = 2 }; /* of every choice "auto|on|off"; equal to THIMBLE_AUTO, _ON, _OFF */
enum { BENCH_MD = 0, BENCH_CSV, BENCH_JSON, BENCH_JSONL };
enum { TOP_ALL = -1, PREDICT_UNSET = -1, MAX_INTS = 32, MAX_STOPS = 16, MAX_OPTIONS = 64 };

typedef struct IntList {
    int value[MAX_INTS];
    int n;
} IntList;

typedef struct TextList {
    const char *value[MAX_STOPS];
    int n;
} TextList;

typedef struct Options {
    uint64_t ram, seed, cache_size; /* 0: auto */
    int ctx, threads, batch, predict, slots, checkpoints, experts, top_k, repeat_last_n, top, repetitions;
    int draft, draft_max;
    int stride, loops;
    /* choices, by position in the table's list */
    int home, lookahead, evict, cache_type, state_type, special, bos, color, output;
    double temp, top_p, min_p, repeat_penalty, route_bias;
    bool raw, json, quiet, verbose, cold, help, ignore_eog;
    const char *prompt, *file, *system, *tokens, *isa, *log_file, *check, *cache_dir, *kl_base;
    IntList n_prompt, n_gen;
    TextList stop;

    const char **args; /* what is not an option, in order */
    int n_args;
    unsigned char source[MAX_OPTIONS]; /* per row of the table: where its value came from */
    char **owned;                      /* copies of values from the file */
    int n_owned;
} Options;

enum { FROM_DEFAULT = 0, FROM_FILE, FROM_ENVIRONMENT, FROM_COMMAND_LINE };

typedef enum OptionType {
    OPT_FLAG,   /* bool; on the command line alone or as --name=on|off */
    OPT_INT,    /* int in low..high                                    */
    OPT_COUNT,  /* int like OPT_INT, or the word "all" (-1)            */
    OPT_SEED,   /* uint64_t                                            */
    OPT_REAL,   /* double in low..high, finite                         */
    OPT_SIZE,   /* uint64_t bytes, "8G"; "auto" is 0                   */
    OPT_TEXT,   /* const char *                                        */
    OPT_TEXTS,  /* TextList, may be given again                        */
    OPT_CHOICE, /* int, position in `choices`                          */
    OPT_INTS    /* IntList, comma-separated                            */
} OptionType;

typedef struct Option {
    const char *name; /* "top-k": --top-k, THIMBLE_TOP_K, key top-k */
    char letter;      /* 'k' for -k, 0 for none                    */
    unsigned verbs;
    OptionType type;
    size_t offset; /* in Options */
    double low, high;
    const char *choices, *arg, *help;
} Option;

extern const Option option_table[];
extern const int n_options;

/* Fills *o for one verb from the file, the environment and argv (without the verb). False: why[] says what is wrong.
 * With command_line_only the other two are not looked at, so that help and version work whatever stands there. */
bool options_read(Options *o, unsigned verb, int argc, char **argv, bool command_line_only, char *why, size_t why_size);
void options_free(Options *o);
/* Was this option given anywhere (not left at its default)? */
bool options_given(const Options *o, const char *name);
/* First THIMBLE_* variable that is no option, or NULL: worth a notice, a typo would be silent otherwise. */
const char *options_unknown_variable(void);

/* The single value readers, also used by tests and by lists of ids. */
bool options_parse_size(const char *text, uint64_t *bytes);
bool options_parse_int(const char *text, long low, long high, long *value);
#endif
