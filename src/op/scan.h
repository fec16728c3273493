/* scan.h: recurrent memories: causal convolutions and gated scans over the rows of a pass, in place, whatever blocks
 * make of them (Gated DeltaNet, KDA, Mamba-2, short convolution).
 *
 * A recurrence is computed token by token in every pass, also in prefill: a block of columns of a head's memory stays
 * in the first cache level across all tokens of a run, and work is cut by heads and columns, never by tokens. So the
 * bits do not depend on T, on how a prompt is split or on threads.
 *
 * A pass whose rows may be taken back (drafts) leaves memories as they were: each layer scans in a copy of a block at a
 * time, which is thrown away, and notes what came in. How many rows hold is known after the pass; then the memories
 * move on by just those, from the notes, with the same operations. Notes are kilobytes where a memory is a megabyte.
 *
 * The memory of a scan may be kept in binary16. Then it is computed in floats, a block at a time in a copy as well, and
 * after EVERY token the whole block is what binary16 makes of it: where a pass, a trial or a snapshot ends cannot show,
 * since nothing is ever remembered in more bits. The rows of convolutions are few and stay f32. */
#ifndef THIMBLE_SCAN_H
#define THIMBLE_SCAN_H

#include "op/op.h"

/* What a pass on trial would have moved memories with: a list of notes, one for each th_conv and th_scan. The memory
 * for them is the caller's, aligned to 64; see th_conv_note_bytes and th_scan_note_bytes for its size. */
typedef struct ScanNote ScanNote;
typedef struct ScanJournal {
    char *memory;
    size_t bytes, used;
    ScanNote *first, *last;
} ScanJournal;

/* Rows of one sequence in a pass, and one layer's recurrent memory of it. A run that begins at position 0 begins with
 * zeros, whatever the memory holds. */
typedef struct ScanRun {
    int row, n;
    int position; /* of the first row */
    char *memory;
    int state_type;       /* THIMBLE_STATE_*: of scans; the same in all runs of a pass */
    ScanJournal *journal; /* NULL: the memory moves on; otherwise it stays, and the pass consists of this run alone */
    /* [threads][work_floats]: a block's copy for each thread, th_scan_work_floats of the largest layer. With a journal
     * or another type than f32; otherwise unused */
    float *work;
    size_t work_floats;
} ScanRun;
/* Moves every memory of the pass on by its first `rows` rows (0: nothing to do, it stays). The work of its run must
 * still be there. */
void th_scan_settle(Pool *pool, const Kernels *k, const ScanJournal *j, int rows);

/* ---- causal depthwise convolution over time ------------------------------------------------------------------------
 */

enum { MAX_CONV_TAPS = 16 };
/* Memory: [taps - 1][channels] f32 at byte `at` of the layer's; the row of position p lies at p % (taps - 1). */
typedef struct ConvSpec {
    const float *w;    /* [channels][taps]; the last tap multiplies the current token */
    const float *bias; /* [channels] or NULL */
    int channels, taps;
    bool silu;
    size_t at;
} ConvSpec;
static inline uint64_t th_conv_bytes(int channels, int taps) {
    return th_align_up((uint64_t)(taps - 1) * (uint64_t)channels * sizeof(float), 64);
}
size_t th_conv_note_bytes(int channels, int T);
/* x [T][channels], rows x_stride floats apart, becomes its convolution in place; memories move on. */
void th_conv(Pass *p, const ConvSpec *c, const ScanRun *runs, int n_runs, float *x, size_t x_stride);

/* ---- gated scans (the rules of ScanKernel) -------------------------------------------------------------------------
 */

typedef enum ScanRule { SCAN_RULE_DELTA, SCAN_RULE_DELTA_KEYS, SCAN_RULE_ADD } ScanRule;
/* Memory: per head its blocks of SCAN_COLS (the last one fewer) value columns, each [keys][columns], values of the
 * run's state_type, at byte `at`. */
typedef struct ScanSpec {
    ScanRule rule;
    int heads, keys, values;
    int key_heads; /* q and k have these; heads is a multiple */
    bool grouped;  /* head j uses key head j / (heads / key_heads); else j % key_heads */
    size_t at;
} ScanSpec;
static inline size_t th_scan_value_bytes(int state_type) {
    return state_type == THIMBLE_STATE_F16 ? sizeof(uint16_t) : sizeof(float);
}
static inline uint64_t th_scan_bytes(const ScanSpec *s, int state_type) {
    return th_align_up((uint64_t)s->heads * (uint64_t)s->keys * (uint64_t)s->values * th_scan_value_bytes(state_type),
                       64);
}
size_t th_scan_note_bytes(const ScanSpec *s, int T);
static inline size_t th_scan_work_floats(const ScanSpec *s) {
    return (size_t)s->keys * (size_t)th_min_int(SCAN_COLS, s->values);
}
/* Where value column e of head j keeps its key i: index into the values of that memory. */
size_t th_scan_index(const ScanSpec *s, int head, int key, int value);

typedef struct ScanRows {
    const float *q, *k; /* [T][key_heads][keys] */
    const float *v;     /* [T][heads][values] */
    const float *a;     /* [T][heads], DELTA_KEYS: [T][heads][keys]: decays */
    const float *beta;  /* [T][heads] */
    float *o;           /* [T][heads][values] */
    size_t q_stride, k_stride, v_stride, a_stride, beta_stride, o_stride; /* floats from row to row */
} ScanRows;
void th_scan(Pass *p, const ScanSpec *s, const ScanRun *runs, int n_runs, const ScanRows *rows);

/* ---- row-wise helpers ----------------------------------------------------------------------------------------------
 */

/* Each of `heads` vectors of n per row, rows x_stride floats apart: x *= scale / max(sqrt(sum x^2), eps). */
void th_l2_norm(Pass *p, float *x, size_t x_stride, int n, int heads, int T, float eps, float scale);
/* y *= sigmoid(gate) over T rows of n. */
void th_sigmoid_mul(Pass *p, float *y, size_t y_stride, const float *gate, size_t gate_stride, int n, int T);
/* Decays per key (KDA): f [T][heads][n] = exp(bound * sigmoid(a[head] * (f + dt))), dt [heads][n], a [heads]. */
void th_key_decay(Pass *p, float *f, const float *dt, const float *a, float bound, int n, int heads, int T);

#endif
