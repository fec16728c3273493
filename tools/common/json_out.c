/* json_out.c: see json_out.h. */
#include "common/json_out.h"

#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void json_begin(Json *j, Out *out) { *j = (Json){.out = out}; }

static void separate(Json *j) {
    if (j->after_key)
        j->after_key = false;
    else if (j->depth && j->started[j->depth - 1])
        out_write(j->out, ",", 1);
    if (j->depth) j->started[j->depth - 1] = true;
}

void json_open(Json *j, char kind) {
    separate(j);
    out_write(j->out, &kind, 1);
    j->started[j->depth] = false;
    j->closer[j->depth++] = kind == '{' ? '}' : ']';
}

void json_close(Json *j) {
    j->depth--;
    out_write(j->out, &j->closer[j->depth], 1);
}

static void write_string(Out *out, const char *s, size_t n) {
    out_write(out, "\"", 1);
    for (size_t i = 0; i < n;) {
        size_t bad, len = text_utf8(s + i, n - i, &bad);
        unsigned char c = (unsigned char)s[i];
        if (!len) {
            out_write(out, "\xEF\xBF\xBD", 3);
            len = bad;
        } else if (c == '"' || c == '\\') {
            out_printf(out, "\\%c", c);
        } else if (c == '\n') {
            out_write(out, "\\n", 2);
        } else if (c < 0x20 || c == 0x7F) {
            out_printf(out, "\\u%04x", c);
        } else {
            out_write(out, s + i, len);
        }
        i += len;
    }
    out_write(out, "\"", 1);
}

void json_key(Json *j, const char *name) {
    separate(j);
    write_string(j->out, name, strlen(name));
    out_write(j->out, ":", 1);
    j->after_key = true;
}

void json_string(Json *j, const char *bytes, size_t n) {
    separate(j);
    write_string(j->out, bytes, n);
}

void json_text(Json *j, const char *s) {
    if (s)
        json_string(j, s, strlen(s));
    else
        json_null(j);
}

void json_int(Json *j, int64_t v) {
    separate(j);
    out_printf(j->out, "%" PRId64, v);
}

void json_size(Json *j, uint64_t v) {
    separate(j);
    out_printf(j->out, "%" PRIu64, v);
}

void json_real(Json *j, double v) {
    if (!isfinite(v)) {
        json_null(j);
        return;
    }
    separate(j);
    out_printf(j->out, "%.6g", v);
}

void json_exact(Json *j, double v) {
    if (!isfinite(v)) {
        json_null(j);
        return;
    }
    separate(j);
    out_printf(j->out, "%.9g", v);
}

void json_pair(Json *j, int64_t id, double v) {
    separate(j);
    if (isfinite(v))
        out_printf(j->out, "[%" PRId64 ",%.9g]", id, v);
    else
        out_printf(j->out, "[%" PRId64 ",null]", id);
}

void json_bool(Json *j, bool v) {
    separate(j);
    out_string(j->out, v ? "true" : "false");
}

void json_null(Json *j) {
    separate(j);
    out_string(j->out, "null");
}

void json_put_text(Json *j, const char *key, const char *s) {
    json_key(j, key);
    json_text(j, s);
}

void json_put_int(Json *j, const char *key, int64_t v) {
    json_key(j, key);
    json_int(j, v);
}

void json_put_size(Json *j, const char *key, uint64_t v) {
    json_key(j, key);
    json_size(j, v);
}

void json_put_real(Json *j, const char *key, double v) {
    json_key(j, key);
    json_real(j, v);
}

void json_put_bool(Json *j, const char *key, bool v) {
    json_key(j, key);
    json_bool(j, v);
}

void json_end(Json *j) {
    while (j->depth) json_close(j);
    out_write(j->out, "\n", 1);
    out_flush(j->out);
}
