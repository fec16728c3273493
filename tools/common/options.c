/* options.c: reading options from the file, the environment and the command line.
 *
 * Each source is read in turn, weakest first, and a value is written only if no stronger source set it before: so the
 * three may be read in any order, and lists are replaced by the stronger source, not mixed. */
#include "common/options.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

typedef struct Reader {
    Options *o;
    unsigned verb;
    char *why;
    size_t why_size;
    bool failed;
    const char *path; /* of the file, for its messages */
} Reader;

__attribute__((format(printf, 2, 3))) static bool refuse(Reader *r, const char *format, ...) {
    if (r->failed) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, r->why_size, format, args);
    va_end(args);
    r->failed = true;
    return false;
}

/* ---- values ---- */

bool options_parse_int(const char *text, long low, long high, long *value) {
    if (!isdigit((unsigned char)text[0]) && text[0] != '-') return false;
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < low || v > high) return false;
    *value = v;
    return true;
}

static bool parse_real(const char *text, double low, double high, double *value) {
    char *end;
    if (isspace((unsigned char)text[0])) return false;
    double v = strtod(text, &end); /* 1e400 gives inf, "nan" a NaN: neither passes the range */
    if (end == text || *end || !isfinite(v) || v < low || v > high) return false;
    *value = v;
    return true;
}

static bool parse_seed(const char *text, uint64_t *value) {
    char *end;
    if (!isdigit((unsigned char)text[0])) return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end || errno) return false;
    *value = v;
    return true;
}

bool options_parse_size(const char *text, uint64_t *bytes) {
    static const char units[] = "KMGTP";
    char *end;
    if (!isdigit((unsigned char)text[0])) return false;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    double scale = 1;
    if (unit) {
        for (const char *u = units; u <= unit; u++) scale *= 1024;
        end++;
        if (*end == 'i' && (end[1] == 'B' || end[1] == 'b')) end++;
        if (*end == 'B' || *end == 'b') end++;
    }
    v *= scale;
    if (*end || !isfinite(v) || v < 1 || v >= 9.2e18) return false;
    *bytes = (uint64_t)v;
    return true;
}

static bool parse_choice(const char *choices, const char *text, int *value) {
    size_t len = strlen(text);
    int position = 0;
    for (const char *c = choices;; position++) {
        size_t n = strcspn(c, "|");
        if (n == len && !memcmp(c, text, n)) {
            *value = position;
            return true;
        }
        if (!c[n]) return false;
        c += n + 1;
    }
}

static bool parse_ints(const char *text, long low, long high, IntList *list) {
    IntList l = {.n = 0};
    for (const char *c = text;;) {
        char part[32];
        size_t n = strcspn(c, ",");
        long v;
        if (n == 0 || n >= sizeof part || l.n == MAX_INTS) return false;
        memcpy(part, c, n);
        part[n] = 0;
        if (!options_parse_int(part, low, high, &v)) return false;
        l.value[l.n++] = (int)v;
        if (!c[n]) break;
        c += n + 1;
    }
    *list = l;
    return true;
}

static bool parse_flag(const char *text, bool *value) {
    static const char *const yes[] = {"1", "on", "true", "yes"}, *const no[] = {"0", "off", "false", "no", ""};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!strcmp(text, yes[i])) return *value = true, true;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (!strcmp(text, no[i])) return *value = false, true;
    return false;
}

/* What a value of this option may be, in words, for the refusal. */
static const char *describe(const Option *d, char *buf, size_t size) {
    switch (d->type) {
    case OPT_FLAG:
        return "on or off";
    case OPT_SEED:
        return "a whole number from 0 to 2^64-1";
    case OPT_SIZE:
        return "a size like 8G, 900M or a number of bytes, or auto";
    case OPT_CHOICE:
        return d->arg[0] && strchr(d->arg, '|') ? d->arg : d->choices;
    case OPT_TEXTS:
        return "a text of at least one byte (16 of them at most)";
    case OPT_TEXT:
        return "a text";
    case OPT_REAL:
        snprintf(buf, size, "a number from %g to %g", d->low, d->high);
        return buf;
    case OPT_COUNT:
        return "a whole number or all";
    case OPT_INT:
        snprintf(buf, size, "a whole number from %.0f to %.0f", d->low, d->high);
        return buf;
    case OPT_INTS:
        snprintf(buf, size, "whole numbers from %.0f to %.0f, with commas", d->low, d->high);
        return buf;
    }
    return "";
}

static bool add_text(TextList *list, const char *text) {
    if (!text[0] || list->n == MAX_STOPS) return false;
    list->value[list->n++] = text;
    return true;
}

static bool store_int(int *to, const char *text, double low, double high) {
    long v;
    if (!options_parse_int(text, (long)low, (long)high, &v)) return false;
    *to = (int)v;
    return true;
}

/* Writes a value into its field; false if it is not one. */
static bool store(Options *o, const Option *d, const char *text) {
    union {
        char *raw;
        bool *flag;
        int *integer;
        uint64_t *wide;
        double *real;
        const char **text;
        IntList *ints;
        TextList *texts;
    } at = {.raw = (char *)o + d->offset};
    switch (d->type) {
    case OPT_FLAG:
        return parse_flag(text, at.flag);
    case OPT_COUNT:
        if (!strcmp(text, "all")) return *at.integer = TOP_ALL, true;
        return store_int(at.integer, text, d->low, d->high);
    case OPT_INT:
        return store_int(at.integer, text, d->low, d->high);
    case OPT_SEED:
        return parse_seed(text, at.wide);
    case OPT_REAL:
        return parse_real(text, d->low, d->high, at.real);
    case OPT_SIZE:
        if (!strcmp(text, "auto")) return *at.wide = 0, true;
        return options_parse_size(text, at.wide);
    case OPT_TEXT:
        return *at.text = text, true;
    case OPT_TEXTS:
        return add_text(at.texts, text);
    case OPT_CHOICE:
        return parse_choice(d->choices, text, at.integer);
    case OPT_INTS:
        return parse_ints(text, (long)d->low, (long)d->high, at.ints);
    }
    return false;
}

/* A value for row `d` from a source. `where` names the source as the user wrote it. Rows of other verbs are checked too
 * (a typo in the file should not wait for the verb that needs it) but leave no trace. */
static bool take(Reader *r, const Option *d, const char *text, int source, const char *where) {
    Options *o = r->o, other;
    const ptrdiff_t row = d - option_table;
    char buf[96];
    bool mine = (d->verbs & r->verb) != 0;
    if (mine && o->source[row] > source) mine = false;
    if (mine && d->type == OPT_TEXTS && o->source[row] < source) {
        union {
            char *raw;
            TextList *texts;
        } at = {.raw = (char *)o + d->offset};
        at.texts->n = 0;
    }
    if (!mine) {
        other = *o;
        o = &other;
    }
    if (!store(o, d, text)) return refuse(r, "%s: '%s' is not %s", where, text, describe(d, buf, sizeof buf));
    if (mine) o->source[row] = (unsigned char)source;
    return true;
}

/* ---- the file ---- */

static bool same_name(const char *name, const char *key) {
    for (; *name && *key; name++, key++) {
        char k = *key == '_' ? '-' : (char)tolower((unsigned char)*key);
        if (k != *name) return false;
    }
    return !*name && !*key;
}

static const Option *find_row(const char *key) {
    for (int i = 0; i < n_options; i++)
        if (same_name(option_table[i].name, key)) return &option_table[i];
    return NULL;
}

/* --help asks for something once; as a setting it would be the end of every command. */
static bool is_question(const Option *d) { return d->type == OPT_FLAG && !strcmp(d->name, "help"); }

static char *keep(Options *o, const char *text) {
    char **owned = realloc(o->owned, (size_t)(o->n_owned + 1) * sizeof *owned);
    if (!owned) return NULL;
    o->owned = owned;
    char *copy = strdup(text);
    if (copy) owned[o->n_owned++] = copy;
    return copy;
}

static int on_ini_line(void *arg, const char *section, const char *name, const char *value) {
    Reader *r = arg;
    char where[320];
    snprintf(where, sizeof where, "%.200s: %.64s", r->path, name);
    if (section[0]) return refuse(r, "%s: the file has no sections, '[%.64s]' is unknown", r->path, section), 1;
    const Option *d = find_row(name);
    if (!d || is_question(d)) return refuse(r, "%s: no such option", where), 1;
    const char *copy = keep(r->o, value ? value : "");
    if (!copy) return refuse(r, "%s: out of memory", where), 1;
    take(r, d, copy, FROM_FILE, where);
    return 1;
}

/* inih takes lines of a fixed length and would read the rest of a longer one as a line of its own. */
typedef struct IniLines {
    FILE *f;
    int line, too_long; /* too_long: number of the line, 0 for none */
} IniLines;

static char *next_ini_line(char *buf, int size, void *stream) {
    IniLines *in = stream;
    if (in->too_long || !fgets(buf, size, in->f)) return NULL;
    size_t n = strlen(buf);
    in->line++;
    if (n + 1 < (size_t)size || buf[n - 1] == '\n' || feof(in->f)) return buf;
    in->too_long = in->line;
    return NULL;
}

static bool read_file(Reader *r) {
    char path[4096];
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = base && base[0]   ? snprintf(path, sizeof path, "%s/thimble/thimble.ini", base)
            : home && home[0] ? snprintf(path, sizeof path, "%s/.config/thimble/thimble.ini", home)
                              : 0;
    if (n <= 0 || n >= (int)sizeof path) return true;
    FILE *f = fopen(path, "re");
    if (!f) {
        if (errno == ENOENT || errno == ENOTDIR) return true;
        return refuse(r, "%s: %s", path, strerror(errno));
    }
    r->path = path;
    IniLines in = {.f = f};
    int line = ini_parse_stream(next_ini_line, &in, on_ini_line, r);
    fclose(f);
    if (in.too_long) refuse(r, "%s: line %d is too long", path, in.too_long);
    if (line > 0) refuse(r, "%s: line %d is not 'key = value'", path, line);
    return !r->failed;
}

/* ---- the environment ---- */

static void variable_name(const Option *d, char *out, size_t size) {
    snprintf(out, size, "THIMBLE_%s", d->name);
    for (char *c = out + 8; *c; c++) *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
}

static bool read_environment(Reader *r) {
    for (int i = 0; i < n_options; i++) {
        char name[64];
        if (is_question(&option_table[i])) continue;
        variable_name(&option_table[i], name, sizeof name);
        const char *value = getenv(name);
        if (value && !take(r, &option_table[i], value, FROM_ENVIRONMENT, name)) return false;
    }
    return true;
}

const char *options_unknown_variable(void) {
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "THIMBLE_", 8) != 0) continue;
        char key[64];
        size_t n = strcspn(*e + 8, "=");
        if (n >= sizeof key) return *e;
        memcpy(key, *e + 8, n);
        key[n] = 0;
        if (!find_row(key)) return *e;
    }
    return NULL;
}

/* ---- the command line ---- */

static const char *verb_of(unsigned verbs) {
    static const char *const names[] = {"run", "chat", "info", "plan", "score", "tokenize", "detokenize",
                                        "bench", "version", "help", "perplexity"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (verbs & (1u << i)) return names[i];
    return "help";
}

/* The row of a flag for this verb; a letter may mean different rows for different verbs. */
static const Option *find_flag(Reader *r, const char *name, size_t len, const char *shown) {
    const Option *foreign = NULL;
    for (int i = 0; i < n_options; i++) {
        const Option *d = &option_table[i];
        bool hit = len ? strlen(d->name) == len && !memcmp(d->name, name, len) : d->letter == *name;
        if (!hit) continue;
        if (d->verbs & r->verb) return d;
        foreign = d;
    }
    if (foreign)
        refuse(r, "%s is not an option of this command (it belongs to '%s')", shown, verb_of(foreign->verbs));
    else
        refuse(r, "unknown option %s", shown);
    return NULL;
}

/* argv[*i] starts with '-' and is more than that: one flag with its value, or several letters. */
static bool read_flag(Reader *r, int argc, char **argv, int *i) {
    const char *arg = argv[*i], *value = NULL;
    char shown[64];
    if (arg[1] == '-') {
        size_t n = strcspn(arg + 2, "=");
        snprintf(shown, sizeof shown, "--%.*s", (int)(n < 48 ? n : 48), arg + 2);
        if (n == 0) return refuse(r, "unknown option %s", arg);
        const Option *d = find_flag(r, arg + 2, n, shown);
        if (!d) return false;
        if (arg[2 + n] == '=')
            value = arg + 3 + n;
        else if (d->type == OPT_FLAG)
            value = "on";
        else if (++*i < argc)
            value = argv[*i];
        if (!value) return refuse(r, "%s needs a value (%s)", shown, d->arg);
        return take(r, d, value, FROM_COMMAND_LINE, shown);
    }
    for (const char *c = arg + 1; *c; c++) {
        snprintf(shown, sizeof shown, "-%c", *c);
        const Option *d = find_flag(r, c, 0, shown);
        if (!d) return false;
        if (d->type == OPT_FLAG) {
            if (!take(r, d, "on", FROM_COMMAND_LINE, shown)) return false;
            continue;
        }
        value = c[1] ? c + 1 : ++*i < argc ? argv[*i] : NULL;
        if (!value) return refuse(r, "%s needs a value (%s)", shown, d->arg);
        return take(r, d, value, FROM_COMMAND_LINE, shown);
    }
    return true;
}

static bool read_command_line(Reader *r, int argc, char **argv) {
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        if (only_words || argv[i][0] != '-' || !argv[i][1])
            r->o->args[r->o->n_args++] = argv[i];
        else if (!strcmp(argv[i], "--"))
            only_words = true;
        else if (!read_flag(r, argc, argv, &i))
            return false;
    }
    return true;
}

bool options_read(Options *o, unsigned verb, int argc, char **argv, bool command_line_only, char *why,
                  size_t why_size) {
    *o = (Options){.predict = PREDICT_UNSET,
                   .temp = 0.8,
                   .top_k = 40,
                   .top_p = 0.95,
                   .min_p = 0.05,
                   .repeat_penalty = 1,
                   .repeat_last_n = 64,
                   .repetitions = 5,
                   .n_prompt = {{512}, 1},
                   .n_gen = {{128}, 1}};
    o->args = calloc((size_t)argc + 1, sizeof *o->args);
    Reader r = {o, verb, why, why_size, false, NULL};
    if (!o->args) return refuse(&r, "out of memory");
    return read_command_line(&r, argc, argv) &&
           (command_line_only || o->help || (read_environment(&r) && read_file(&r)));
}

void options_free(Options *o) {
    for (int i = 0; i < o->n_owned; i++) free(o->owned[i]);
    free(o->owned);
    free(o->args);
    *o = (Options){0};
}

bool options_given(const Options *o, const char *name) {
    for (int i = 0; i < n_options; i++)
        if (!strcmp(option_table[i].name, name) && o->source[i] != FROM_DEFAULT) return true;
    return false;
}
