/* json_out.h: JSON as it is written, without holding it.
 *
 * A step of `score --top all` has as many numbers as the vocabulary has words: documents are streamed, commas and
 * quotes kept by a small stack. Strings are made valid UTF-8 (ill-formed parts become U+FFFD); numbers that JSON cannot
 * hold become null. (jansson reads JSON for us; it cannot print "%.9g" nor stream.) */
#ifndef TOOLS_JSON_OUT_H
#define TOOLS_JSON_OUT_H

#include "common/out.h"

#include <stdint.h>

typedef struct Json {
    Out *out;
    int depth;
    bool started[16], after_key;
    char closer[16];
} Json;

void jout_begin(Json *j, Out *out);
void jout_open(Json *j, char kind); /* '{' or '[' */
void jout_close(Json *j);
void jout_key(Json *j, const char *name);
void jout_string(Json *j, const char *bytes, size_t n);
void jout_text(Json *j, const char *s); /* NULL: null */
void jout_int(Json *j, int64_t v);
void jout_size(Json *j, uint64_t v);
void jout_real(Json *j, double v);  /* 6 digits */
void jout_exact(Json *j, double v); /* %.9g: two different floats never print alike */
/* [id, value] with value as json_exact: the one form that is written by the million. */
void jout_pair(Json *j, int64_t id, double v);
void jout_bool(Json *j, bool v);
void jout_null(Json *j);
/* Key and value at once. */
void jout_put_text(Json *j, const char *key, const char *s);
void jout_put_int(Json *j, const char *key, int64_t v);
void jout_put_size(Json *j, const char *key, uint64_t v);
void jout_put_real(Json *j, const char *key, double v);
void jout_put_bool(Json *j, const char *key, bool v);
/* Closes everything that is open and ends the line. */
void jout_end(Json *j);
#endif
