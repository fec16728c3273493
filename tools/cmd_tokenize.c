/* cmd_tokenize.c: `thimble tokenize`: text to ids, on one line between blanks (so that detokenize and score take them).
 */
#include "cmd.h"

#include "common/json_out.h"
#include "common/load.h"
#include "common/prompt.h"

#include <stdlib.h>

static int flags_of(const Options *o) {
    int flags = o->special == ON ? THIMBLE_TOK_SPECIAL : 0;
    if (o->bos == ON) flags |= THIMBLE_TOK_BOS;
    if (o->bos == OFF) flags |= THIMBLE_TOK_NO_BOS | THIMBLE_TOK_NO_EOS;
    return flags;
}

static bool put_piece(Json *j, const ThimbleModel *m, int32_t id, Text *piece) {
    size_t need = thimble_token_bytes(m, id, true, NULL, 0);
    if (need + 1 > piece->cap) {
        char *p = realloc(piece->p, need + 1);
        if (!p) return false;
        piece->p = p;
        piece->cap = need + 1;
    }
    thimble_token_bytes(m, id, true, piece->p, piece->cap);
    jout_string(j, piece->p, need);
    return true;
}

static bool put_json(Cli *cli, const ThimbleModel *m, const Ids *ids) {
    Json j;
    Text piece = {0};
    bool fine = true;
    jout_begin(&j, &cli->out);
    jout_open(&j, '{');
    jout_key(&j, "tokens");
    jout_open(&j, '[');
    for (size_t i = 0; i < ids->n; i++) jout_int(&j, ids->id[i]);
    jout_close(&j);
    jout_key(&j, "pieces");
    jout_open(&j, '[');
    for (size_t i = 0; fine && i < ids->n; i++) fine = put_piece(&j, m, ids->id[i], &piece);
    jout_end(&j);
    text_free(&piece);
    return fine;
}

int cmd_tokenize(Cli *cli) {
    Text text = {0};
    Ids ids = {0};
    ThimbleModel *m = NULL;
    ThimbleError e = {0};
    if (cli->opt.n_args < 1) return usage_error(cli, "tokenize needs a MODEL");
    int code = prompt_read(cli, &text);
    if (code == EXIT_DONE) code = load_part(cli, THIMBLE_LOAD_VOCAB, &m);
    if (code == EXIT_DONE && !prompt_tokenize(m, text.p ? text.p : "", text.n, flags_of(&cli->opt), &ids, &e))
        code = load_failed(cli, &e);
    if (code == EXIT_DONE && cli->opt.json) {
        if (!put_json(cli, m, &ids)) code = EXIT_FAILED;
    } else if (code == EXIT_DONE) {
        for (size_t i = 0; i < ids.n; i++) out_printf(&cli->out, i ? " %d" : "%d", ids.id[i]);
        out_string(&cli->out, "\n");
    }
    thimble_model_close(m);
    ids_free(&ids);
    text_free(&text);
    return code;
}
