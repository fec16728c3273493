/* test_draft.c: guessing ahead never changes an answer. Tokens, the logits behind them and the sampler's random numbers
 * are compared, bit for bit, between sample and eval in turn and thimble_session_next with guesses of which a stated
 * share comes true: greedy and drawn, for every kind of memory, wherever the weights lie. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "common/random_model.h"
#include "quant/type.h"
#include "session/snapshot.h"

enum { PROMPT = 30, ANSWER = 60, CONTEXT = PROMPT + ANSWER + 2 };

typedef struct Answer {
    int32_t token[PROMPT + ANSWER];
    float *logits; /* behind the last token */
    size_t n_vocab;
    ThimbleSampler sampler;
} Answer;

typedef struct Home {
    const char *name;
    int home, draft_max;
    bool floor;
} Home;
static const Home homes[] = {{"resident", THIMBLE_HOME_RESIDENT, 4, false},
                             {"floor", THIMBLE_HOME_AUTO, 3, true},
                             {"stream", THIMBLE_HOME_STREAM, 8, false}};

static char scratch[256]; /* a model file of ours, written anew by each test: alone written and removed */
static bool measuring;
static int state_type;             /* THIMBLE_STATE_* of recurrent memory */
static const char *path = scratch; /* the file under test; shared ones are only read */

static void open_with(Engine *e, Session *s, const Home *h, int draft) {
    ThimbleModelOptions o;
    Err err = {0};
    ThimblePlan plan = {.struct_size = sizeof plan};
    o = (ThimbleModelOptions){.struct_size = sizeof o};
    o.context = CONTEXT;
    o.threads = 2;
    o.home = h->home;
    o.draft = draft;
    o.draft_max = h->draft_max;
    o.state_type = state_type;
    o.budget = (uint64_t)1 << 40;
    if (!th_engine_plan(path, &o, &plan, &err)) fail_msg("%s: plan: %s", h->name, err.message);
    o.budget = h->floor ? plan.floor : 0;
    if (!th_engine_open(e, path, &o, &err)) fail_msg("%s: %s", h->name, err.message);
    if (!th_session_open(s, e, NULL, &err)) fail_msg("%s: session: %s", h->name, err.message);
    assert_int_equal(e->draft, draft);
}

static void close_both(Engine *e, Session *s) {
    th_session_close(s);
    th_engine_close(e);
}

static void hear_prompt(Session *s, int32_t *token) {
    Err err = {0};
    uint32_t n_vocab = (uint32_t)s->engine->model.hp.n_vocab;
    for (int i = 0; i < PROMPT; i++) token[i] = (int32_t)((uint32_t)(i % 7 * 31 + i / 20) % n_vocab);
    if (!th_session_sync(s, token, PROMPT, &err)) fail_msg("prompt: %s", err.message);
}

static void keep_logits(Answer *a, const Session *s) {
    assert_true(s->has_logits);
    memcpy(a->logits, s->logits, a->n_vocab * sizeof *a->logits);
}

/* One token after the other, as everybody may do. */
static void answer_plainly(Answer *a, Session *s) {
    Err err = {0};
    hear_prompt(s, a->token);
    for (int i = 0; i < ANSWER; i++) {
        int32_t *token = &a->token[PROMPT + i];
        if (!th_session_sample(s, &a->sampler, token, &err)) fail_msg("sample: %s", err.message);
        if (i + 1 == ANSWER) break;
        if (!th_session_eval(s, token, 1, &err)) fail_msg("eval: %s", err.message);
    }
    keep_logits(a, s);
}

static void answer_guessing(Answer *a, Session *s, const Answer *truth, double chance) {
    Err err = {0};
    uint64_t rng[4];
    th_rng_seed(rng, 99);
    DraftScript script = {.truth = truth->token, .n = PROMPT + ANSWER, .chance = chance, .rng = rng};
    hear_prompt(s, a->token);
    s->script = &script;
    for (int done = 0; done < ANSWER;) {
        size_t n, room = (size_t)(ANSWER - done < 16 ? ANSWER - done : 16);
        if (!measuring && done % 5 == 4 && room > 2) room = 2; /* a client may want few at a time */
        if (!th_session_next(s, &a->sampler, &a->token[PROMPT + done], room, &n, &err))
            fail_msg("next: %s", err.message);
        assert_in_range(n, 1, room);
        done += (int)n;
        assert_int_equal(s->length, PROMPT + done - 1);
    }
    keep_logits(a, s);
    s->script = NULL;
}

static void compare(const Answer *want, const Answer *got, const char *name) {
    for (int i = 0; i < PROMPT + ANSWER; i++)
        if (want->token[i] != got->token[i])
            fail_msg("%s: token %d is %d instead of %d", name, i, got->token[i], want->token[i]);
    if (memcmp(want->logits, got->logits, want->n_vocab * sizeof *want->logits) != 0)
        fail_msg("%s: other logits", name);
    if (memcmp(want->sampler.rng, got->sampler.rng, sizeof want->sampler.rng) != 0) fail_msg("%s: other draws", name);
}

static Answer new_answer(const Session *s, float temperature) {
    Answer a = {.n_vocab = (size_t)s->engine->model.hp.n_vocab};
    a.sampler = (ThimbleSampler){.struct_size = sizeof a.sampler,
                                 .temperature = temperature,
                                 .top_p = 0.95f,
                                 .top_k = 40,
                                 .repeat_penalty = 1.3f,
                                 .repeat_last_n = 20,
                                 .seed = 5};
    a.logits = calloc(a.n_vocab, sizeof *a.logits);
    assert_non_null(a.logits);
    return a;
}

static void guess_and_compare(const Home *h, int draft, const Answer *truth, float temperature) {
    static const double chances[] = {0, 0.6, 1};
    Engine e;
    Session s;
    open_with(&e, &s, h, draft);
    for (size_t c = 0; c < TH_COUNT(chances); c++) {
        if (temperature > 0 && c != 1) continue;
        char name[128];
        snprintf(name, sizeof name, "%s, temperature %.1f, %.0f %% right", h->name, (double)temperature,
                 100 * chances[c]);
        Answer got = new_answer(&s, temperature);
        ThimbleStats before = s.stats;
        answer_guessing(&got, &s, truth, chances[c]);
        compare(truth, &got, name);
        free(got.logits);
        uint64_t drafted = s.stats.drafted - before.drafted, came_true = s.stats.draft_accepted - before.draft_accepted;
        assert_true(drafted > 10);
        assert_int_equal(came_true == 0, chances[c] == 0);
        /* What lies behind an end-of-generation token is thrown away. */
        if (!e.has_vocab) assert_int_equal(came_true == drafted, chances[c] == 1);
        assert_true(s.stats.generated_tokens - before.generated_tokens == ANSWER - 1);
        Err err = {0};
        assert_true(th_session_rewind(&s, 0, &err));
    }
    close_both(&e, &s);
}

/* The file at `path`. */
static void try_file(int draft) {
    for (int hot = 0; hot < 2; hot++) {
        Engine e;
        Session s;
        open_with(&e, &s, &homes[0], THIMBLE_DRAFT_OFF);
        Answer truth = new_answer(&s, hot ? 1.2f : 0);
        answer_plainly(&truth, &s);
        close_both(&e, &s);
        for (size_t h = 0; h < TH_COUNT(homes); h++)
            guess_and_compare(&homes[h], draft, &truth, truth.sampler.temperature);
        free(truth.logits);
    }
}

static void try_model(const RandomModel *m) {
    path = scratch;
    random_model_write(m, scratch);
    try_file(THIMBLE_DRAFT_LOOKUP);
}

static void dense(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen3", m.qk_norm = true, m.tied = true, m.type = TYPE_Q8_0;
    m.layers = 2, m.dim = 256, m.heads = 4, m.head_size = 64, m.ff = 1280, m.vocab = 5000;
    try_model(&m);
}

static void experts(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen2moe", m.layers = 3, m.dim = 256, m.heads = 4, m.head_size = 64, m.biases = true, m.type = TYPE_Q8_0;
    m.experts = 24, m.experts_used = 4, m.expert_ff = 256, m.shared_ff = 256, m.vocab = 1024;
    m.expert_type = TYPE_Q4_K, m.down_type = TYPE_Q8_0;
    try_model(&m);
}

/* Rings are overwritten while guesses are taken back. */
static void windows(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "gemma3", m.layers = 7, m.qk_norm = m.post_norms = m.tied = true, m.window = 12, m.type = TYPE_F16;
    m.vocab = 96;
    try_model(&m);
}

static void latent(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "deepseek2", m.layers = 2, m.dim = 128, m.heads = 24, m.head_size = 160, m.rope_dims = 32, m.latent = 224;
    m.legacy_kv_b = true, m.type = TYPE_Q8_0, m.vocab = 200;
    try_model(&m);
}

/* Recurrent memory goes back to a copy. */
static void recurrent(void **state) {
    (void)state;
    RandomModel m = RANDOM_MODEL;
    m.arch = "bailingmoe3", m.layers = 4, m.dim = 128, m.heads = 4, m.head_size = 48, m.rope_dims = 16, m.latent = 48;
    m.latent_every = 4, m.kda_head = 40, m.type = TYPE_F16, m.expert_type = TYPE_F16, m.down_type = TYPE_Q8_0;
    m.experts = 16, m.experts_used = 4, m.groups = 2, m.expert_ff = 64, m.shared_ff = 64, m.dense_lead = 1,
    m.vocab = 200;
    try_model(&m);
    state_type = THIMBLE_STATE_F16;
    try_model(&m);
    state_type = THIMBLE_STATE_F32;
}

/* ---- MTP heads ------------------------------------------------------------------------------------------------- */

static const char *const mtp_models[] = {"../shared/vectors/mtp/qwen35/model.gguf",
                                         "../shared/vectors/mtp/qwen35moe/model.gguf"};
static const char *const mtp_expect[] = {"../shared/vectors/mtp/qwen35/expect.json",
                                         "../shared/vectors/mtp/qwen35moe/expect.json"};

static void heads(void **state) {
    (void)state;
    for (size_t i = 0; i < TH_COUNT(mtp_models); i++) {
        path = mtp_models[i];
        if (access(path, R_OK) == 0)
            try_file(THIMBLE_DRAFT_MTP);
        else
            print_message("# %s is not there\n", path);
    }
}

/* What a session guesses is the chain that the oracle drew from the same text: the head's cache has followed the trunk
 * through the prompt, and every step goes on from the head's own hidden state. */
static void guess_like_the_oracle(const json_t *ids, const json_t *draft) {
    int n = (int)json_array_size(ids), steps = th_min_int((int)json_array_size(draft), 4);
    int32_t prompt[64], tok[16];
    assert_in_range(n, 6, 64);
    for (int t = 0; t < n; t++) prompt[t] = (int32_t)json_integer_value(json_array_get(ids, (size_t)t));
    Engine e;
    Session s;
    Err err = {0};
    size_t got;
    open_with(&e, &s, &homes[0], THIMBLE_DRAFT_MTP);
    assert_true(th_session_sync(&s, prompt, 5, &err)); /* in two pieces: the head follows over the seam */
    assert_true(th_session_sync(&s, prompt, (size_t)n - 1, &err));
    s.pending = prompt[n - 1]; /* as if it had been chosen */
    s.has_pending = true;
    s.pace.plain_s = 1; /* else it would be measured first */
    ThimbleSampler greedy = {.struct_size = sizeof greedy, .top_p = 1, .repeat_penalty = 1};
    assert_true(th_session_next(&s, &greedy, tok, 16, &got, &err));
    assert_int_equal(s.stats.drafted, 4);
    for (int t = 0; t < steps; t++)
        assert_int_equal(s.tokens[n + t],
                         json_integer_value(json_object_get(json_array_get(draft, (size_t)t), "token")));
    close_both(&e, &s);
}

static void the_chain_is_the_oracles(void **state) {
    (void)state;
    for (size_t i = 0; i < TH_COUNT(mtp_models); i++) {
        path = mtp_models[i];
        json_t *expect = access(path, R_OK) == 0 ? json_load_file(mtp_expect[i], 0, NULL) : NULL;
        if (expect)
            guess_like_the_oracle(json_object_get(expect, "ids"), json_object_get(expect, "draft"));
        else
            print_message("# %s is not there\n", path);
        json_decref(expect);
    }
}

/* ---- snapshots, checkpoints, seeds ------------------------------------------------------------------------------ */

typedef struct Bytes {
    char *at;
    size_t n, cap;
} Bytes;

static bool put_bytes(void *arg, const void *data, size_t n, Err *err) {
    Bytes *b = arg;
    (void)err;
    assert_true(n <= b->cap - b->n);
    memcpy(b->at + b->n, data, n);
    b->n += n;
    return true;
}

static bool get_bytes(void *arg, uint64_t offset, void *data, size_t n, Err *err) {
    const Bytes *b = arg;
    (void)err;
    assert_true(offset <= b->n && n <= b->n - offset);
    memcpy(data, b->at + offset, n);
    return true;
}

/* The rest of the truth from where the session stands, with the head's or looked up guesses. */
static void go_on(Session *s, const Answer *truth, const char *name) {
    Err err = {0};
    ThimbleSampler greedy = {.struct_size = sizeof greedy, .top_p = 1, .repeat_penalty = 1};
    int32_t tok[16];
    for (int at = s->length; at < PROMPT + ANSWER;) {
        size_t n, room = (size_t)th_min_int(PROMPT + ANSWER - at, 16);
        if (!th_session_next(s, &greedy, tok, room, &n, &err)) fail_msg("%s: %s", name, err.message);
        for (size_t i = 0; i < n; i++, at++)
            if (tok[i] != truth->token[at])
                fail_msg("%s: token %d is %d instead of %d", name, at, tok[i], truth->token[at]);
    }
    assert_memory_equal(s->logits, truth->logits, truth->n_vocab * sizeof *truth->logits);
}

static Answer greedy_truth(Session *s) {
    Answer truth = new_answer(s, 0);
    truth.sampler.repeat_penalty = 1;
    answer_plainly(&truth, s);
    return truth;
}

/* A head's cache is no part of a snapshot: what it was saved with and what it is loaded into may guess or not. */
static void snapshots_carry_no_head(void **state) {
    (void)state;
    static const int drafts[] = {THIMBLE_DRAFT_OFF, THIMBLE_DRAFT_MTP, THIMBLE_DRAFT_LOOKUP};
    for (size_t i = 0; i < TH_COUNT(mtp_models); i++) {
        path = mtp_models[i];
        if (access(path, R_OK) != 0) {
            print_message("# %s is not there\n", path);
            continue;
        }
        Engine plain_engine;
        Session plain;
        open_with(&plain_engine, &plain, &homes[0], THIMBLE_DRAFT_OFF);
        Answer truth = greedy_truth(&plain);
        for (int from = 0; from < 3; from++)
            for (int to = 0; to < 3; to++) {
                Engine a, b;
                Session saved, loaded;
                Err err = {0};
                uint64_t bytes;
                open_with(&a, &saved, &homes[0], drafts[from]);
                open_with(&b, &loaded, &homes[2], drafts[to]);
                assert_true(th_session_sync(&saved, truth.token, PROMPT + 7, &err));
                assert_true(th_session_sync(&loaded, truth.token + 1, PROMPT + 7, &err)); /* another talk before */
                assert_true(th_snapshot_bytes(&saved, &bytes, &err));
                Bytes stream = {.at = malloc((size_t)bytes), .cap = (size_t)bytes};
                assert_non_null(stream.at);
                assert_true(th_snapshot_save(&saved, put_bytes, &stream, &err));
                if (!th_snapshot_load(&loaded, get_bytes, &stream, bytes, CONTEXT, &err)) fail_msg("%s", err.message);
                free(stream.at);
                go_on(&loaded, &truth, "from a snapshot");
                if (drafts[to] == THIMBLE_DRAFT_MTP) assert_true(loaded.stats.drafted > 0);
                close_both(&a, &saved);
                close_both(&b, &loaded);
            }
        free(truth.logits);
        close_both(&plain_engine, &plain);
    }
}

static RandomModel hybrid_model(void) {
    RandomModel m = RANDOM_MODEL;
    m.arch = "qwen35", m.layers = 4, m.dim = 128, m.heads = 2, m.head_size = 64, m.ff = 256, m.vocab = 96;
    m.qk_norm = true, m.ssm_state = 32, m.ssm_key_heads = 2, m.ssm_value_heads = 4, m.type = TYPE_Q8_0;
    return m;
}

/* Guesses run over checkpoints, and a talk that goes back to one goes on as it did. */
static void checkpoints_among_drafts(void **state) {
    (void)state;
    RandomModel m = hybrid_model();
    path = scratch;
    random_model_write(&m, scratch);
    Engine e;
    Session s;
    Err err = {0};
    open_with(&e, &s, &homes[0], THIMBLE_DRAFT_LOOKUP);
    assert_true(s.checkpoints.n > 0);
    s.checkpoints.step = s.checkpoints.first_step = 16; /* so that a short answer meets some */
    Answer truth = greedy_truth(&s), got = new_answer(&s, 0);
    got.sampler.repeat_penalty = 1;
    assert_true(th_session_rewind(&s, 0, &err));
    uint64_t before = s.stats.draft_accepted;
    answer_guessing(&got, &s, &truth, 0.7);
    compare(&truth, &got, "over checkpoints");
    assert_true(s.stats.draft_accepted > before);
    int taken = 0;
    for (int i = 0; i < s.checkpoints.n; i++) taken += s.checkpoints.slot[i].position > PROMPT;
    assert_true(taken > 0);
    for (int to = PROMPT + ANSWER - 3; to > PROMPT; to -= 7) {
        assert_true(th_session_rewind(&s, (size_t)to, &err));
        go_on(&s, &truth, "back at a checkpoint");
    }
    free(truth.logits);
    free(got.logits);
    close_both(&e, &s);
}

/* Draws are those of a run without guesses, number for number, whatever the seed: more than that they are as likely.
 * That they are likely as they should be is for the sampler's tests to say; that they differ at all is said here. */
static void draws_are_the_same_for_every_seed(void **state) {
    (void)state;
    RandomModel m = hybrid_model();
    path = scratch;
    random_model_write(&m, scratch);
    Engine plain_engine, e;
    Session plain, s;
    Err err = {0};
    open_with(&plain_engine, &plain, &homes[0], THIMBLE_DRAFT_OFF);
    open_with(&e, &s, &homes[2], THIMBLE_DRAFT_LOOKUP);
    bool met[96] = {false};
    int different = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        Answer truth = new_answer(&plain, 1.5f), got = new_answer(&s, 1.5f);
        truth.sampler.seed = got.sampler.seed = seed;
        answer_plainly(&truth, &plain);
        answer_guessing(&got, &s, &truth, 0.6);
        compare(&truth, &got, "drawn");
        different += !met[truth.token[PROMPT]];
        met[truth.token[PROMPT]] = true;
        assert_true(th_session_rewind(&s, 0, &err) && th_session_rewind(&plain, 0, &err));
        free(truth.logits);
        free(got.logits);
    }
    assert_true(different > 5);
    close_both(&plain_engine, &plain);
    close_both(&e, &s);
}

/* ---- what next promises ---------------------------------------------------------------------------------------------
 */

static RandomModel small_model(void) {
    RandomModel m = RANDOM_MODEL;
    m.vocab = 64;
    return m;
}

/* Other calls set the timeline by themselves; the pending token is theirs to give. */
static void other_calls_forget_the_pending_token(void **state) {
    (void)state;
    RandomModel m = small_model();
    path = scratch;
    random_model_write(&m, scratch);
    Engine e;
    Session s;
    Err err = {0};
    int32_t prompt[PROMPT], tok[16];
    size_t n;
    open_with(&e, &s, &homes[0], THIMBLE_DRAFT_LOOKUP);
    ThimbleSampler greedy = {.struct_size = sizeof greedy, .top_p = 1, .repeat_penalty = 1};
    assert_false(th_session_next(&s, &greedy, tok, 16, &n, &err)); /* nothing was evaluated */
    assert_int_equal(err.code, THIMBLE_E_STATE);
    hear_prompt(&s, prompt);
    assert_false(th_session_next(&s, &greedy, tok, 0, &n, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    assert_true(th_session_next(&s, &greedy, tok, 16, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(s.length, PROMPT); /* chosen, not evaluated */
    int32_t first = tok[0];
    assert_true(th_session_sync(&s, prompt, PROMPT, &err));
    assert_true(th_session_next(&s, &greedy, tok, 16, &n, &err));
    assert_int_equal(tok[0], first);                   /* chosen again */
    assert_true(th_session_eval(&s, &first, 1, &err)); /* by the caller: not once more by next */
    assert_true(th_session_next(&s, &greedy, tok, 16, &n, &err));
    assert_int_equal(s.length, PROMPT + 1);
    close_both(&e, &s);
}

/* Guesses do not reach beyond the context, and the end of it is an error that can be met again. */
static void the_context_ends(void **state) {
    (void)state;
    RandomModel m = small_model();
    path = scratch;
    random_model_write(&m, scratch);
    Engine e;
    Session s;
    Err err = {0};
    int32_t prompt[PROMPT], tok[16];
    size_t n, total = 0;
    open_with(&e, &s, &homes[0], THIMBLE_DRAFT_LOOKUP);
    ThimbleSampler greedy = {.struct_size = sizeof greedy, .top_p = 1, .repeat_penalty = 1};
    hear_prompt(&s, prompt);
    while (th_session_next(&s, &greedy, tok, 16, &n, &err)) total += n;
    assert_int_equal(err.code, THIMBLE_E_CONTEXT_FULL);
    assert_int_equal(n, 0);
    assert_int_equal(s.length, CONTEXT);
    assert_int_equal(total, CONTEXT - PROMPT + 1); /* the last one has no place any more */
    assert_false(th_session_next(&s, &greedy, tok, 16, &n, &err));
    assert_int_equal(err.code, THIMBLE_E_CONTEXT_FULL);
    close_both(&e, &s);
}

/* ---- test_draft --measure MODEL BYTES auto|mtp|lookup CHANCE ROUNDS: speed with guesses of that luck over without --
 *
 * auto: the head's guesses have that luck, and so has what it says when it is watched; each round is a new session. */

static double seconds_of(Session *s, Answer *a, const Answer *truth, double chance) {
    Err err = {0};
    double before = s->stats.decode_s;
    if (truth)
        answer_guessing(a, s, truth, chance);
    else
        answer_plainly(a, s);
    assert_true(th_session_rewind(s, 0, &err));
    return s->stats.decode_s - before;
}

static void open_to_measure(Engine *e, Session *s, const char *bytes, int draft) {
    Err err = {0};
    ThimbleModelOptions o = {.struct_size = sizeof o, .context = 512, .threads = 2, .draft = draft};
    o.budget = strtoull(bytes, NULL, 10);
    if (!th_engine_open(e, path, &o, &err) || !th_session_open(s, e, NULL, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
}

static int measure(char **argument) {
    measuring = true;
    Engine plain_engine, engine;
    Session plain, s;
    double chance = strtod(argument[3], NULL);
    int draft = !strcmp(argument[2], "auto")  ? THIMBLE_DRAFT_AUTO
                : !strcmp(argument[2], "mtp") ? THIMBLE_DRAFT_MTP
                                              : THIMBLE_DRAFT_LOOKUP;
    path = argument[0];
    open_to_measure(&plain_engine, &plain, argument[1], THIMBLE_DRAFT_OFF);
    open_to_measure(&engine, &s, argument[1], draft);
    Answer truth = new_answer(&plain, 0), got = new_answer(&s, 0);
    double without = 0, with = 0;
    for (int round = 0; round < atoi(argument[4]); round++) {
        if (draft == THIMBLE_DRAFT_AUTO) th_pace_init(&s.pace, engine.draft_slope, engine.draft_guess);
        double a = seconds_of(&plain, &truth, NULL, 0), b = seconds_of(&s, &got, &truth, chance);
        compare(&truth, &got, "measured");
        printf("round %d: %.2f and %.2f tok/s: %.2fx\n", round + 1, (ANSWER - 1) / a, (ANSWER - 1) / b, a / b);
        without += a;
        with += b;
    }
    printf("all: %.2fx; %llu of %llu guesses came true in %llu passes; making one took %.1f ms, a plain pass %.0f ms\n",
           without / with, (unsigned long long)s.stats.draft_accepted, (unsigned long long)s.stats.drafted,
           (unsigned long long)s.stats.draft_passes, 1e3 * s.pace.guess_s,
           1e3 * plain.stats.decode_s / (double)plain.stats.generated_tokens);
    free(truth.logits);
    free(got.logits);
    close_both(&plain_engine, &plain);
    close_both(&engine, &s);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 7 && !strcmp(argv[1], "--measure")) return measure(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense),
        cmocka_unit_test(experts),
        cmocka_unit_test(windows),
        cmocka_unit_test(latent),
        cmocka_unit_test(recurrent),
        cmocka_unit_test(heads),
        cmocka_unit_test(the_chain_is_the_oracles),
        cmocka_unit_test(snapshots_carry_no_head),
        cmocka_unit_test(checkpoints_among_drafts),
        cmocka_unit_test(draws_are_the_same_for_every_seed),
        cmocka_unit_test(other_calls_forget_the_pending_token),
        cmocka_unit_test(the_context_ends),
    };
    cmocka_set_test_filter(getenv("DRAFT_FILTER")); /* `make tsan` has no time for all of it */
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/thimble_draft_XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(scratch);
    if (fd < 0) return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(scratch);
    return failed;
}
