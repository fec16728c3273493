/* tokenizers.c: expected tokens of vocabulary files, four forms in one folder:
 *
 *     NAME.gguf with NAME.gguf.inp / .out    strings and their ids; ids back to the string
 *     NAME.gguf alone                        has to open
 *     extra-*.json                           strings with ids, without and with special-token parsing
 *     pretok-splits.json                     pieces of strings under values of tokenizer.ggml.pre
 *
 * A vocabulary that is not there, or of a kind that is not supported, is skipped and counted once for each of its sets.
 */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "runner/vectors.h"
#include "text/tokenizer.h"

static const char SEPARATOR[] = "\n__ggml_vocab_test__\n";

typedef struct Opened {
    Budget budget;
    Gguf gguf;
    Vocab vocab;
    Tokenizer *tokenizer;
} Opened;

static void close_all(Opened *o) {
    th_tokenizer_close(o->tokenizer);
    th_vocab_close(&o->vocab);
    th_gguf_close(&o->gguf);
    th_budget_free(&o->budget);
}

/* False: skipped or failed, and told. */
static bool open_all(Opened *o, const char *path, const char *what, Tally *t) {
    Err err = {0};
    memset(o, 0, sizeof *o);
    th_budget_init(&o->budget, UINT64_MAX);
    FILE *there = fopen(path, "rb");
    if (!there) {
        tally_skip(t, "%s: its vocabulary is not here", what);
        th_budget_free(&o->budget);
        return false;
    }
    fclose(there);
    bool ok = th_gguf_open(&o->gguf, path, &o->budget, &err) &&
              th_vocab_open(&o->vocab, &o->gguf, &o->budget, NULL, &err) &&
              th_tokenizer_open(&o->tokenizer, &o->vocab, &o->budget, &err);
    if (ok) return true;
    if (err.code == THIMBLE_E_UNSUPPORTED)
        tally_skip(t, "%s: %s", what, err.message);
    else
        tally_fail(t, "%s: %s", what, err.message);
    close_all(o);
    return false;
}

static bool read_whole(const char *path, Buf *out) {
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    char chunk[4096];
    for (size_t n; (n = fread(chunk, 1, sizeof chunk, f)) > 0;)
        if (!th_buf_append(out, chunk, n, NULL)) abort();
    fclose(f);
    return th_buf_append(out, "", 0, NULL);
}

static void print_ids(char *out, size_t cap, const int32_t *ids, size_t n) {
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < n && at + 16 < cap; i++) at += (size_t)snprintf(out + at, cap - at, "%d ", (int)ids[i]);
}

static bool check_ids(const Opened *o, Str text, bool special, const int32_t *want, size_t n, const char *what,
                      Tally *t) {
    TokenBuf got = {0};
    Err err = {0};
    bool ok = th_tokenizer_encode(o->tokenizer, text, false, special, &got, &err) && got.n == n &&
              (n == 0 || memcmp(got.ids, want, n * sizeof *want) == 0);
    if (ok) {
        tally_pass(t, "%s", what);
    } else {
        char wanted[500], made[500], shown[200];
        print_ids(wanted, sizeof wanted, want, n);
        print_ids(made, sizeof made, got.ids, got.n);
        th_str_escape(text, shown, sizeof shown);
        tally_fail(t, "%s \"%s\": expected %s, got %s %s", what, shown, wanted, made, err.message);
    }
    th_token_buf_free(&got);
    return ok;
}

/* SPM may lose one leading space (section 6.2); text that is no UTF-8 does not come back from byte-level BPE. */
static void check_decoding(const Opened *o, Str text, const int32_t *ids, size_t n, const char *what, Tally *t) {
    Buf back = {0};
    Err err = {0};
    bool ok = th_detokenize(&o->vocab, ids, n, false, &back, &err);
    Str got = {back.data, back.len},
        shorter = text.len && text.data[0] == ' ' ? (Str){text.data + 1, text.len - 1} : text;
    ok = ok && (th_str_eq(got, text) || (o->vocab.kind == VOCAB_SPM && th_str_eq(got, shorter)));
    char wanted[200], made[200];
    th_str_escape(text, wanted, sizeof wanted);
    th_str_escape(got, made, sizeof made);
    if (ok)
        tally_pass(t, "%s", what);
    else
        tally_fail(t, "%s, decoding: expected \"%s\", got \"%s\" %s", what, wanted, made, err.message);
    th_buf_free(&back);
}

/* Ids of one line; n of them. */
static int32_t *line_ids(Str line, size_t *n) {
    int32_t *ids = malloc((line.len + 1) * sizeof *ids);
    if (!ids) abort();
    *n = 0;
    for (size_t i = 0; i < line.len;) {
        if (line.data[i] < '0' || line.data[i] > '9') {
            i++;
            continue;
        }
        int32_t id = 0;
        while (i < line.len && line.data[i] >= '0' && line.data[i] <= '9') id = id * 10 + (line.data[i++] - '0');
        ids[(*n)++] = id;
    }
    return ids;
}

/* Cuts the next part off rest. */
static Str next_part(Str *rest, const char *separator) {
    size_t n = strlen(separator), at = 0;
    while (at + n <= rest->len && memcmp(rest->data + at, separator, n) != 0) at++;
    bool last = at + n > rest->len;
    Str part = {rest->data, last ? rest->len : at};
    *rest = last ? (Str){rest->data + rest->len, 0} : (Str){rest->data + at + n, rest->len - at - n};
    return part;
}

static void run_pairs(const char *dir, const char *name, Tally *t) {
    char path[1024];
    Opened o;
    Buf in = {0}, out = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!open_all(&o, path, name, t)) return;
    snprintf(path, sizeof path, "%s/%s.inp", dir, name);
    bool ok = read_whole(path, &in);
    snprintf(path, sizeof path, "%s/%s.out", dir, name);
    if (!ok || !read_whole(path, &out)) tally_fail(t, "%s: the pair is not complete", name);
    Str texts = {in.data, in.len}, lines = {out.data, out.len};
    while (ok && texts.len && lines.len) {
        Str text = next_part(&texts, SEPARATOR), line = next_part(&lines, "\n");
        size_t n;
        int32_t *ids = line_ids(line, &n);
        if (check_ids(&o, text, false, ids, n, name, t)) check_decoding(&o, text, ids, n, name, t);
        free(ids);
    }
    if (ok && (texts.len || lines.len)) tally_fail(t, "%s: strings and lines do not pair up", name);
    th_buf_free(&in);
    th_buf_free(&out);
    close_all(&o);
}

static void run_alone(const char *dir, const char *name, Tally *t) {
    char path[1024];
    Opened o;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!open_all(&o, path, name, t)) return;
    tally_pass(t, "%s", name);
    close_all(&o);
}

static void check_json_ids(const Opened *o, json_t *row, const char *key, bool special, const char *what, Tally *t) {
    json_t *list = json_object_get(row, key), *text = json_object_get(row, "text");
    size_t n = json_array_size(list);
    if (!list || !json_is_string(text)) return;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids) abort();
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    check_ids(o, (Str){json_string_value(text), json_string_length(text)}, special, ids, n, what, t);
    free(ids);
}

static bool run_extra(const char *dir, const char *name, Tally *t) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL), *rows = json_object_get(root, "rows"), *row;
    const char *vocab = json_string_value(json_object_get(root, "vocab"));
    char from_name[256];
    size_t n = strlen(name);
    snprintf(from_name, sizeof from_name, "%.*s", (int)(n > 11 ? n - 11 : 0), n > 11 ? name + 6 : "");
    Opened o;
    size_t i, length = vocab ? strlen(vocab) : 0;
    if (length > 5 && strcmp(vocab + length - 5, ".gguf") == 0)
        snprintf(path, sizeof path, "%s/%s", dir, vocab);
    else
        snprintf(path, sizeof path, "%s/ggml-vocab-%s.gguf", dir, vocab ? vocab : from_name);
    bool is_set = json_is_array(rows);
    if (is_set && open_all(&o, path, name, t)) {
        json_array_foreach(rows, i, row) {
            check_json_ids(&o, row, "plain", false, name, t);
            check_json_ids(&o, row, "special", true, name, t);
        }
        close_all(&o);
    }
    json_decref(root);
    return is_set;
}

/* ---- pre-tokenizers ---------------------------------------------------------------------- */

typedef struct Pieces {
    json_t *want;
    size_t n;
    bool same;
} Pieces;

static bool compare_piece(void *arg, Str piece) {
    Pieces *p = arg;
    json_t *want = json_array_get(p->want, p->n++);
    p->same = p->same && want && th_str_eq(piece, (Str){json_string_value(want), json_string_length(want)});
    return true;
}

static void run_one_pre(const char *pre, json_t *strings, json_t *splits, Tally *t) {
    Budget budget;
    Err err = {0};
    Pretok *p;
    th_budget_init(&budget, UINT64_MAX);
    if (!th_pretok_open(&p, th_str(pre), &budget, &err)) {
        tally_skip(t, "%s", err.message);
        th_budget_free(&budget);
        return;
    }
    for (size_t i = 0; i < json_array_size(strings); i++) {
        json_t *s = json_array_get(strings, i);
        Str text = {json_string_value(s), json_string_length(s)};
        Pieces pieces = {.want = json_array_get(splits, i), .same = true};
        err = (Err){0};
        bool ok = th_pretok_split(p, text, compare_piece, &pieces, &err) && pieces.same &&
                  pieces.n == json_array_size(pieces.want);
        char shown[200];
        th_str_escape(text, shown, sizeof shown);
        if (ok)
            tally_pass(t, "%s", pre);
        else
            tally_fail(t, "pre %s \"%s\": expected %zu pieces, got %zu (the same as far as they go: %s) %s", pre, shown,
                       json_array_size(pieces.want), pieces.n, pieces.same ? "yes" : "no", err.message);
    }
    th_pretok_close(p);
    th_budget_free(&budget);
}

static bool run_splits(const char *dir, Tally *t) {
    char path[1024];
    snprintf(path, sizeof path, "%s/pretok-splits.json", dir);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL), *strings = json_object_get(root, "strings"), *splits;
    const char *pre;
    bool is_set = json_is_array(strings);
    if (is_set) json_object_foreach(json_object_get(root, "splits"), pre, splits) run_one_pre(pre, strings, splits, t);
    json_decref(root);
    return is_set;
}

/* ---- the folder -------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *tail) {
    size_t n = strlen(name), k = strlen(tail);
    return n > k && strcmp(name + n - k, tail) == 0;
}

static bool has_pair(const char *dir, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.inp", dir, name);
    FILE *f = fopen(path, "rb");
    if (f) fclose(f);
    return f != NULL;
}

bool vectors_tokenizers(const char *dir, Tally *t) {
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, alphasort);
    if (n < 0) return false;
    bool any = false;
    for (int i = 0; i < n; i++) {
        char *name = entries[i]->d_name;
        if (ends_with(name, ".gguf.inp")) {
            name[strlen(name) - 4] = 0;
            run_pairs(dir, name, t);
            any = true;
        } else if (ends_with(name, ".gguf") && !has_pair(dir, name)) {
            run_alone(dir, name, t);
            any = true;
        } else if (strncmp(name, "extra-", 6) == 0 && ends_with(name, ".json")) {
            any = run_extra(dir, name, t) || any;
        }
        free(entries[i]);
    }
    free(entries);
    return run_splits(dir, t) || any;
}
