/* report.h: what happened, for people (the closing line) and for scripts (STATS). */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include "cmd.h"
#include "common/generate.h"
#include "common/json_out.h"

typedef struct Report {
    ThimbleStats stats;
    uint64_t generated; /* tokens chosen; one more than were fed back */
    bool has_seed;
    uint64_t seed;
    double prefill_tps, decode_tps, bytes_per_token, hit_rate, reached; /* 0 where there is nothing to divide */
} Report;

void report_make(Report *r, const ThimbleSession *s, uint64_t generated);
void report_closing_line(Cli *cli, const Report *r);
/* {"text", "tokens", "finish", "stats"}, a line: an answer. */
void report_answer(Out *out, const Answer *a, const Report *r);
/* The value of "stats". */
void report_json(Json *j, const Report *r);
#endif
