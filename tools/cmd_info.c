/* cmd_info.c: `thimble info`: what the file holds. The header alone is read, so it costs little for any file. */
#include "cmd.h"

#include "common/json_out.h"
#include "common/load.h"
#include "common/text.h"

#include <string.h>

static const char *shown(const char *s, char out[static 512]) {
    return s ? text_printable(s, strlen(s), false, out, 512) : "none";
}

static void print_types(Out *out, const ThimbleModelInfo *info) {
    char size[32];
    out_printf(out, "\n%-10s %8s %12s  %s\n", "type", "tensors", "size", "kernel");
    for (size_t i = 0; i < info->n_types; i++) {
        const ThimbleTypeUse *u = &info->types[i];
        out_printf(out, "%-10s %8llu %12s  %s\n", u->name, (unsigned long long)u->tensors, text_size(u->bytes, size),
                   u->origin ? u->origin : "none");
    }
}

static void print_tokenizer(Out *out, const ThimbleModel *m, const ThimbleModelInfo *info) {
    char a[512], b[512], raw[256];
    out_printf(out, "tokenizer     %s, pre %s", shown(info->tokenizer_model, a), shown(info->tokenizer_pre, b));
    if (info->n_vocab) out_printf(out, ", %d ids", info->n_vocab);
    if (info->bos >= 0) out_printf(out, ", BOS %d%s", info->bos, info->add_bos ? " (put in front)" : "");
    if (info->eos >= 0) out_printf(out, ", EOS %d%s", info->eos, info->add_eos ? " (appended)" : "");
    out_string(out, "\n");
    out_string(out, "ends with    ");
    for (size_t i = 0; i < info->n_eog; i++) {
        size_t n = thimble_token_text(m, info->eog[i], raw, sizeof raw);
        out_printf(out, " %d", info->eog[i]);
        if (n) out_printf(out, " %s", text_printable(raw, n < sizeof raw ? n : sizeof raw, false, a, sizeof a));
    }
    out_printf(out, "%s\nchat template %s\n", info->n_eog ? "" : " none", info->has_chat_template ? "yes" : "no");
}

static void print_text(Cli *cli, const ThimbleModel *m, const ThimbleModelInfo *info) {
    Out *out = &cli->out;
    char a[512], b[32];
    const bool is_small = info->n_params < 1000000000;
    out_printf(out, "file          %s\n", shown(info->path, a));
    out_printf(out, "size          %s in %d file%s, %.4g %s parameters, %s\n", text_size(info->file_bytes, b),
               info->shards, info->shards == 1 ? "" : "s", (double)info->n_params / (is_small ? 1e6 : 1e9),
               is_small ? "million" : "billion", shown(info->file_type, a));
    if (info->name && info->name[0]) out_printf(out, "name          %s\n", shown(info->name, a));
    out_printf(out, "architecture  %s%s\n", shown(info->architecture, a),
               info->supported ? "" : " (not supported by this build)");
    if (info->why_unsupported) out_printf(out, "              %s\n", shown(info->why_unsupported, a));
    if (info->layers)
        out_printf(out, "shape         %d layers, width %d, %d heads on %d KV heads, trained for %d tokens\n",
                   info->layers, info->embedding, info->heads, info->heads_kv, info->trained_context);
    if (info->experts)
        out_printf(out, "experts       %d, %d used a token, %s of the file\n", info->experts, info->experts_used,
                   text_size(info->expert_bytes, b));
    if (info->tokenizer_model)
        print_tokenizer(out, m, info);
    else
        out_string(out, "tokenizer     none\n");
    out_printf(out, "instructions  %s\n", shown(info->isa, a));
    print_types(out, info);
}

static void put_types(Json *j, const ThimbleModelInfo *info) {
    jout_key(j, "types");
    jout_open(j, '[');
    for (size_t i = 0; i < info->n_types; i++) {
        jout_open(j, '{');
        jout_put_text(j, "type", info->types[i].name);
        jout_put_size(j, "count", info->types[i].tensors);
        jout_put_size(j, "bytes", info->types[i].bytes);
        jout_put_text(j, "origin", info->types[i].origin);
        jout_close(j);
    }
    jout_close(j);
}

static void put_tokenizer(Json *j, const ThimbleModelInfo *info) {
    jout_key(j, "tokenizer");
    if (info->tokenizer_model) {
        jout_open(j, '{');
        jout_put_text(j, "model", info->tokenizer_model);
        jout_put_text(j, "pre", info->tokenizer_pre);
        jout_put_int(j, "bos", info->bos);
        jout_put_int(j, "eos", info->eos);
        jout_put_bool(j, "add_bos", info->add_bos);
        jout_put_bool(j, "add_eos", info->add_eos);
        jout_close(j);
    } else {
        jout_null(j);
    }
    jout_key(j, "eog");
    jout_open(j, '[');
    for (size_t i = 0; i < info->n_eog; i++) jout_int(j, info->eog[i]);
    jout_close(j);
    jout_put_bool(j, "chat_template", info->has_chat_template);
}

static void put_json(Cli *cli, const ThimbleModelInfo *info) {
    Json j;
    jout_begin(&j, &cli->out);
    jout_open(&j, '{');
    jout_put_text(&j, "path", info->path);
    jout_put_text(&j, "architecture", info->architecture);
    jout_put_text(&j, "name", info->name);
    jout_put_bool(&j, "supported", info->supported);
    jout_put_text(&j, "why_unsupported", info->why_unsupported);
    jout_put_text(&j, "file_type", info->file_type);
    jout_put_size(&j, "file_bytes", info->file_bytes);
    jout_put_size(&j, "expert_bytes", info->expert_bytes);
    jout_put_size(&j, "dense_bytes", info->dense_bytes);
    jout_put_size(&j, "n_params", info->n_params);
    jout_put_int(&j, "shards", info->shards);
    jout_put_int(&j, "layers", info->layers);
    jout_put_int(&j, "embedding", info->embedding);
    jout_put_int(&j, "heads", info->heads);
    jout_put_int(&j, "heads_kv", info->heads_kv);
    jout_put_int(&j, "experts", info->experts);
    jout_put_int(&j, "experts_used", info->experts_used);
    jout_put_int(&j, "trained_context", info->trained_context);
    jout_put_int(&j, "n_vocab", info->n_vocab);
    jout_put_text(&j, "isa", info->isa);
    put_types(&j, info);
    put_tokenizer(&j, info);
    jout_end(&j);
}

int cmd_info(Cli *cli) {
    ThimbleModel *m = NULL;
    if (cli->opt.n_args != 1) return usage_error(cli, "info takes one MODEL");
    int code = load_part(cli, THIMBLE_LOAD_NOTHING, &m);
    if (code != EXIT_DONE) return code;
    if (cli->opt.json)
        put_json(cli, thimble_model_info(m));
    else
        print_text(cli, m, thimble_model_info(m));
    thimble_model_close(m);
    return EXIT_DONE;
}
