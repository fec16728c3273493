/* home.h: what the files of this folder share: the store, its weights, and the record a residency backend fills.
 *
 *     resident.c   bytes stay: a dense matrix, or its first parts
 *     stream.c     the other parts pass through a ring, read ahead in running order
 *     paged.c      expert bundles in slots
 *     mapped.c     the page cache's (for measuring)
 *     gather.c     embedding rows, read singly where the matrix is not resident
 *
 * plan.c decides (Decision and the fields marked "plan" of each Weight), th_weights_load makes it true. */
#ifndef THIMBLE_HOME_H
#define THIMBLE_HOME_H

#include "os/aio.h"
#include "os/sys.h"
#include "os/vm.h"
#include "weights/evict.h"
#include "weights/weights.h"

enum {
    MAX_SLOT_CLASSES = 8, /* as many as WeightsPlan holds */
    N_READERS = 4,        /* about where most devices stop getting faster */
    READER_BYTES = 64 * 1024, /* of a reader's stack that is ever touched, with what the C library keeps for it */
    GATHER_LANES = 8,     /* embedding rows read at the same time */
    FLOOR_RING = 3,       /* one part in use, one ready, one on its way */
    PART_BYTES = 1024 * 1024,
    SPREAD_ALL = 1 << 16
};

typedef struct HomeOps {
    const char *name;
    bool (*pin)(Weights *ws, const Weight *w, int part, View *view, Err *err);
    void (*unpin)(Weights *ws, View *view);
    bool (*ready)(const Weights *ws, const Weight *w, int part);
    void (*want)(Weights *ws, const Weight *w, const int *parts, int n);  /* NULL: nothing to do */
    void (*guess)(Weights *ws, const Weight *w, const int *parts, int n); /* NULL: nothing to do */
} HomeOps;
extern const HomeOps th_home_resident, th_home_mapped, th_home_stream, th_home_paged;

/* What a bundle remembers of each expert; lives as long as the store, so that heat outlasts a stay in a slot. */
typedef struct ExpertState {
    Heat heat;
    int32_t slot; /* in the class; -1: not in memory */
} ExpertState;

typedef struct BundlePaging {
    ExpertState *expert;             /* [experts] */
    uint32_t visit;                  /* how often the bundle was come to: the clock of its heats */
    int slot_class;                  /* plan */
    size_t member_at[MAX_BUNDLE];    /* where a member's span begins in a slot */
    uint64_t slot_bytes;             /* whole pages, with room for widened reads */
} BundlePaging;

struct Weight {
    const char *name;
    const GgufTensor *tensor;        /* NULL: a bundle */
    const File *file;
    const TypeInfo *type;
    int cols, rows, experts, flags;
    size_t row_bytes;
    uint64_t bytes;
    bool multiplied;                 /* matrix products use it; an embedding: it is the head too */
    bool keep;                       /* stays in memory before others do */
    Weight *next;                    /* in running order */
    int part_rows, n_parts;          /* dense matrices */
    int n_members;                   /* bundles */
    const Weight *member[MAX_BUNDLE];
    BundlePaging *paging;
    const HomeOps *home;             /* plan */
    int resident_parts;              /* plan: of a dense matrix, the first ones; of an expert tensor 0 or all experts */
    uint64_t place;                  /* plan: of its resident bytes in the resident region */
    int stream_first;                /* load: position of its first streamed part in the order */
    const char *memory;              /* load: resident bytes, or the mapped tensor */
};

typedef struct SlotClassPlan {
    uint64_t bytes;
    int layers, floor, most, count;  /* most: experts of all its bundles */
} SlotClassPlan;

typedef struct Decision {
    bool all_resident, mapped, paged, keep; /* keep: the matrices that ask for it are resident */
    int experts_used;
    int spread, embed_spread;        /* of SPREAD_ALL: resident share of product matrices, of gathered ones */
    int ring_slots, n_streamed;      /* parts in the stream order */
    uint64_t ring_slot_bytes;
    int n_classes;
    SlotClassPlan slot_class[MAX_SLOT_CLASSES];
    uint64_t resident_bytes;         /* before rounding */
    uint64_t row_span;               /* of the largest gathered row; 0: none are gathered */
} Decision;

typedef struct Stream Stream;
typedef struct Paged Paged;
typedef struct Gather Gather;

struct Weights {
    Gguf *gguf;
    const Kernels *kernels;
    Budget *budget;
    WeightsOptions options;
    Arena arena;
    Weight **by_tensor;              /* [gguf->n_tensors] */
    Weight *first, *last;            /* all, bundles included, in running order */
    bool has_output;                 /* output.weight was taken: embeddings are no heads */
    bool direct;                     /* all files allow direct reads */
    bool planned, loaded;
    Decision plan;
    void *resident;
    const void **maps;               /* [n_shards], mapped home */
    Aio *aio;
    uint64_t aio_charged;
    Stream *stream;
    Paged *paged;
    Gather *gather;
    uint64_t load_bytes;
    double load_s;
};

static inline bool th_weight_is_bundle(const Weight *w) { return w->tensor == NULL; }
static inline bool th_weight_is_vector(const Weight *w) { return (w->flags & WEIGHT_VECTOR) != 0; }
static inline bool th_weight_is_expert(const Weight *w) { return (w->flags & WEIGHT_EXPERTS) != 0; }
static inline bool th_weight_is_dense(const Weight *w) {
    return w->tensor && !(w->flags & (WEIGHT_VECTOR | WEIGHT_EXPERTS));
}
/* An embedding without a head beside it is the head (tied). */
static inline bool th_weight_is_product(const Weights *ws, const Weight *w) {
    return th_weight_is_dense(w) && (w->multiplied || !ws->has_output);
}
/* Rows and bytes of a part of a dense matrix, and where it begins in the file. */
static inline int th_part_rows(const Weight *w, int part) {
    return th_min_int(w->part_rows, w->rows - part * w->part_rows);
}
static inline size_t th_part_bytes(const Weight *w, int part) { return (size_t)th_part_rows(w, part) * w->row_bytes; }
static inline uint64_t th_part_offset(const Weight *w, int part) {
    return w->tensor->offset + (uint64_t)part * (uint64_t)w->part_rows * w->row_bytes;
}
static inline uint64_t th_parts_bytes(const Weight *w, int parts) { /* of the first ones */
    return parts >= w->n_parts ? w->bytes : (uint64_t)parts * (uint64_t)w->part_rows * w->row_bytes;
}
/* What a read of [offset, offset + bytes) fills when widened to the file's alignment, in whole pages of 4 KiB. */
static inline uint64_t th_read_span(const File *f, uint64_t offset, uint64_t bytes) {
    uint64_t align = th_max_size(f->align, 1);
    return th_align_up(th_align_up(offset + bytes, align) - th_align_down(offset, align), 4096);
}
/* Huge pages only for regions whose rounding to 2 MiB does not hurt. */
static inline bool th_weights_huge(uint64_t bytes) { return bytes >= 32 * TH_MIB; }

/* Resident bytes: one region, filled in running order. */
bool th_resident_load(Weights *ws, Err *err);
void th_resident_close(Weights *ws);
/* What lies in memory and stays there (resident, mapped): one view gives all from the part on, of n_there parts that
 * are in memory; unpinning does nothing. */
bool th_memory_pin(const Weight *w, int n_there, int part, View *view);
void th_memory_unpin(Weights *ws, View *view);
bool th_memory_ready(const Weights *ws, const Weight *w, int part);
bool th_mapped_load(Weights *ws, Err *err);
void th_mapped_close(Weights *ws);

/* Tables, besides ring and slots, that the backends take under MEM_IO: the plan counts them. */
uint64_t th_stream_table_bytes(int ring_slots, int n_streamed);
bool th_stream_open(Weights *ws, Err *err);
void th_stream_close(Weights *ws);
uint64_t th_paged_table_bytes(int slots);
bool th_paged_open(Weights *ws, Err *err);
void th_paged_close(Weights *ws); /* after th_aio_close */
void th_paged_stats(const Weights *ws, WeightsStats *out);
int th_paged_max_pins(const Weights *ws, const Weight *bundle);
bool th_paged_lookahead(const Weights *ws);
uint64_t th_gather_bytes(uint64_t row_span);
bool th_gather_open(Weights *ws, Err *err);
void th_gather_close(Weights *ws);
bool th_gather_rows(Weights *ws, const Weight *w, const int32_t *rows, int n, float *dst, Err *err);

/* "blk.3.ffn_up.weight: " in front of what a read said. */
bool th_weights_read_failed(const Weight *w, const Read *r, Err *err);

#endif
