/* prompt.c: see prompt.h. */
#include "common/prompt.h"

#include "common/load.h"
#include "common/signals.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define IM_START "<|im_start|>"
#define IM_END   "<|im_end|>"

size_t prompt_most(const Cli *cli, unsigned share) {
    return cli->opt.ram && cli->opt.ram / share < TEXT_FILE_MAX ? (size_t)(cli->opt.ram / share) : TEXT_FILE_MAX;
}

/* A file that was not read: it failed, the user stopped it, or (errno) it is longer than the budget allows. */
static int refuse_file(Cli *cli, size_t most, const char *why) {
    char ram[32];
    bool too_long = errno == EFBIG && most < TEXT_FILE_MAX;
    if (signals_stop()) return signals_exit_code();
    if (too_long)
        term_error(&cli->term, "%s: with its tokens it does not fit the budget of %s", why,
                   text_size(cli->opt.ram, ram));
    else
        term_error(&cli->term, "%s", why);
    return too_long ? EXIT_BUDGET : EXIT_IO;
}

static int read_file(Cli *cli, Text *text, const char *path) {
    char why[512];
    const size_t most = prompt_most(cli, TEXT_SHARE);
    if (text_read_file(text, path, most, why, sizeof why))
        return load_charge(cli, TEXT_SHARE * (uint64_t)text->n, "the text and its tokens");
    return refuse_file(cli, most, why);
}

int prompt_ids(Cli *cli, const char *text, const char *option, Ids *ids) {
    char why[512];
    const size_t most = prompt_most(cli, IDS_SHARE);
    bool io;
    if (ids_parse(ids, text, most, &io, why, sizeof why)) return EXIT_DONE;
    if (io) return refuse_file(cli, most, why);
    return usage_error(cli, "%s%s", option, why);
}

void prompt_gone(Cli *cli) {
    cli->opt.ram += cli->charged;
    cli->charged = 0;
}

int prompt_read(Cli *cli, Text *text) {
    const Options *o = &cli->opt;
    const char *word = o->n_args > 1 ? o->args[1] : NULL, *path = o->file;
    if (o->n_args > 2)
        return usage_error(cli, "one PROMPT, please: put it in quotes ('%.40s' is too much)", o->args[2]);
    if ((word != NULL) + (o->prompt != NULL) + (o->file != NULL) > 1)
        return usage_error(cli, "the prompt is given twice: as PROMPT, -p TEXT, -f FILE or -");
    if (word && !strcmp(word, "-")) path = "-";
    if (path) return read_file(cli, text, path);
    if (!word && !o->prompt)
        return usage_error(cli, "%s needs a text: as an argument, -p TEXT, -f FILE, or - for standard input",
                           cli->verb);
    if (text_append_string(text, word ? word : o->prompt)) return EXIT_DONE;
    term_error(&cli->term, "out of memory");
    return EXIT_FAILED;
}

static bool no_memory(ThimbleError *e) {
    e->code = THIMBLE_E_NOMEM;
    snprintf(e->message, sizeof e->message, "out of memory");
    return false;
}

bool prompt_tokenize(ThimbleModel *m, const char *text, size_t n, int flags, Ids *ids, ThimbleError *e) {
    size_t count = 256, room = 0;
    do { /* again only if the first room was too small: the second is exact */
        if (!ids_reserve(ids, count)) return no_memory(e);
        room = ids->cap - ids->n;
        if (thimble_tokenize(m, text, n, flags, ids->id + ids->n, room, &count, e) != THIMBLE_OK) return false;
    } while (count > room);
    ids->n += count;
    return true;
}

static bool has_control(const ThimbleModel *m, const char *text) {
    int32_t id = thimble_token_find(m, text);
    return id >= 0 && thimble_token_is_control(m, id);
}

PromptForm prompt_form(const Cli *cli, const ThimbleModel *m, bool talk) {
    if (cli->opt.raw || !(talk || thimble_model_info(m)->has_chat_template)) return PROMPT_RAW;
    return has_control(m, IM_START) && has_control(m, IM_END) ? PROMPT_CHATML : PROMPT_RAW;
}

void prompt_say_form(Cli *cli, const ThimbleModel *m, PromptForm form) {
    if (cli->opt.raw) return;
    if (form == PROMPT_CHATML)
        term_notice(&cli->term,
                    "the prompt is put in ChatML form, the file's own chat template is not used yet (--raw: as it is)");
    else if (thimble_model_info(m)->has_chat_template)
        term_notice(
            &cli->term,
            "the prompt goes in raw: chat templates are not rendered yet, and the vocabulary has no ChatML tokens");
    else
        term_notice(&cli->term, "the prompt goes in raw: the file has no chat template");
}

/* What the family's own template says when there is no system message. */
static const char *default_system(const ThimbleModel *m) {
    static const struct {
        const char *family, *text;
    } known[] = {{"smollm2", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
                 {"qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."}};
    const char *name = thimble_model_info(m)->name;
    char plain[64];
    size_t n = 0;
    for (const char *c = name; *c && n + 1 < sizeof plain; c++)
        if (*c != ' ' && *c != '-' && *c != '_') plain[n++] = *c;
    plain[n] = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncasecmp(plain, known[i].family, strlen(known[i].family))) return known[i].text;
    return NULL;
}

static bool put_control(ThimbleModel *m, const char *text, Ids *ids, ThimbleError *e) {
    int32_t id = thimble_token_find(m, text);
    return ids_append(ids, &id, 1) || no_memory(e);
}

/* Role and content are one text, as in the rendered template, so that pieces spanning the line break come out alike. */
static bool put_chatml(ThimbleModel *m, const char *role, const char *content, size_t n, int flags, Ids *ids,
                       ThimbleError *e) {
    Text t = {0};
    bool fine = text_append_string(&t, role) && text_append_string(&t, "\n") && text_append(&t, content, n);
    fine = (fine || no_memory(e)) && put_control(m, IM_START, ids, e) &&
           prompt_tokenize(m, t.p, t.n, flags | THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS, ids, e) &&
           put_control(m, IM_END, ids, e) &&
           prompt_tokenize(m, "\n", 1, THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS, ids, e);
    text_free(&t);
    return fine;
}

bool prompt_turn(Cli *cli, ThimbleModel *m, PromptForm form, bool first, const char *text, size_t n, Ids *ids,
                 ThimbleError *e) {
    const ThimbleModelInfo *info = thimble_model_info(m);
    const int special = cli->opt.special == ON ? THIMBLE_TOK_SPECIAL : 0;
    if (form == PROMPT_RAW) {
        if (!prompt_tokenize(m, text, n, special | THIMBLE_TOK_NO_EOS | (first ? 0 : THIMBLE_TOK_NO_BOS), ids, e))
            return false;
        /* One BOS: the text brought its own. */
        bool doubled = first && info->add_bos && ids->n > 1 && ids->id[0] == info->bos && ids->id[1] == info->bos;
        if (doubled) memmove(ids->id, ids->id + 1, --ids->n * sizeof *ids->id);
        return true;
    }
    const char *system = cli->opt.system ? cli->opt.system : default_system(m);
    bool put_bos = first && info->add_bos && info->bos >= 0 && info->bos != thimble_token_find(m, IM_START);
    if (put_bos && !ids_append(ids, &info->bos, 1)) return no_memory(e);
    if (first && system && *system && !put_chatml(m, "system", system, strlen(system), special, ids, e)) return false;
    return put_chatml(m, "user", text, n, special, ids, e) && put_control(m, IM_START, ids, e) &&
           prompt_tokenize(m, "assistant\n", 10, THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS, ids, e);
}

void prompt_say_ids(Cli *cli, const ThimbleModel *m, const char *text, size_t n, const Ids *ids) {
    const ThimbleModelInfo *info = thimble_model_info(m);
    char bos[64];
    size_t len = info->bos >= 0 ? thimble_token_text(m, info->bos, bos, sizeof bos) : 0;
    if (len && len <= sizeof bos && len <= n && !memcmp(bos, text, len))
        term_notice(&cli->term, "the prompt begins with the text of BOS: %s",
                    cli->opt.special == ON ? "it stands for the one BOS that is put in front"
                                           : "it is read as plain text");
    for (size_t at = 0; at < ids->n && cli->opt.verbose;) {
        char line[512];
        int used = 0;
        for (; at < ids->n && used < 480; at++)
            used += snprintf(line + used, sizeof line - (size_t)used, " %d", ids->id[at]);
        term_verbose(&cli->term, "prompt ids:%s", line);
    }
}

bool prompt_close_answer(ThimbleModel *m, PromptForm form, Ids *ids, ThimbleError *e) {
    if (form == PROMPT_RAW) return true;
    int32_t end = thimble_token_find(m, IM_END);
    if ((!ids->n || ids->id[ids->n - 1] != end) && !put_control(m, IM_END, ids, e)) return false;
    return prompt_tokenize(m, "\n", 1, THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS, ids, e);
}
