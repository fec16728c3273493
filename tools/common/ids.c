/* ids.c: see ids.h. */
#include "common/ids.h"

#include "common/options.h"
#include "common/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool widen(Ids *ids, size_t cap) {
    int32_t *p = realloc(ids->id, cap * sizeof *p);
    if (!p) return false;
    ids->id = p;
    ids->cap = cap;
    return true;
}

bool ids_reserve(Ids *ids, size_t n) {
    if (n > SIZE_MAX / 16 - ids->n) return false;
    return ids->cap - ids->n >= n || widen(ids, ids->n + n);
}

bool ids_append(Ids *ids, const int32_t *id, size_t n) {
    if (n > SIZE_MAX / 16 - ids->n || (ids->cap - ids->n < n && !widen(ids, (ids->n + n) * 2))) return false;
    if (n) memcpy(ids->id + ids->n, id, n * sizeof *id);
    ids->n += n;
    return true;
}

void ids_free(Ids *ids) {
    free(ids->id);
    *ids = (Ids){0};
}

static bool refuse_id(char *why, size_t size, const char *word) {
    char shown[48];
    text_printable(word, strnlen(word, 32), false, shown, sizeof shown);
    snprintf(why, size, "'%s' is not a token id (a whole number)", shown);
    return false;
}

static bool parse_plain(Ids *ids, const char *text, char *why, size_t size) {
    static const char blanks[] = " \t\r\n,";
    for (const char *c = text + strspn(text, blanks); *c; c += strspn(c, blanks)) {
        char word[48];
        size_t n = strcspn(c, blanks);
        long v;
        snprintf(word, sizeof word, "%.*s", (int)(n < 40 ? n : 40), c);
        if (n >= 40 || !options_parse_int(word, INT32_MIN, INT32_MAX, &v)) return refuse_id(why, size, word);
        int32_t id = (int32_t)v;
        if (!ids_append(ids, &id, 1)) return snprintf(why, size, "out of memory"), false;
        c += n;
    }
    return true;
}

static bool parse_json(Ids *ids, const Text *t, char *why, size_t size) {
    json_error_t e;
    json_t *root = json_loadb(t->p, t->n, JSON_DECODE_ANY, &e);
    bool fine = false;
    if (!json_is_array(root)) {
        snprintf(why, size, "not a JSON array of ids: %s", root ? "it is another kind of value" : e.text);
        goto end;
    }
    for (size_t i = 0; i < json_array_size(root); i++) {
        json_t *item = json_array_get(root, i);
        json_int_t v = json_integer_value(item);
        int32_t id = (int32_t)v;
        if (!json_is_integer(item) || v < INT32_MIN || v > INT32_MAX) {
            snprintf(why, size, "item %zu of the JSON array is not a token id (a whole number)", i);
            goto end;
        }
        if (!ids_append(ids, &id, 1)) {
            snprintf(why, size, "out of memory");
            goto end;
        }
    }
    fine = true;
end:
    json_decref(root);
    return fine;
}

bool ids_parse(Ids *ids, const char *text, size_t most, bool *io, char *why, size_t why_size) {
    Text t = {0};
    bool fine;
    *io = false;
    if (text[0] != '@') return parse_plain(ids, text, why, why_size);
    if (!text_read_file(&t, text + 1, most, why, why_size)) {
        *io = true;
        fine = false;
    } else if (!t.p) {
        fine = true;
    } else if (strlen(t.p) != t.n) {
        fine = refuse_id(why, why_size, "\\0");
    } else {
        fine = t.p[strspn(t.p, " \t\r\n")] == '[' ? parse_json(ids, &t, why, why_size)
                                                  : parse_plain(ids, t.p, why, why_size);
    }
    text_free(&t);
    return fine;
}

bool ids_check(const Ids *ids, int n_vocab, char *why, size_t why_size) {
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->id[i] >= 0 && ids->id[i] < n_vocab) continue;
        snprintf(why, why_size, "token id %d (position %zu) is out of range: this model has ids 0 to %d", ids->id[i], i,
                 n_vocab - 1);
        return false;
    }
    return true;
}
