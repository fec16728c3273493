/* thimble.c: the public functions: check arguments, delegate, turn an Err into code and message. No logic of its own.
 */
#include "thimble/thimble.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/cpu.h"
#include "os/sys.h"
#include "session/store.h"

struct ThimbleModel {
    Engine engine;
};
struct ThimbleSession {
    Session session;
};
struct ThimbleStore {
    Store store;
};

#define STRING_OF(x)          #x
#define VERSION_TEXT(a, b, c) STRING_OF(a) "." STRING_OF(b) "." STRING_OF(c)

const char *thimble_version(void) {
    return VERSION_TEXT(THIMBLE_VERSION_MAJOR, THIMBLE_VERSION_MINOR, THIMBLE_VERSION_PATCH);
}

const char *thimble_strerror(int code) {
    switch (code) {
    case THIMBLE_OK:
        return "no error";
    case THIMBLE_E_ARG:
        return "argument out of range";
    case THIMBLE_E_IO:
        return "reading or writing failed";
    case THIMBLE_E_FORMAT:
        return "damaged model file";
    case THIMBLE_E_UNSUPPORTED:
        return "not supported";
    case THIMBLE_E_BUDGET:
        return "budget below the floor";
    case THIMBLE_E_NOMEM:
        return "out of memory";
    case THIMBLE_E_CONTEXT_FULL:
        return "context is full";
    case THIMBLE_E_STATE:
        return "call does not fit the state";
    case THIMBLE_E_CANCELLED:
        return "cancelled";
    default:
        return "unknown error";
    }
}

static int finish(bool ok, const Err *err, ThimbleError *e) {
    if (ok) return THIMBLE_OK;
    int code = err->code ? err->code : THIMBLE_E_STATE;
    if (e) {
        e->code = code;
        snprintf(e->message, sizeof e->message, "%s", err->code ? err->message : "failed without a reason");
    }
    return code;
}

static int bad_argument(ThimbleError *e, const char *what) {
    Err err = {0};
    return finish(th_fail(&err, THIMBLE_E_ARG, "%s is missing", what), &err, e);
}

void thimble_model_options_init(ThimbleModelOptions *o) {
    if (o) *o = (ThimbleModelOptions){.struct_size = sizeof *o};
}

void thimble_session_options_init(ThimbleSessionOptions *o) {
    if (o) *o = (ThimbleSessionOptions){.struct_size = sizeof *o};
}

void thimble_sampler_init(ThimbleSampler *sm) {
    if (sm)
        *sm = (ThimbleSampler){.struct_size = sizeof *sm,
                               .temperature = 0.8f,
                               .top_p = 0.95f,
                               .min_p = 0.05f,
                               .repeat_penalty = 1.0f,
                               .top_k = 40,
                               .repeat_last_n = 64};
}

/* A caller built against an older header knows fewer fields: the rest are the defaults. */
static ThimbleModelOptions known_options(const ThimbleModelOptions *o) {
    ThimbleModelOptions full;
    thimble_model_options_init(&full);
    if (o) {
        memcpy(&full, o, th_min_size(o->struct_size, sizeof full));
        full.struct_size = o->struct_size < sizeof(size_t) ? 0 : sizeof full;
    }
    return full;
}

int thimble_plan(const char *path, const ThimbleModelOptions *o, ThimblePlan *out, ThimbleError *e) {
    if (!path) return bad_argument(e, "path");
    if (!out || out->struct_size < sizeof(size_t)) return bad_argument(e, "out, or its struct_size,");
    ThimbleModelOptions options = known_options(o);
    Err err = {0};
    return finish(th_engine_plan(path, &options, out, &err), &err, e);
}

int thimble_model_open(ThimbleModel **out, const char *path, const ThimbleModelOptions *o, ThimbleError *e) {
    if (!out) return bad_argument(e, "out");
    *out = NULL;
    if (!path) return bad_argument(e, "path");
    ThimbleModelOptions options = known_options(o);
    Err err = {0};
    ThimbleModel *m = calloc(1, sizeof *m);
    bool ok =
        m ? th_engine_open(&m->engine, path, &options, &err) : th_fail(&err, THIMBLE_E_NOMEM, "no memory for a model");
    if (ok)
        *out = m;
    else
        free(m);
    return finish(ok, &err, e);
}

void thimble_model_close(ThimbleModel *m) {
    if (!m) return;
    th_engine_close(&m->engine);
    free(m);
}

const ThimbleModelInfo *thimble_model_info(const ThimbleModel *m) { return m ? &m->engine.info : NULL; }

int thimble_tokenize(ThimbleModel *m, const char *text, size_t len, int flags, int32_t *tok, size_t cap, size_t *n,
                     ThimbleError *e) {
    if (!m || !n || (!text && len) || (!tok && cap)) return bad_argument(e, "model, text, tok or n");
    Err err = {0};
    const Engine *engine = &m->engine;
    *n = 0;
    if (!engine->tokenizer)
        return finish(th_fail(&err, THIMBLE_E_UNSUPPORTED, "%s has no tokenizer that can be used", engine->path), &err,
                      e);
    TokenBuf ids = {.ids = tok, .cap = cap, .fixed = true};
    const Vocab *v = &engine->vocab;
    bool bos = flags & THIMBLE_TOK_BOS ? v->bos >= 0 : !(flags & THIMBLE_TOK_NO_BOS) && v->add_bos && v->bos >= 0;
    bool eos = !(flags & THIMBLE_TOK_NO_EOS) && v->add_eos && v->eos >= 0;
    bool ok = (!bos || th_token_buf_push(&ids, v->bos, &err)) &&
              th_tokenizer_encode(engine->tokenizer, (Str){text ? text : "", len}, false, flags & THIMBLE_TOK_SPECIAL,
                                  &ids, &err) &&
              (!eos || th_token_buf_push(&ids, v->eos, &err));
    if (ok) *n = ids.n;
    return finish(ok, &err, e);
}

static const Vocab *vocab_with(const ThimbleModel *m, int32_t tok) {
    return m && m->engine.has_vocab && tok >= 0 && tok < m->engine.vocab.n ? &m->engine.vocab : NULL;
}

size_t thimble_token_bytes(const ThimbleModel *m, int32_t tok, bool show_special, char *buf, size_t cap) {
    const Vocab *v = vocab_with(m, tok);
    return v ? th_token_bytes(v, tok, show_special, buf, cap) : 0;
}

size_t thimble_token_text(const ThimbleModel *m, int32_t tok, char *buf, size_t cap) {
    const Vocab *v = vocab_with(m, tok);
    if (!v) return 0;
    Str text = th_vocab_text(v, tok);
    if (cap && text.len) memcpy(buf, text.data, th_min_size(cap, text.len));
    return text.len;
}

int32_t thimble_token_find(const ThimbleModel *m, const char *text) {
    return m && text && m->engine.has_vocab ? th_vocab_find(&m->engine.vocab, th_str(text)) : -1;
}

bool thimble_token_is_eog(const ThimbleModel *m, int32_t tok) {
    const Vocab *v = vocab_with(m, tok);
    return v && th_vocab_is_eog(v, tok);
}

bool thimble_token_is_control(const ThimbleModel *m, int32_t tok) {
    const Vocab *v = vocab_with(m, tok);
    return v && th_vocab_is_control(v, tok);
}

size_t thimble_detok_push(const ThimbleModel *m, ThimbleDetok *d, int32_t tok, char *out, size_t cap) {
    size_t n = thimble_token_bytes(m, tok, false, NULL, 0);
    if (!d || cap < 12 || n > (cap - 12) / 3) return 0;
    /* A token can be longer than any room of ours: its bytes go to the end of the caller's, where the text that grows
     * from the start (at most 3 bytes for each that was read, and what was held) cannot overtake them. */
    char *bytes = out + cap - n;
    thimble_token_bytes(m, tok, false, bytes, n);
    return th_utf8_stream_push(d->held, &d->n_held, bytes, n, out);
}

size_t thimble_detok_end(ThimbleDetok *d, char *out, size_t cap) {
    return d && cap >= 12 ? th_utf8_stream_end(d->held, &d->n_held, out) : 0;
}

int thimble_session_open(ThimbleSession **out, ThimbleModel *m, const ThimbleSessionOptions *o, ThimbleError *e) {
    if (!out) return bad_argument(e, "out");
    *out = NULL;
    if (!m) return bad_argument(e, "model");
    Err err = {0};
    ThimbleSession *s = calloc(1, sizeof *s);
    bool ok = s ? th_session_open(&s->session, &m->engine, o, &err)
                : th_fail(&err, THIMBLE_E_NOMEM, "no memory for a session");
    if (ok)
        *out = s;
    else
        free(s);
    return finish(ok, &err, e);
}

void thimble_session_close(ThimbleSession *s) {
    if (!s) return;
    th_session_close(&s->session);
    free(s);
}

int thimble_session_sync(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleError *e) {
    if (!s) return bad_argument(e, "session");
    Err err = {0};
    return finish(th_session_sync(&s->session, tok, n, &err), &err, e);
}

int thimble_session_eval(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleError *e) {
    if (!s) return bad_argument(e, "session");
    Err err = {0};
    return finish(th_session_eval(&s->session, tok, n, &err), &err, e);
}

int thimble_eval_batch(ThimbleSession *const *s, const int32_t *tok, size_t n, ThimbleError *e) {
    if (!s || !tok || n > MAX_LAYERS) return bad_argument(e, "sessions, tok or a sensible n");
    Session *inner[MAX_LAYERS];
    for (size_t i = 0; i < n; i++) {
        if (!s[i]) return bad_argument(e, "a session");
        inner[i] = &s[i]->session;
    }
    Err err = {0};
    return finish(th_session_eval_batch(inner, tok, n, &err), &err, e);
}

int thimble_session_rewind(ThimbleSession *s, size_t pos, ThimbleError *e) {
    if (!s) return bad_argument(e, "session");
    Err err = {0};
    return finish(th_session_rewind(&s->session, pos, &err), &err, e);
}

int thimble_session_score(ThimbleSession *s, const int32_t *tok, size_t n, ThimbleScoreFn fn, void *arg,
                          ThimbleError *e) {
    if (!s) return bad_argument(e, "session");
    Err err = {0};
    return finish(th_session_score(&s->session, tok, n, fn, arg, &err), &err, e);
}

size_t thimble_session_length(const ThimbleSession *s) { return s ? (size_t)s->session.length : 0; }
const int32_t *thimble_session_tokens(const ThimbleSession *s) { return s ? s->session.tokens : NULL; }

const float *thimble_session_logits(const ThimbleSession *s, size_t *n_vocab) {
    if (n_vocab) *n_vocab = s ? (size_t)s->session.engine->model.hp.n_vocab : 0;
    return s && s->session.has_logits ? s->session.logits : NULL;
}

int thimble_sample(ThimbleSession *s, ThimbleSampler *sm, int32_t *tok, ThimbleError *e) {
    if (!s || !sm || !tok) return bad_argument(e, "session, sampler or tok");
    Err err = {0};
    return finish(th_session_sample(&s->session, sm, tok, &err), &err, e);
}

int thimble_session_next(ThimbleSession *s, ThimbleSampler *sm, int32_t *tok, size_t cap, size_t *n, ThimbleError *e) {
    if (!s || !sm || !tok || !n) return bad_argument(e, "session, sampler, tok or n");
    Err err = {0};
    return finish(th_session_next(&s->session, sm, tok, cap, n, &err), &err, e);
}

void thimble_session_stats(const ThimbleSession *s, ThimbleStats *out) {
    if (!s || !out || out->struct_size < sizeof(size_t)) return;
    ThimbleStats full;
    size_t size = th_min_size(out->struct_size, sizeof full);
    th_session_stats(&s->session, &full);
    full.struct_size = out->struct_size;
    memcpy(out, &full, size);
}

/* ---- snapshots */

typedef struct Callback {
    ThimbleWriteFn write;
    ThimbleReadFn read;
    void *arg;
} Callback;

static bool call_write(void *arg, const void *data, size_t bytes, Err *err) {
    const Callback *c = arg;
    return c->write(c->arg, data, bytes) == 0 ||
           th_fail(err, THIMBLE_E_CANCELLED, "stopped by the caller while saving");
}

static bool call_read(void *arg, uint64_t offset, void *data, size_t bytes, Err *err) {
    const Callback *c = arg;
    return c->read(c->arg, offset, data, bytes) == 0 ||
           th_fail(err, THIMBLE_E_IO, "reading %zu bytes at %llu failed", bytes, (unsigned long long)offset);
}

uint64_t thimble_session_save_bytes(const ThimbleSession *s) {
    uint64_t bytes = 0;
    return s && th_snapshot_bytes(&s->session, &bytes, NULL) ? bytes : 0;
}

int thimble_session_save(ThimbleSession *s, ThimbleWriteFn fn, void *arg, ThimbleError *e) {
    if (!s || !fn) return bad_argument(e, "session or fn");
    Err err = {0};
    Callback c = {.write = fn, .arg = arg};
    return finish(th_snapshot_save(&s->session, call_write, &c, &err), &err, e);
}

int thimble_session_load(ThimbleSession *s, ThimbleReadFn fn, void *arg, uint64_t bytes, ThimbleError *e) {
    if (!s || !fn) return bad_argument(e, "session or fn");
    Err err = {0};
    Callback c = {.read = fn, .arg = arg};
    return finish(th_snapshot_load(&s->session, call_read, &c, bytes, INT_MAX, &err), &err, e);
}

int thimble_session_save_file(ThimbleSession *s, const char *path, ThimbleError *e) {
    if (!s || !path) return bad_argument(e, "session or path");
    Err err = {0};
    return finish(th_snapshot_save_file(&s->session, path, true, &err), &err, e);
}

int thimble_session_load_file(ThimbleSession *s, const char *path, ThimbleError *e) {
    if (!s || !path) return bad_argument(e, "session or path");
    Err err = {0};
    return finish(th_snapshot_load_file(&s->session, path, &err), &err, e);
}

int thimble_store_open(ThimbleStore **out, ThimbleModel *m, const char *dir, uint64_t bytes, ThimbleError *e) {
    if (!out) return bad_argument(e, "out");
    *out = NULL;
    if (!m || !dir) return bad_argument(e, "model or dir");
    Err err = {0};
    ThimbleStore *st = calloc(1, sizeof *st);
    bool ok = st ? th_store_open(&st->store, &m->engine, dir, bytes ? bytes : 1024 * TH_MIB, &err)
                 : th_fail(&err, THIMBLE_E_NOMEM, "no memory for a store");
    if (ok)
        *out = st;
    else
        free(st);
    return finish(ok, &err, e);
}

void thimble_store_close(ThimbleStore *st) { free(st); }

static bool of_one_model(const ThimbleStore *st, const ThimbleSession *s) {
    return st && s && st->store.engine == s->session.engine;
}

int thimble_store_restore(ThimbleStore *st, ThimbleSession *s, const int32_t *tok, size_t n, size_t *kept,
                          ThimbleError *e) {
    if (!of_one_model(st, s) || (!tok && n)) return bad_argument(e, "store, a session of its model, or tok");
    Err err = {0};
    size_t ignored;
    return finish(th_store_restore(&st->store, &s->session, tok, n, kept ? kept : &ignored, &err), &err, e);
}

int thimble_store_keep(ThimbleStore *st, ThimbleSession *s, bool *stored, ThimbleError *e) {
    if (!of_one_model(st, s)) return bad_argument(e, "store, or a session of its model,");
    Err err = {0};
    bool ignored;
    return finish(th_store_keep(&st->store, &s->session, stored ? stored : &ignored, &err), &err, e);
}

int thimble_store_match(ThimbleStore *st, ThimbleSession *s, const char *text, size_t len, int32_t *tok, size_t cap,
                        size_t *n, size_t *text_bytes, ThimbleError *e) {
    if (!of_one_model(st, s) || (!text && len) || (!tok && cap) || !n || !text_bytes)
        return bad_argument(e, "store, a session of its model, text, tok, n or text_bytes");
    Err err = {0};
    return finish(th_store_match(&st->store, &s->session, (Str){text ? text : "", len}, tok, cap, n, text_bytes, &err),
                  &err, e);
}

/* Two answers that are computed once; pthread_once keeps them safe without a lock of our own. */
static char isa_names[128], architecture_names[512];
static void fill_isa(void) { th_cpu_isa_names(th_cpu_isa(), isa_names, sizeof isa_names); }
static void fill_architectures(void) { th_arch_names(architecture_names, sizeof architecture_names); }

const char *thimble_isa(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_isa);
    return isa_names;
}

const char *thimble_architectures(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_architectures);
    return architecture_names;
}

uint64_t thimble_available_memory(void) { return th_engine_automatic_budget(); }
