/* vectors.h: what a kind of expected results reports to the runner. */
#ifndef THIMBLE_VECTORS_H
#define THIMBLE_VECTORS_H

#include "base/base.h"

typedef struct Tally {
    int passed, failed, skipped;
    bool verbose; /* -v: name each failure with expected and got */
} Tally;

void tally_pass(Tally *t, const char *format, ...) TH_PRINTF(2, 3);
void tally_fail(Tally *t, const char *format, ...) TH_PRINTF(2, 3); /* printed with -v */
void tally_skip(Tally *t, const char *format, ...) TH_PRINTF(2, 3); /* always printed  */

/* One file per kind; dir has the form of the folder of that name. False if dir holds no set of that kind. */
typedef bool VectorsFn(const char *dir, Tally *t);
VectorsFn vectors_quants, vectors_gguf, vectors_tokenizers, vectors_logits, vectors_arch_logits, vectors_ops,
    vectors_mtp;

#endif
