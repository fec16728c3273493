/* cmd_detokenize.c: `thimble detokenize`: ids to the bytes they stand for, exactly and nothing else. */
#include "cmd.h"

#include "common/ids.h"
#include "common/json_out.h"
#include "common/load.h"
#include "common/prompt.h"
#include "common/text.h"

#include <stdlib.h>

/* The ids' bytes: straight out, or into `text` if that is given. */
static bool put_bytes(Cli *cli, const ThimbleModel *m, const Ids *ids, Text *text) {
    char few[512];
    bool fine = true;
    for (size_t i = 0; fine && i < ids->n && !out_lost(&cli->out); i++) {
        char *bytes = few;
        size_t n = thimble_token_bytes(m, ids->id[i], cli->opt.special == ON, few, sizeof few);
        if (n > sizeof few) {
            bytes = malloc(n);
            if (!bytes) return false;
            thimble_token_bytes(m, ids->id[i], cli->opt.special == ON, bytes, n);
        }
        if (text)
            fine = text_append(text, bytes, n);
        else
            out_write(&cli->out, bytes, n);
        if (bytes != few) free(bytes);
    }
    return fine;
}

/* {"text"}: what is no UTF-8 once all bytes are together becomes U+FFFD. */
static bool put_json(Cli *cli, const ThimbleModel *m, const Ids *ids) {
    Text text = {0};
    Json j;
    bool fine = put_bytes(cli, m, ids, &text);
    if (fine) {
        jout_begin(&j, &cli->out);
        jout_open(&j, '{');
        jout_key(&j, "text");
        jout_string(&j, text.p ? text.p : "", text.n);
        jout_end(&j);
    }
    text_free(&text);
    return fine;
}

static int read_ids(Cli *cli, Ids *ids) {
    int code = EXIT_DONE;
    for (int i = 1; i < cli->opt.n_args && code == EXIT_DONE; i++) code = prompt_ids(cli, cli->opt.args[i], "", ids);
    return code;
}

int cmd_detokenize(Cli *cli) {
    Ids ids = {0};
    ThimbleModel *m = NULL;
    char why[128];
    if (cli->opt.n_args < 2) return usage_error(cli, "detokenize needs a MODEL and ids");
    int code = read_ids(cli, &ids);
    if (code == EXIT_DONE) code = load_part(cli, THIMBLE_LOAD_VOCAB, &m);
    if (code == EXIT_DONE && !ids_check(&ids, thimble_model_info(m)->n_vocab, why, sizeof why))
        code = usage_error(cli, "%s", why);
    if (code == EXIT_DONE && !(cli->opt.json ? put_json(cli, m, &ids) : put_bytes(cli, m, &ids, NULL))) {
        term_error(&cli->term, "out of memory");
        code = EXIT_FAILED;
    }
    thimble_model_close(m);
    ids_free(&ids);
    return code;
}
