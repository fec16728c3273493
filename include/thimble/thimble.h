/* thimble.h: run language models that are larger than the memory they get.
 *
 * The only public header. A ThimbleModel is an opened GGUF file inside one hard memory budget; a ThimbleSession is one
 * timeline of tokens on it. The library never prints, exits, raises signals or reads the environment; what it has to
 * say goes to the log callback, what went wrong into the ThimbleError of the call.
 *
 * Threads: one thread at a time per session. Calls on different sessions of one model may come from different threads;
 * they are serialised inside. A model may be closed only after its sessions.
 *
 * Structs with `struct_size` first are filled by their *_init function; fields are only ever added at the end. */
#ifndef THIMBLE_H
#define THIMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define THIMBLE_API __attribute__((visibility("default")))
#else
#define THIMBLE_API
#endif

#define THIMBLE_VERSION_MAJOR 0
#define THIMBLE_VERSION_MINOR 1
#define THIMBLE_VERSION_PATCH 0

typedef struct ThimbleModel ThimbleModel;
typedef struct ThimbleSession ThimbleSession;

/* Every function that can fail returns one of these; THIMBLE_OK is 0, all others are negative. */
enum {
    THIMBLE_OK = 0,
    THIMBLE_E_ARG = -1,          /* an argument is out of range; the message names it and its limit           */
    THIMBLE_E_IO = -2,           /* a read or write failed, or the file changed while it was in use            */
    THIMBLE_E_FORMAT = -3,       /* the file is damaged or breaks the rules of its format                     */
    THIMBLE_E_UNSUPPORTED = -4,  /* a sound file of a kind this build cannot run; the message names the kind   */
    THIMBLE_E_BUDGET = -5,       /* the budget is below the floor; the message holds both numbers              */
    THIMBLE_E_NOMEM = -6,        /* the system refused memory that the budget allowed                         */
    THIMBLE_E_CONTEXT_FULL = -7, /* more tokens than the context holds; nothing was evaluated                 */
    THIMBLE_E_STATE = -8,        /* the call does not fit the state (rewinding further than the memory keeps) */
    THIMBLE_E_CANCELLED = -9     /* a callback asked to stop; the session stays usable at its last position    */
};

/* Caller-owned, may be NULL, always the last argument. Untouched on success. */
typedef struct ThimbleError {
    int code;
    char message[512];
} ThimbleError;

enum { THIMBLE_LOG_NOTICE = 1, THIMBLE_LOG_WARN = 2, THIMBLE_LOG_DEBUG = 3 };
typedef struct ThimbleLog {
    void (*fn)(void *arg, int level, const char *message); /* one sentence, no newline; NULL: silent */
    void *arg;
} ThimbleLog;

enum { THIMBLE_PHASE_LOAD = 1, THIMBLE_PHASE_PREFILL = 2 };
/* Called between steps with done <= total (bytes while loading, tokens in prefill). A return value other than 0 cancels
 * with THIMBLE_E_CANCELLED. Runs on the calling thread. */
typedef struct ThimbleProgress {
    int (*fn)(void *arg, int phase, uint64_t done, uint64_t total); /* NULL: none */
    void *arg;
} ThimbleProgress;

/* Where weights live. AUTO lets the plan decide; the others force one home for all weights that can have it (tests,
 * measurements). MAPPED uses the page cache, cannot keep a budget and is refused together with an explicit one. */
enum { THIMBLE_HOME_AUTO = 0, THIMBLE_HOME_RESIDENT, THIMBLE_HOME_MAPPED, THIMBLE_HOME_STREAM, THIMBLE_HOME_PAGED };
enum { THIMBLE_LOAD_ALL = 0, THIMBLE_LOAD_VOCAB, THIMBLE_LOAD_NOTHING };
enum { THIMBLE_CACHE_F16 = 0, THIMBLE_CACHE_F32, THIMBLE_CACHE_Q8_0 };
enum { THIMBLE_STATE_F32 = 0, THIMBLE_STATE_F16 };
enum { THIMBLE_EVICT_AUTO = 0, THIMBLE_EVICT_LRU, THIMBLE_EVICT_LFU };
enum { THIMBLE_AUTO = 0, THIMBLE_ON = 1, THIMBLE_OFF = 2 };
/* Guessing tokens ahead (thimble_session_next): AUTO guesses where weights stream and as far as it pays, by MTP heads
 * and by looking up what followed earlier; MTP and LOOKUP always guess, by that means alone. No answer changes. */
enum { THIMBLE_DRAFT_AUTO = 0, THIMBLE_DRAFT_OFF, THIMBLE_DRAFT_MTP, THIMBLE_DRAFT_LOOKUP };

typedef struct ThimbleModelOptions {
    size_t struct_size;
    uint64_t budget;  /* bytes for everything the process takes; 0: what system and cgroup leave free, less a margin */
    int threads;      /* compute threads; 0: the fast physical cores that affinity and CPU quota allow               */
    int context;      /* tokens a session can hold; 0: the model's, at most 4096, lowered to fit the budget          */
    int sessions;     /* sessions that may be open at the same time; 0 means 1                                       */
    int batch;        /* most tokens in one pass; 0: as many as scratch permits (up to 512)                          */
    int load;         /* THIMBLE_LOAD_*: VOCAB opens only the tokenizer, NOTHING only the description of the file    */
    int home;         /* THIMBLE_HOME_*                                                                              */
    int slots;        /* forces the number of expert slots; 0: from the budget                                       */
    int lookahead;    /* THIMBLE_AUTO/ON/OFF: read ahead what the next layer's router will probably ask for          */
    int evict;        /* THIMBLE_EVICT_*                                                                             */
    int cache_type;   /* THIMBLE_CACHE_*: precision of the KV cache                                                  */
    int experts;      /* lossy: experts per token instead of the model's number; 0: off                              */
    float route_bias; /* lossy: added to the selection score of experts that are in memory; 0: off                   */
    const char *isa;  /* comma-separated instruction sets to allow ("c", "avx2", ...); NULL: all the CPU has         */
    ThimbleLog log;
    ThimbleProgress progress;
    int checkpoints; /* earlier states of recurrent memory each session may keep to go back to (hybrid models; megabytes
                      * each); 0: from what the budget leaves above the floor, at most 16; -1: none */
    int draft;     /* THIMBLE_DRAFT_*; what it needs (rows of logits, recurrent memories) is a part of the plan       */
    int draft_max; /* most guesses that one pass proves, up to 15; 0: 8                                               */
    int state_type; /* THIMBLE_STATE_*: precision of recurrent memory (hybrid models; others ignore it)               */
} ThimbleModelOptions;

/* Fills the defaults above. */
THIMBLE_API void thimble_model_options_init(ThimbleModelOptions *o);

/* What a budget buys, computed from the file's header alone: nothing is loaded, no tokenizer is built. */
typedef struct ThimblePlan {
    size_t struct_size;
    uint64_t floor;  /* smallest budget for this context and thread count with batch 1 (context 0: 512)       */
    uint64_t budget; /* the budget planned for                                                               */
    bool fits;
    int context, max_context; /* planned; largest that fits this budget (0: none)                            */
    int batch, threads;
    uint64_t metadata, resident, stream_ring, slots, kv, scratch, io, reserve; /* parts of the budget, bytes  */
    uint64_t file_bytes, expert_bytes, dense_bytes;
    struct {
        uint64_t bytes;
        int count, layers;
    } slot_class[8]; /* expert slots by size                       */
    int n_slot_classes;
    double decode_tps, prefill_tps, hit_rate; /* predictions from rough device figures; 0: unknown             */
    int checkpoints; /* of recurrent memory for each session; part of kv                                   */
} ThimblePlan;

/* THIMBLE_OK with out->fits false when the budget is below the floor. out->struct_size is set by the caller
 * (sizeof *out). Errors: IO, FORMAT, UNSUPPORTED, ARG. */
THIMBLE_API int thimble_plan(const char *path, const ThimbleModelOptions *o, ThimblePlan *out, ThimbleError *e);

/* path: a GGUF file, any shard of a split set, or the folder that holds one. On failure *out is NULL.
 * Errors: all but STATE. BUDGET is decided before anything is loaded. */
THIMBLE_API int thimble_model_open(ThimbleModel **out, const char *path, const ThimbleModelOptions *o, ThimbleError *e);
THIMBLE_API void thimble_model_close(ThimbleModel *m); /* NULL allowed */

/* Description of an opened model; strings and arrays live as long as the model. */
typedef struct ThimbleTypeUse {
    const char *name;   /* "Q4_K"                                                                          */
    const char *origin; /* the kernel that serves it, "kq_avx512"; NULL: data that is never multiplied       */
    uint64_t tensors, bytes;
} ThimbleTypeUse;
typedef struct ThimbleModelInfo {
    size_t struct_size;
    const char *path, *architecture, *name; /* name: general.name, "" if absent                             */
    bool supported;                         /* this build can run the architecture                          */
    const char *why_unsupported;            /* NULL if supported                                            */
    uint64_t file_bytes, n_params, expert_bytes, dense_bytes;
    int shards, layers, embedding, heads, heads_kv, experts, experts_used, trained_context;
    int context, batch, threads;                 /* as planned; 0 if nothing was loaded                          */
    int n_vocab;                                 /* rows of the logits                                           */
    const char *isa;                             /* instruction sets in use                                      */
    const char *file_type;                       /* summary name of general.file_type, "Q4_K - Medium" etc.       */
    const char *tokenizer_model, *tokenizer_pre; /* NULL if absent                                          */
    bool has_chat_template, add_bos, add_eos;
    int32_t bos, eos;   /* -1: none                                                     */
    const int32_t *eog; /* end-of-generation ids, ascending (empty with LOAD_NOTHING off) */
    size_t n_eog;
    const ThimbleTypeUse *types;
    size_t n_types;
} ThimbleModelInfo;
THIMBLE_API const ThimbleModelInfo *thimble_model_info(const ThimbleModel *m);

/* ---- text and tokens ------------------------------------------------------------------------------------------ */

enum {
    THIMBLE_TOK_SPECIAL = 1, /* texts of control tokens become those tokens (never use it on untrusted text)  */
    THIMBLE_TOK_BOS = 2,     /* put BOS in front whatever the file says                                       */
    THIMBLE_TOK_NO_BOS = 4,  /* never put BOS in front; without either flag the file's rule decides            */
    THIMBLE_TOK_NO_EOS = 8   /* never append EOS; without it the file's rule decides                          */
};
/* Writes at most cap ids and the full count to *n: call again with a larger array if *n > cap (that is not an error).
 * text need not be valid UTF-8 nor end with NUL. Errors: ARG, UNSUPPORTED (no usable tokenizer in the file), NOMEM. */
THIMBLE_API int thimble_tokenize(ThimbleModel *m, const char *text, size_t len, int flags, int32_t *tok, size_t cap,
                                 size_t *n, ThimbleError *e);
/* Bytes a token stands for, without NUL; control tokens give nothing unless show_special. Returns the full length,
 * writes at most cap. An id outside the vocabulary gives 0. */
THIMBLE_API size_t thimble_token_bytes(const ThimbleModel *m, int32_t tok, bool show_special, char *buf, size_t cap);
/* Raw text of a vocabulary entry as the file spells it ("Ġthe"); same return as above. */
THIMBLE_API size_t thimble_token_text(const ThimbleModel *m, int32_t tok, char *buf, size_t cap);
THIMBLE_API int32_t thimble_token_find(const ThimbleModel *m, const char *text); /* id with exactly this text, or -1 */
THIMBLE_API bool thimble_token_is_eog(const ThimbleModel *m, int32_t tok);
THIMBLE_API bool thimble_token_is_control(const ThimbleModel *m, int32_t tok);

/* Turns tokens into valid UTF-8 as they come: at most 3 bytes of an unfinished character are held back, bytes that
 * can never become valid turn into U+FFFD. Zero-initialised by the caller. */
typedef struct ThimbleDetok {
    unsigned char held[8];
    size_t n_held;
} ThimbleDetok;
/* out needs room for the token's bytes * 3 + 16. Returns the bytes written; writes nothing beyond cap. */
THIMBLE_API size_t thimble_detok_push(const ThimbleModel *m, ThimbleDetok *d, int32_t tok, char *out, size_t cap);
THIMBLE_API size_t thimble_detok_end(ThimbleDetok *d, char *out, size_t cap); /* flushes what is held as U+FFFD */

/* ---- sessions -------------------------------------------------------------------------------------------------- */

typedef struct ThimbleSessionOptions {
    size_t struct_size;
    ThimbleProgress progress; /* prefill */
} ThimbleSessionOptions;
THIMBLE_API void thimble_session_options_init(ThimbleSessionOptions *o);

/* o may be NULL. Errors: BUDGET (more sessions than planned), NOMEM, STATE (model opened without weights). */
THIMBLE_API int thimble_session_open(ThimbleSession **out, ThimbleModel *m, const ThimbleSessionOptions *o,
                                     ThimbleError *e);
THIMBLE_API void thimble_session_close(ThimbleSession *s); /* NULL allowed */

/* Makes the timeline equal tok[0..n): keeps the common prefix, rewinds, evaluates the rest (at least the last token, so
 * that logits are there). Errors: ARG (bad id), CONTEXT_FULL, IO, CANCELLED. After an error the timeline is a prefix of
 * what was asked for; calling again continues. */
THIMBLE_API int thimble_session_sync(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleError *e);
/* Appends n >= 1 tokens. Errors as sync. */
THIMBLE_API int thimble_session_eval(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleError *e);
/* One token for each of n sessions of one model, in passes of at most a batch. Errors as sync; sessions of passes that
 * were done before the error have moved, the others have not (thimble_session_length tells). */
THIMBLE_API int thimble_eval_batch(ThimbleSession *const *s, const int32_t *tok, size_t n, ThimbleError *e);
/* Forgets everything from position pos on. Recurrent memory goes back to the last checkpoint below pos and evaluates
 * from there, so that errors are also those of eval. STATE if the memory cannot (a window's ring went past it, or there
 * is no checkpoint): sync then starts from the beginning by itself. Logits may be gone until the next eval. */
THIMBLE_API int thimble_session_rewind(ThimbleSession *s, size_t pos, ThimbleError *e);
/* Appends n tokens like eval and hands out the logits after each of them, in order, without holding them all at once.
 * logits [n_vocab] is valid during the call only. A return value other than 0 stops with CANCELLED; the timeline then
 * ends with the pass that was under way, and has no logits. */
typedef int (*ThimbleScoreFn)(void *arg, size_t index, const float *logits, size_t n_vocab);
THIMBLE_API int thimble_session_score(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleScoreFn fn, void *arg,
                                      ThimbleError *e);
THIMBLE_API size_t thimble_session_length(const ThimbleSession *s);         /* tokens in the timeline */
THIMBLE_API const int32_t *thimble_session_tokens(const ThimbleSession *s); /* borrowed until the next call */
/* Logits after the last token, [n_vocab]; NULL if nothing was evaluated. Borrowed until the next call on s. Ids without
 * vocabulary entry are -INFINITY. */
THIMBLE_API const float *thimble_session_logits(const ThimbleSession *s, size_t *n_vocab);

/* ---- keeping sessions ----------------------------------------------------------------------------------------- */

/* A snapshot is the session as it stands: tokens, caches, recurrent memory and some of its checkpoints, logits. It is
 * bound to its model file, cache type, rules of positions and lossy options, and to nothing else: it may be loaded
 * under another context (that holds its tokens), budget, batch, thread count or home, and what follows has the same
 * bits. Other instruction sets may differ from it in rounding. Whoever can write a snapshot decides what the model
 * remembers.
 *
 * save: bytes in order, as thimble_session_save_bytes announces (0: nothing to save). Return 0 for "written", anything
 * else ends with CANCELLED. Errors: STATE (nothing to save), CANCELLED, IO.
 * load: bytes at any offset, more than once. Everything is judged before the session is touched: after FORMAT
 * (damaged), UNSUPPORTED (another version), STATE (another model, cache type or rules) and CONTEXT_FULL the session is
 * what it was. Only if the bytes change or fail between judging and loading it is left empty. Return 0 if all bytes
 * were read. */
typedef int (*ThimbleWriteFn)(void *arg, const void *data, size_t bytes);
typedef int (*ThimbleReadFn)(void *arg, uint64_t offset, void *data, size_t bytes);
THIMBLE_API uint64_t thimble_session_save_bytes(const ThimbleSession *s);
THIMBLE_API int thimble_session_save(ThimbleSession *s, ThimbleWriteFn fn, void *arg, ThimbleError *e);
THIMBLE_API int thimble_session_load(ThimbleSession *s, ThimbleReadFn fn, void *arg, uint64_t bytes, ThimbleError *e);
/* The same with a file: written under another name, synced and renamed, so that path is the old file or the whole new
 * one; readable by its owner alone. IO if the disk is full: nothing is left behind. */
THIMBLE_API int thimble_session_save_file(ThimbleSession *s, const char *path, ThimbleError *e);
THIMBLE_API int thimble_session_load_file(ThimbleSession *s, const char *path, ThimbleError *e);

/* A folder of snapshots with a bound on its bytes, so that prompts (and beginnings of prompts) that were evaluated
 * before are not evaluated again: by other sessions, processes, after a restart. Reused is what has exactly the same
 * tokens; what follows has the bits of a run without a store. Several processes may use one folder.
 *
 * open: makes the folder if it is not there; bytes 0: 1 GiB. restore: to be called before sync to the same tokens;
 * loads what saves the session most; *kept (may be NULL): how many tokens sync will not evaluate. keep: saves the
 * session as it stands; the snapshots with the lowest score (uses, each half as much after 6 hours; tokens per byte)
 * make room. match: the longest stored timeline whose text is the beginning of `text`: its tokens and the bytes it
 * stands for; *n 0: none. Errors: IO (a full disk: *stored is false, the session is as it was), NOMEM, ARG. Damaged
 * snapshots are removed. */
typedef struct ThimbleStore ThimbleStore;
THIMBLE_API int thimble_store_open(ThimbleStore **out, ThimbleModel *m, const char *dir, uint64_t bytes,
                                   ThimbleError *e);
THIMBLE_API void thimble_store_close(ThimbleStore *st); /* NULL allowed; before its model */
THIMBLE_API int thimble_store_restore(ThimbleStore *st, ThimbleSession *s, const int32_t *tok, size_t n, size_t *kept,
                                      ThimbleError *e);
THIMBLE_API int thimble_store_keep(ThimbleStore *st, ThimbleSession *s, bool *stored, ThimbleError *e);
THIMBLE_API int thimble_store_match(ThimbleStore *st, ThimbleSession *s, const char *text, size_t len, int32_t *tok,
                                    size_t cap, size_t *n, size_t *text_bytes, ThimbleError *e);

/* Plain values, owned by the caller. temperature 0 (or below 1e-6): arg-max, lowest id wins ties; then the rest but the
 * penalty is without effect. top_k 0, top_p 1, min_p 0, repeat_penalty 1: off. Order: penalty, top_k, top_p, min_p,
 * temperature, draw. One token always remains. */
typedef struct ThimbleSampler {
    size_t struct_size;
    float temperature, top_p, min_p, repeat_penalty;
    int top_k, repeat_last_n;
    uint64_t seed;
    uint64_t rng[4]; /* set from seed by the first draw; zero before */
    bool seeded;
} ThimbleSampler;
THIMBLE_API void thimble_sampler_init(ThimbleSampler *sm); /* 0.8, 0.95, 0.05, 1.0, 40, 64, seed 0 */
/* Chooses from the session's logits; the timeline does not change. Errors: ARG (NaN or negative parameters), STATE (no
 * logits, or not one of them finite). Logits that are not finite are never chosen and counted in the stats. */
THIMBLE_API int thimble_sample(ThimbleSession *s, ThimbleSampler *sm, int32_t *tok, ThimbleError *e);

/* Decodes: evaluates the token that the last call handed out and chooses what follows; where guesses are made and come
 * true, several tokens in one pass. Hands out 1..cap tokens, their number in *n. They are those that sample and eval in
 * turn would give with the same sampler, one for one; more than one only if they all came from this pass.
 *
 *     sync(prompt); while (there is room and nothing ends the answer) { next(...); use tok[0..n); }
 *
 * The last token handed out is not evaluated yet (an answer's last token costs no pass); the ones before it are part of
 * the timeline, logits are those it was chosen from. Sync, eval, score and rewind forget it: they set the timeline by
 * themselves. What was handed out ends at an end-of-generation token at the latest; the next call would go on behind.
 * Errors: those of sample and of eval; *n is 0 then. After CONTEXT_FULL the session is as before the call. */
THIMBLE_API int thimble_session_next(ThimbleSession *s, ThimbleSampler *sm, int32_t *tok, size_t cap, size_t *n,
                                     ThimbleError *e);

typedef struct ThimbleStats {
    size_t struct_size;
    uint64_t prompt_tokens, generated_tokens; /* evaluated in passes of more than one token or by sync; by eval of 1 */
    double prefill_s, decode_s, load_s;
    double first_token_s; /* from model_open's start to the first token this session sampled; 0: none yet */
    int threads;
    const char *isa;
    uint64_t expert_hits, expert_misses, lookahead_used, lookahead_wasted, expert_slots, expert_bytes_read;
    double expert_stall_s;
    uint64_t io_bytes_read;
    double io_read_s, io_stall_s;
    const char *io_mode, *io_backend; /* "direct", "buffered", "mapped" · "threads", "none"            */
    uint64_t decode_bytes_read;       /* of io_bytes_read, those of single-token passes                */
    uint64_t decode_bytes_moved;      /* weight bytes that single-token passes had to touch in memory  */
    uint64_t budget, planned, peak_rss, peak_anon;
    uint64_t nonfinite_logits;
    double limit_decode_tps; /* what memory and flash would have allowed for the bytes that decoding moved and read, had
                              * all of it overlapped; 0: nothing was decoded */
    int limit_bound;         /* 2 flash, 1 memory: which of the two takes longer; 0: computing takes twice as long */
    float route_bias;
    int experts;
    uint64_t picks_changed; /* experts that a lossy option chose differently                 */
    uint64_t cached_tokens; /* of the prompts given to sync, those that needed no evaluation */
    int draft;              /* what is done, THIMBLE_DRAFT_*: never AUTO where the plan left drafts out */
    uint64_t drafted, draft_accepted, draft_passes; /* guesses run, guesses that came true, passes with guesses */
    double draft_gain; /* decode's speed over that without guesses, as far as measured; 0: unknown */
    uint64_t draft_watched;     /* plain passes in which the MTP head was only asked what it would have guessed */
    uint64_t draft_bytes_moved; /* of decode_bytes_moved, those of making guesses: the head's                   */
} ThimbleStats;
/* Figures since the model was opened (memory, I/O) and since the session was (tokens). */
THIMBLE_API void thimble_session_stats(const ThimbleSession *s, ThimbleStats *out);

THIMBLE_API const char *thimble_version(void);       /* "0.1.0" */
THIMBLE_API const char *thimble_strerror(int code);  /* short words for a code */
THIMBLE_API const char *thimble_isa(void);           /* all instruction sets of this CPU that have kernels */
THIMBLE_API uint64_t thimble_available_memory(void); /* what budget 0 would take now, bytes */
THIMBLE_API const char *thimble_architectures(void); /* supported ones, comma-separated */

#ifdef __cplusplus
}
#endif
#endif
