/* cmd_detokenize.c: `thimble detokenize`: ids to the bytes they stand for, exactly and nothing else. */
#include "cmd.h"

#include "common/ids.h"
#include "common/load.h"
#include "common/prompt.h"
#include "common/text.h"

#include <stdlib.h>

static bool put_bytes(Cli *cli, const ThimbleModel *m, const Ids *ids) {
    char few[512];
    for (size_t i = 0; i < ids->n && !out_lost(&cli->out); i++) {
        char *bytes = few;
        size_t n = thimble_token_bytes(m, ids->id[i], cli->opt.special == ON, few, sizeof few);
        if (n > sizeof few) {
            bytes = malloc(n);
            if (!bytes) return false;
            thimble_token_bytes(m, ids->id[i], cli->opt.special == ON, bytes, n);
        }
        out_write(&cli->out, bytes, n);
        if (bytes != few) free(bytes);
    }
    return true;
}

static int read_ids(Cli *cli, Ids *ids) {
    char why[512];
    bool io;
    for (int i = 1; i < cli->opt.n_args; i++) {
        if (ids_parse(ids, cli->opt.args[i], prompt_most(cli, IDS_SHARE), &io, why, sizeof why)) continue;
        if (!io) return usage_error(cli, "%s", why);
        term_error(&cli->term, "%s", why);
        return EXIT_IO;
    }
    return EXIT_DONE;
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
    if (code == EXIT_DONE && !put_bytes(cli, m, &ids)) code = EXIT_FAILED;
    thimble_model_close(m);
    ids_free(&ids);
    return code;
}
