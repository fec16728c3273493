/* embed.c: the embedding rows of a pass: gathered, never pinned, so that a table of a quarter million rows costs the
 * rows that are asked for. */
#include "op/op.h"

size_t th_embed_scratch(int T) { return th_scratch_size((size_t)T * sizeof(int32_t)); }

bool th_embed(Pass *p, float *x, const Weight *embd) {
    size_t mark = th_scratch_mark(p);
    int32_t *ids = th_scratch_take(p, (size_t)p->T * sizeof *ids);
    for (int t = 0; t < p->T; t++) ids[t] = p->rows[t].token;
    p->moved += th_weight_row_bytes(embd) * (size_t)p->T;
    bool ok = th_weights_rows(p->ws, embd, ids, p->T, x, p->err);
    th_scratch_reset(p, mark);
    return ok;
}
