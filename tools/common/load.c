/* load.c: see load.h. */
#include "common/load.h"

#include "common/signals.h"
#include "common/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int load_failed(Cli *cli, const ThimbleError *e) {
    if (e->code == THIMBLE_E_CANCELLED && signals_stop()) return signals_exit_code();
    const char *sentence = e->message[0] ? e->message : thimble_strerror(e->code);
    char size[32];
    if (e->code == THIMBLE_E_BUDGET && cli->charged)
        term_error(&cli->term, "%s, and %s on top for the text and its tokens", sentence,
                   text_size(cli->charged, size));
    else
        term_error(&cli->term, "%s", sentence);
    switch (e->code) {
    case THIMBLE_E_ARG:
        return EXIT_USAGE;
    case THIMBLE_E_IO:
        return EXIT_IO;
    case THIMBLE_E_FORMAT:
    case THIMBLE_E_UNSUPPORTED:
        return EXIT_MODEL;
    case THIMBLE_E_BUDGET:
        return EXIT_BUDGET;
    default:
        return EXIT_FAILED;
    }
}

const char *load_resolve(const char *name, char *path, size_t size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    static const char *const suffix[] = {"", ".gguf"};
    if (strchr(name, '/') || access(name, F_OK) == 0) return name;
    for (size_t i = 0; i < 2; i++) {
        int n = cache && cache[0] ? snprintf(path, size, "%s/thimble/%s%s", cache, name, suffix[i])
                : home && home[0] ? snprintf(path, size, "%s/.cache/thimble/%s%s", home, name, suffix[i])
                                  : -1;
        if (n > 0 && (size_t)n < size && access(path, F_OK) == 0) return path;
    }
    return name;
}

void load_options(Cli *cli, ThimbleModelOptions *mo) {
    static const int home[] = {THIMBLE_HOME_AUTO, THIMBLE_HOME_RESIDENT, THIMBLE_HOME_MAPPED, THIMBLE_HOME_STREAM,
                               THIMBLE_HOME_PAGED};
    static const int evict[] = {THIMBLE_EVICT_AUTO, THIMBLE_EVICT_LRU, THIMBLE_EVICT_LFU};
    static const int cache[] = {THIMBLE_CACHE_F16, THIMBLE_CACHE_F32, THIMBLE_CACHE_Q8_0};
    static const int state[] = {THIMBLE_STATE_F32, THIMBLE_STATE_F16};
    static const int draft[] = {THIMBLE_DRAFT_AUTO, THIMBLE_DRAFT_OFF, THIMBLE_DRAFT_MTP, THIMBLE_DRAFT_LOOKUP};
    const Options *o = &cli->opt;
    thimble_model_options_init(mo);
    mo->budget = o->ram;
    mo->threads = o->threads;
    mo->context = o->ctx;
    mo->batch = o->batch;
    mo->home = home[o->home];
    mo->slots = o->slots;
    mo->lookahead = o->lookahead;
    mo->evict = evict[o->evict];
    mo->cache_type = cache[o->cache_type];
    mo->state_type = state[o->state_type];
    mo->draft = draft[o->draft];
    mo->draft_max = o->draft_max;
    /* What chooses no tokens needs no guesses; a bench that is to be compared does not guess without being told. */
    bool counts = !strcmp(cli->verb, "score") || !strcmp(cli->verb, "perplexity");
    bool compares = !strcmp(cli->verb, "bench") && o->draft == THIMBLE_DRAFT_AUTO;
    if (counts || compares) mo->draft = THIMBLE_DRAFT_OFF;
    mo->experts = o->experts;
    mo->checkpoints = !options_given(o, "checkpoints") ? 0 : o->checkpoints ? o->checkpoints : -1;
    mo->route_bias = (float)o->route_bias;
    mo->isa = o->isa;
    mo->log = (ThimbleLog){term_log, &cli->term};
    mo->progress = (ThimbleProgress){term_progress, &cli->term};
}

int load_charge(Cli *cli, uint64_t bytes, const char *what) {
    enum { RESERVED = 256 << 10 };
    char need[32], have[32];
    if (!cli->opt.ram || bytes <= RESERVED) return EXIT_DONE;
    if (bytes >= cli->opt.ram) {
        term_error(&cli->term, "%s take up to %s, more than is left of the budget (%s)", what, text_size(bytes, need),
                   text_size(cli->opt.ram, have));
        return EXIT_BUDGET;
    }
    cli->opt.ram -= bytes;
    cli->charged += bytes;
    return EXIT_DONE;
}

static int check_arguments(Cli *cli) {
    if (cli->opt.n_args < 1) return usage_error(cli, "%s needs a MODEL", cli->verb);
    if (cli->opt.home == THIMBLE_HOME_MAPPED && cli->opt.ram)
        return usage_error(cli, "--home mapped uses the system's page cache and cannot keep a budget: leave --ram out");
    if (cli->opt.home == THIMBLE_HOME_MAPPED) signals_guard_mapping();
    return EXIT_DONE;
}

/* Both numbers and the nearest setting that fits. `context` is what was asked for (0: nothing in particular); `prompt`
 * is the part of it that cannot shrink (0: unknown). */
static int refuse_budget(Cli *cli, const ThimblePlan *p, size_t context, size_t prompt) {
    char floor[32], budget[32], ram[32], nearest[128], what[64] = "";
    size_t fits = p->max_context > 0 ? (size_t)p->max_context : 0;
    const uint64_t least = p->floor + cli->charged, have = p->budget + cli->charged;
    text_ram(least, ram);
    if (!prompt && fits)
        snprintf(nearest, sizeof nearest, "-c %zu, or --ram %s", fits, ram);
    else if (fits > prompt)
        snprintf(nearest, sizeof nearest, "--predict %zu, or --ram %s", fits - prompt, ram);
    else
        snprintf(nearest, sizeof nearest, "--ram %s", ram);
    if (context) snprintf(what, sizeof what, " for a context of %zu tokens", context);
    term_error(&cli->term, "the budget of %s (%llu bytes) is below the floor of %s (%llu bytes)%s; what fits: %s",
               text_size(have, budget), (unsigned long long)have, text_size(least, floor), (unsigned long long)least,
               what, nearest);
    return EXIT_BUDGET;
}

static int plan_with(Cli *cli, const char *path, const ThimbleModelOptions *mo, ThimblePlan *p) {
    ThimbleError e = {0};
    memset(p, 0, sizeof *p);
    p->struct_size = sizeof *p;
    return thimble_plan(path, mo, p, &e) == THIMBLE_OK ? EXIT_DONE : load_failed(cli, &e);
}

static int open_part(Cli *cli, const char *path, int part, ThimbleModel **m) {
    ThimbleModelOptions mo;
    ThimbleError e = {0};
    load_options(cli, &mo);
    mo.load = part;
    mo.home = THIMBLE_HOME_AUTO;
    return thimble_model_open(m, path, &mo, &e) == THIMBLE_OK ? EXIT_DONE : load_failed(cli, &e);
}

static int refuse_length(Cli *cli, size_t n, size_t context, size_t room) {
    term_error(&cli->term, "the prompt has %zu tokens, the context holds %zu: shorten it or give -c %zu", n, context,
               n + room);
    return EXIT_FAILED;
}

/* The context was given: is it long enough? Before the weights are loaded, and counted only if there is a doubt. */
static int check_length(Cli *cli, const char *path, const Need *need, size_t context) {
    ThimbleModel *vocabulary = NULL;
    ThimbleError e = {0};
    size_t n = need->upper;
    if (n <= context) return EXIT_DONE;
    if (need->count) {
        int code = open_part(cli, path, THIMBLE_LOAD_VOCAB, &vocabulary);
        if (code != EXIT_DONE) return code;
        bool counted = need->count(need->arg, vocabulary, &n, &e);
        thimble_model_close(vocabulary);
        if (!counted) return load_failed(cli, &e);
    }
    return n <= context ? EXIT_DONE : refuse_length(cli, n, context, need->room);
}

/* The context when -c was not given and the plan's own does not obviously do: at least what is needed, at most what the
 * model was trained for (and 4096), the most of it that the budget holds. */
static int fit_context(Cli *cli, const char *path, const Need *need, const ThimblePlan *auto_plan, int *context) {
    ThimbleModel *vocabulary = NULL;
    ThimbleModelOptions mo;
    ThimblePlan p;
    ThimbleError e = {0};
    size_t prompt = need->upper;
    int code = open_part(cli, path, need->count ? THIMBLE_LOAD_VOCAB : THIMBLE_LOAD_NOTHING, &vocabulary);
    if (code != EXIT_DONE) return code;
    int trained = thimble_model_info(vocabulary)->trained_context;
    bool counted = !need->count || need->count(need->arg, vocabulary, &prompt, &e);
    thimble_model_close(vocabulary);
    if (!counted) return load_failed(cli, &e);
    const size_t limit = trained > 0 && trained < 4096 ? (size_t)trained : 4096;
    size_t want = prompt + need->room;
    if (prompt > limit) return refuse_length(cli, prompt, limit, need->room);
    if (want > limit) want = limit;
    *context = 0; /* the library's own choice */
    if ((size_t)auto_plan->context >= want) return EXIT_DONE;
    load_options(cli, &mo);
    mo.context = want ? (int)want : 1;
    code = plan_with(cli, path, &mo, &p);
    if (code != EXIT_DONE) return code;
    if (!p.fits) return refuse_budget(cli, &p, want, prompt);
    size_t most = p.max_context > 0 ? (size_t)p.max_context : 0;
    if (most > limit) most = limit;
    *context = (int)(most > want ? most : want);
    return EXIT_DONE;
}

static bool keeps_all(const ThimblePlan *p) {
    return p->resident + p->slots >= p->dense_bytes + p->expert_bytes;
}

/* *spared: the context is as long as this run can use, not as the budget allows. */
static int choose_context(Cli *cli, const char *path, const Need *need, ThimbleModelOptions *mo, bool *spared) {
    ThimblePlan p;
    int code = plan_with(cli, path, mo, &p);
    if (code != EXIT_DONE) return code;
    if (mo->context && !p.fits) return refuse_budget(cli, &p, (size_t)mo->context, 0);
    if (mo->context) return check_length(cli, path, need, (size_t)mo->context);
    if (!p.fits) return refuse_budget(cli, &p, 0, 0);
    size_t enough = (need->upper + need->room + 63) / 64 * 64;
    if ((size_t)p.context >= need->upper + need->room) {
        /* Where weights have to be read again and again, cells that this run cannot fill would cost speed. */
        *spared = enough && (size_t)p.context > enough && !keeps_all(&p);
        if (*spared) mo->context = (int)enough;
        return EXIT_DONE;
    }
    return fit_context(cli, path, need, &p, &mo->context);
}

int load_model(Cli *cli, const Need *need, ThimbleModel **m) {
    char buf[4096];
    ThimbleModelOptions mo;
    ThimbleError e = {0};
    bool spared = false;
    *m = NULL;
    int code = check_arguments(cli);
    if (code != EXIT_DONE) return code;
    const char *path = load_resolve(cli->opt.args[0], buf, sizeof buf);
    load_options(cli, &mo);
    code = choose_context(cli, path, need, &mo, &spared);
    if (code != EXIT_DONE) return code;
    if (signals_stop()) return signals_exit_code();
    if (thimble_model_open(m, path, &mo, &e) != THIMBLE_OK) return load_failed(cli, &e);
    const ThimbleModelInfo *info = thimble_model_info(*m);
    if (info->trained_context > 0 && cli->opt.ctx > info->trained_context)
        term_notice(&cli->term, "the model was trained for %d tokens: beyond that its answers get worse",
                    info->trained_context);
    int usual = info->trained_context > 0 && info->trained_context < 4096 ? info->trained_context : 4096;
    if (!cli->opt.ctx && !spared && info->context < usual)
        term_notice(&cli->term, "the context is lowered to %d tokens to fit the budget (-c N sets it)", info->context);
    return EXIT_DONE;
}

int load_part(Cli *cli, int part, ThimbleModel **m) {
    char buf[4096];
    *m = NULL;
    if (cli->opt.n_args < 1) return usage_error(cli, "%s needs a MODEL", cli->verb);
    return open_part(cli, load_resolve(cli->opt.args[0], buf, sizeof buf), part, m);
}

int load_plan(Cli *cli, ThimblePlan *p) {
    char buf[4096];
    ThimbleModelOptions mo;
    int code = check_arguments(cli);
    if (code != EXIT_DONE) return code;
    load_options(cli, &mo);
    return plan_with(cli, load_resolve(cli->opt.args[0], buf, sizeof buf), &mo, p);
}

int load_refuse(Cli *cli, const ThimblePlan *p) { return refuse_budget(cli, p, (size_t)cli->opt.ctx, 0); }

int load_session(Cli *cli, ThimbleModel *m, ThimbleSession **s) {
    ThimbleSessionOptions so;
    ThimbleError e = {0};
    thimble_session_options_init(&so);
    so.progress = (ThimbleProgress){term_progress, &cli->term};
    *s = NULL;
    return thimble_session_open(s, m, &so, &e) == THIMBLE_OK ? EXIT_DONE : load_failed(cli, &e);
}
