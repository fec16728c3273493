/* generate.h: one answer: sample, show, feed back, until the model ends it, a stop text appears, or there is no more
 * room. */
#ifndef TOOLS_GENERATE_H
#define TOOLS_GENERATE_H

#include "cmd.h"
#include "common/ids.h"
#include "common/text.h"

typedef enum Finish { FINISH_STOP, FINISH_LENGTH, FINISH_CONTEXT, FINISH_STOPPED_BY_USER, FINISH_ERROR } Finish;
const char *finish_name(Finish f); /* "stop", "length" or "error" */

/* Text that is shown as it comes, except for a tail that may turn out to be the start of a stop text. */
typedef struct Stops {
    const TextList *list;
    Text held;
} Stops;
/* Appends n bytes; *safe is what may be shown now (valid until the next call). True: a stop text was met, and nothing
 * from its first byte on is in *safe. */
bool stops_push(Stops *s, const char *bytes, size_t n, Text *safe);

typedef struct Answer {
    Ids ids;   /* every token chosen, an end-of-generation token included */
    Text text; /* only if asked for */
    Finish finish;
    double first_at; /* term_now() when the first token was there; 0: none was */
    ThimbleError error;
} Answer;

/* The session's logits are those of the prompt. predict < 0: no limit but the context. `echo`: stream to standard
 * output; otherwise collect in answer->text. */
void generate(Cli *cli, ThimbleModel *m, ThimbleSession *s, ThimbleSampler *sm, int predict, bool echo, Answer *answer);
void answer_free(Answer *a);
/* A sampler as the options ask for; *seed is what it starts from. */
void sampler_from_options(const Options *o, ThimbleSampler *sm);
#endif
