/* weights.h: where a weight is now: nobody above this floor can ask.
 *
 * A Weight is a matrix of n_rows rows of n_cols (GGUF dim[0]) weights, or a bundle of expert matrices that are always
 * used together ({gate, up, down}: part e of the bundle is expert e of each member). A dense matrix is cut into parts
 * of whole rows of about 1 MiB; View says which rows it covers (a home that has more rows at hand may cover several
 * parts at once).
 *
 *     find/bundle (bind, in the order they run) -> plan -> load -> { want* pin use unpin }* -> close
 *
 * Pinned bytes never move and equal the file's. The plan guarantees slots >= pins in flight, so a pin may wait for I/O
 * but never for another pin. One thread at a time calls these functions (the one that runs passes). */
#ifndef THIMBLE_WEIGHTS_H
#define THIMBLE_WEIGHTS_H

#include "base/log.h"
#include "gguf/gguf.h"
#include "kernel/kernel.h"

enum { MAX_BUNDLE = 3 };
enum { WEIGHT_OPTIONAL = 1, /* find returns true with *out NULL if the tensor is absent                          */
       WEIGHT_VECTOR = 2,   /* small, always resident as f32: th_weights_f32 gives it (norms, biases, routers)     */
       WEIGHT_EMBED = 4,    /* rows are gathered with th_weights_rows (may be the head's matrix as well)           */
       WEIGHT_EXPERTS = 8,  /* three-dimensional: one matrix per expert; used through a bundle                    */
       WEIGHT_FLAT = 16 };  /* dimensions beyond the first are all taken as rows (one matrix per head, in a row)   */

typedef struct Weight Weight;
typedef struct Weights Weights;

typedef struct View {
    const void *ptr[MAX_BUNDLE]; /* first byte of the part; one per member of a bundle */
    int row0, rows;              /* rows covered (of a member: all of its rows)       */
    int parts;                   /* parts covered, 1 for bundles                      */
    const Weight *weight;
    int part;
    void *token;                 /* the home's */
} View;

/* Shape of a matrix, for everyone. */
const TypeInfo *th_weight_type(const Weight *w);
const char *th_weight_name(const Weight *w);
int th_weight_cols(const Weight *w);       /* dim[0] */
int th_weight_rows(const Weight *w);       /* dim[1]; of an expert tensor: per expert */
int th_weight_experts(const Weight *w);    /* dim[2]; 1 otherwise */
size_t th_weight_row_bytes(const Weight *w);
uint64_t th_weight_bytes(const Weight *w); /* of all of it */

/* ---- at bind --------------------------------------------------------------------------------------------------- */
typedef struct WeightsOptions {
    int home;      /* THIMBLE_HOME_* */
    int slots;     /* 0: from the budget */
    int evict;     /* THIMBLE_EVICT_* */
    int lookahead; /* THIMBLE_AUTO/ON/OFF */
    const ThimbleLog *log;
    const ThimbleProgress *progress;
} WeightsOptions;
bool th_weights_open(Weights **out, Gguf *g, const Kernels *k, Budget *b, const WeightsOptions *o, Err *err);
void th_weights_close(Weights *ws); /* NULL allowed; after nobody pins */

/* Checks name and shape {cols, rows, experts} against the file; 0 in `shape` accepts any size; a vector may be written
 * with dimensions of 1 anywhere ([n], [1, n], [k, 1, n, 1]). Call in running order:
 * it is the order in which streamed weights are read ahead. A weight found again without WEIGHT_EMBED moves to the
 * end: that is how a head that shares the embedding's matrix is taken. (An embedding is expected to be the head, too,
 * unless "output.weight" was found.) */
typedef struct Shape { int64_t cols, rows, experts; } Shape;
bool th_weights_find(Weights *ws, const char *name, Shape shape, int flags, const Weight **out, Err *err);
/* Members were found with WEIGHT_EXPERTS and have the same number of experts; n <= MAX_BUNDLE. */
bool th_weights_bundle(Weights *ws, const Weight *const *members, int n, const Weight **out, Err *err);
const Weight *th_weights_member(const Weight *bundle, int i); /* NULL beyond the last */
bool th_weights_has(const Weights *ws, const char *name);

/* Dense matrices whose names begin so are used several times in a pass: they stay in memory before others do. */
void th_weights_keep(Weights *ws, const char *prefix);

/* ---- plan and load --------------------------------------------------------------------------------------------- */
typedef struct WeightsNeed {
    uint64_t vectors;       /* always resident, as f32                                                 */
    uint64_t dense;         /* matrices outside expert banks                                           */
    uint64_t experts;       /* expert banks                                                            */
    uint64_t floor_ring;    /* smallest stream ring if all dense weights stream; 0 if there are none    */
    uint64_t floor_slots;   /* smallest slots: 2 * experts_used + 1 bundles of each size class          */
    uint64_t io;            /* bounce buffers, readers, tables                                          */
    uint64_t floor;         /* smallest number that th_weights_plan accepts, exact                      */
    uint64_t all;           /* what it takes to keep everything in memory                              */
} WeightsNeed;
/* experts_used: most experts one token uses (for the floor of slots). */
void th_weights_need(const Weights *ws, int experts_used, WeightsNeed *out);
typedef struct WeightsPlan {
    uint64_t resident, ring, slots, io;      /* bytes that th_weights_load will take */
    struct { uint64_t bytes; int count, layers; } slot_class[8];
    int n_slot_classes;
    uint64_t streamed_per_pass;              /* bytes read per pass because they do not stay */
    double hit_rate;                         /* guess from slots / experts */
} WeightsPlan;
/* Gives each weight a home so that everything fits `bytes` (for weights, ring, slots and io together); E_BUDGET with
 * need and have if not even the floor fits. Pure: takes no memory. May be called again with other numbers. */
bool th_weights_plan(Weights *ws, uint64_t bytes, int experts_used, WeightsPlan *out, Err *err);
bool th_weights_load(Weights *ws, Err *err); /* takes the planned memory, reads what is resident; progress callback */

/* ---- in a pass ------------------------------------------------------------------------------------------------- */
int th_weights_parts(const Weight *w); /* bundle: experts */
const float *th_weights_f32(const Weight *w); /* WEIGHT_VECTOR only, after load; [rows][cols] as f32 */
/* The first rows of a dense matrix that no read is needed for: guesses may depend on it, results must not. */
int th_weights_resident_rows(const Weight *w);
/* Gathers rows (dequantised) of a WEIGHT_EMBED matrix: dst [n][cols]. */
bool th_weights_rows(Weights *ws, const Weight *w, const int32_t *rows, int n, float *dst, Err *err);
void th_weights_want(Weights *ws, const Weight *w, const int *parts, int n);  /* certain soon; never blocks           */
void th_weights_guess(Weights *ws, const Weight *w, const int *parts, int n); /* lookahead: only into idle time       */
bool th_weights_lookahead(const Weights *ws);                                 /* guesses are wanted at all            */
bool th_weights_ready(const Weights *ws, const Weight *w, int part);          /* pin would not wait: order work by it */
bool th_weights_pin(Weights *ws, const Weight *w, int part, View *view, Err *err); /* may wait for I/O                */
void th_weights_unpin(Weights *ws, View *view);                               /* cannot fail                          */
/* How many parts of it may be pinned or wanted at once; more wants are ignored. At least experts_used. */
int th_weights_max_pins(const Weights *ws, const Weight *bundle);
/* Between passes: E_IO if a file of the model changed since it was opened. */
bool th_weights_check(Weights *ws, Err *err);

typedef struct WeightsStats {
    uint64_t hits, misses, guess_used; /* each pin of an expert once: lay there, was read for it, was guessed right */
    uint64_t guess_wasted;             /* guesses that were thrown out unused                                         */
    uint64_t slots, expert_bytes;      /* of all sizes; bytes read for experts                                        */
    double expert_stall_s;
    uint64_t io_bytes;      /* all weight bytes read, those at load included */
    double io_read_s, io_stall_s; /* the readers' time, summed; what callers waited for them */
    double flash_rate; /* bytes per second while the readers read; 0: they did not */
    const char *io_mode; /* "direct", "buffered" (reading at load always is), "mapped" */
    const char *io_backend; /* "threads"; "none" if all is read at load */
} WeightsStats;
/* All that stays in memory, as one region; NULL: nothing does. */
const void *th_weights_resident(const Weights *ws, size_t *bytes);
void th_weights_stats(const Weights *ws, WeightsStats *out);

#endif
