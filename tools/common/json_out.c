/* json_out.c: see json_out.h. */
#include "common/json_out.h"

#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void jout_begin(Json *j, Out *out) { *j = (Json){.out = out}; }

static void separate(Json *j) {
    if (j->after_key)
        j->after_key = false;
    else if (j->depth && j->started[j->depth - 1])
        out_write(j->out, ",", 1);
    if (j->depth) j->started[j->depth - 1] = true;
}

void jout_open(Json *j, char kind) {
    separate(j);
    out_write(j->out, &kind, 1);
    j->started[j->depth] = false;
    j->closer[j->depth++] = kind == '{' ? '}' : ']';
}

void jout_close(Json *j) {
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

void jout_key(Json *j, const char *name) {
    separate(j);
    write_string(j->out, name, strlen(name));
    out_write(j->out, ":", 1);
    j->after_key = true;
}

void jout_string(Json *j, const char *bytes, size_t n) {
    separate(j);
    write_string(j->out, bytes, n);
}

void jout_text(Json *j, const char *s) {
    if (s)
        jout_string(j, s, strlen(s));
    else
        jout_null(j);
}

void jout_int(Json *j, int64_t v) {
    separate(j);
    out_printf(j->out, "%" PRId64, v);
}

void jout_size(Json *j, uint64_t v) {
    separate(j);
    out_printf(j->out, "%" PRIu64, v);
}

void jout_real(Json *j, double v) {
    if (!isfinite(v)) {
        jout_null(j);
        return;
    }
    separate(j);
    out_printf(j->out, "%.6g", v);
}

void jout_exact(Json *j, double v) {
    if (!isfinite(v)) {
        jout_null(j);
        return;
    }
    separate(j);
    out_printf(j->out, "%.9g", v);
}

void jout_pair(Json *j, int64_t id, double v) {
    separate(j);
    if (isfinite(v))
        out_printf(j->out, "[%" PRId64 ",%.9g]", id, v);
    else
        out_printf(j->out, "[%" PRId64 ",null]", id);
}

void jout_bool(Json *j, bool v) {
    separate(j);
    out_string(j->out, v ? "true" : "false");
}

void jout_null(Json *j) {
    separate(j);
    out_string(j->out, "null");
}

void jout_put_text(Json *j, const char *key, const char *s) {
    jout_key(j, key);
    jout_text(j, s);
}

void jout_put_int(Json *j, const char *key, int64_t v) {
    jout_key(j, key);
    jout_int(j, v);
}

void jout_put_size(Json *j, const char *key, uint64_t v) {
    jout_key(j, key);
    jout_size(j, v);
}

void jout_put_real(Json *j, const char *key, double v) {
    jout_key(j, key);
    jout_real(j, v);
}

void jout_put_bool(Json *j, const char *key, bool v) {
    jout_key(j, key);
    jout_bool(j, v);
}

void jout_end(Json *j) {
    while (j->depth) jout_close(j);
    out_write(j->out, "\n", 1);
    out_flush(j->out);
}
