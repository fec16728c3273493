/* test_vocab.c: what a file's vocabulary becomes: texts, special ids, end-of-generation set, merges, memory, refusals.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>

#include "common/tiny_vocab.h"

static TinyVocab t; /* a test program's own */

static void must_open(void) {
    Err err = {0};
    if (!tiny_vocab_open(&t, UINT64_MAX, &err)) fail_msg("%s", err.message);
}

static int32_t find(const char *text) { return th_vocab_find(&t.vocab, th_str(text)); }

static void texts_and_ids(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    for (int i = 0; i < 3; i++) tiny_vocab_add(&t, "twice", TOKEN_NORMAL);
    tiny_vocab_add(&t, "", TOKEN_NORMAL);
    tiny_vocab_add_text(&t, (Str){"a\0b", 3}, TOKEN_NORMAL);
    tiny_vocab_add_text(&t, (Str){"\xFF\xFE", 2}, TOKEN_NORMAL);
    must_open();
    assert_int_equal(t.vocab.n, 6);
    assert_int_equal(find("twice"), 2); /* the later one */
    assert_int_equal(find("[EMPTY_3]"), 3);
    assert_int_equal(find("[EMPTY_2]"), -1); /* not empty */
    assert_int_equal(find("[EMPTY_03]"), -1);
    assert_int_equal(find("[EMPTY_99999999999]"), -1);
    assert_int_equal(find(""), -1);
    assert_int_equal(find("twic"), -1);
    assert_int_equal(th_vocab_find(&t.vocab, (Str){"a\0b", 3}), 4);
    assert_true(th_str_eq(th_vocab_text(&t.vocab, 5), (Str){"\xFF\xFE", 2}));
    assert_int_equal(th_vocab_text(&t.vocab, 6).len, 0);
    assert_int_equal(th_vocab_text(&t.vocab, -1).len, 0);
    tiny_vocab_close(&t);
}

static void many_texts_are_all_found(void **state) {
    (void)state;
    char text[16];
    tiny_vocab_begin(&t, "gpt2");
    for (int i = 0; i < TINY_VOCAB_MAX; i++) {
        snprintf(text, sizeof text, "t%d", i);
        tiny_vocab_add(&t, text, TOKEN_NORMAL);
    }
    must_open();
    for (int i = 0; i < TINY_VOCAB_MAX; i++) {
        snprintf(text, sizeof text, "t%d", i);
        assert_int_equal(find(text), i);
        snprintf(text, sizeof text, "u%d", i);
        assert_int_equal(find(text), -1);
    }
    tiny_vocab_close(&t);
}

static void ids_beyond_the_vocabulary_mean_none(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "llama");
    for (int i = 0; i < 4; i++) tiny_vocab_add(&t, "x", TOKEN_NORMAL);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.bos_token_id", UINT32_MAX);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.eos_token_id", 4);
    gguf_writer_i32(&t.keys, "tokenizer.ggml.eot_token_id", -1);
    gguf_writer_u64(&t.keys, "tokenizer.ggml.eom_token_id", 3);
    must_open();
    assert_int_equal(t.vocab.bos, -1);
    assert_int_equal(t.vocab.eos, -1);
    assert_int_equal(t.vocab.unk, 0); /* the default of this model */
    assert_true(t.vocab.add_bos && !t.vocab.add_eos && t.vocab.add_space_prefix);
    assert_int_equal(t.vocab.n_eog, 1);
    assert_true(th_vocab_is_eog(&t.vocab, 3));
    tiny_vocab_close(&t);
}

static void defaults_of_the_models(void **state) {
    (void)state;
    const struct {
        const char *model, *pre;
        bool add_bos, ignore_merges;
    } rows[] = {{"gpt2", "gpt-2", false, false}, {"gpt2", "llama-bpe", true, true}, {"gpt2", "tekken", true, true},
                {"gpt2", "glm4", false, false},  {"gpt2", "minicpm5", false, true}, {"llama", NULL, true, false}};
    for (size_t i = 0; i < TH_COUNT(rows); i++) {
        tiny_vocab_begin(&t, NULL);
        t.model = rows[i].model;
        gguf_writer_str(&t.keys, "tokenizer.ggml.model", rows[i].model);
        if (rows[i].pre) gguf_writer_str(&t.keys, "tokenizer.ggml.pre", rows[i].pre);
        for (int k = 0; k < 20; k++) tiny_vocab_add(&t, "x", TOKEN_NORMAL);
        must_open();
        bool spm = t.vocab.kind == VOCAB_SPM;
        assert_int_equal(t.vocab.bos, spm ? 1 : 11);
        assert_int_equal(t.vocab.eos, spm ? 2 : 11);
        assert_int_equal(t.vocab.add_bos, rows[i].add_bos);
        assert_int_equal(t.vocab.ignore_merges, rows[i].ignore_merges);
        assert_int_equal(t.vocab.add_space_prefix, spm);
        tiny_vocab_close(&t);
    }
    tiny_vocab_begin(&t, "no_vocab");
    must_open();
    assert_int_equal(t.vocab.kind, VOCAB_NONE);
    assert_int_equal(th_vocab_bytes(&t.gguf), 0);
    tiny_vocab_close(&t);
}

/* ---- end of generation ---------------------------------------------------------------------------------------- */

static void check_eog(const int32_t *want, int n) {
    assert_int_equal(t.vocab.n_eog, n);
    for (int i = 0; i < n; i++) assert_int_equal(t.vocab.eog[i], want[i]);
    for (int32_t id = -1; id <= t.vocab.n; id++) {
        bool in_set = false;
        for (int i = 0; i < n; i++) in_set = in_set || want[i] == id;
        assert_int_equal(th_vocab_is_eog(&t.vocab, id), in_set);
    }
    /* The walk without a vocabulary says the same. */
    Arena arena;
    int32_t *ids;
    int alone;
    Err err = {0};
    th_arena_init(&arena, &t.budget, MEM_METADATA);
    assert_true(th_vocab_eog(&t.gguf, &t.budget, &arena, &ids, &alone, &err));
    assert_int_equal(alone, n);
    for (int i = 0; i < n; i++) assert_int_equal(ids[i], want[i]);
    th_arena_free(&arena);
}

static void eog_by_key_and_by_text(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    const char *texts[] = {"a",    "<|im_end|>", "b", "<|role_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>",
                           "</s>", "c"};
    for (size_t i = 0; i < TH_COUNT(texts); i++) tiny_vocab_add(&t, texts[i], TOKEN_NORMAL);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.eos_token_id", 3);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.fim_sep_token_id", 8);
    must_open();
    check_eog((const int32_t[]){1, 3, 4, 5, 6, 7, 8}, 7);
    /* Texts are control tokens whatever the file says; ids from keys keep their type. */
    assert_int_equal(t.vocab.type[1], TOKEN_CONTROL);
    assert_int_equal(t.vocab.type[7], TOKEN_CONTROL);
    assert_int_equal(t.vocab.type[3], TOKEN_NORMAL);
    assert_int_equal(t.vocab.type[0], TOKEN_NORMAL);
    tiny_vocab_close(&t);
}

static void eog_of_gpt_oss(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    const char *texts[] = {"<|return|>",  "<|end|>",   "<|call|>",     "<|channel|>",
                           "<|message|>", "<|start|>", "<|constrain|>"};
    for (size_t i = 0; i < TH_COUNT(texts); i++) tiny_vocab_add(&t, texts[i], TOKEN_CONTROL);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.eos_token_id", 0);
    must_open();
    check_eog((const int32_t[]){0, 2}, 2);
    for (int32_t id = 0; id < t.vocab.n; id++) {
        char text[32];
        size_t n = th_token_bytes(&t.vocab, id, false, text, sizeof text);
        bool shown = id != 0 && id != 2; /* the parser of channels needs them */
        assert_int_equal(n, shown ? strlen(texts[id]) : 0);
        assert_true(th_vocab_is_control(&t.vocab, id)); /* and still no user can write one */
    }
    tiny_vocab_close(&t);
}

static void eog_with_tool_response(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    tiny_vocab_add(&t, "</s>", TOKEN_CONTROL);
    tiny_vocab_add(&t, "<|tool_response>", TOKEN_CONTROL);
    tiny_vocab_add(&t, "<|end|>", TOKEN_CONTROL);
    gguf_writer_u32(&t.keys, "tokenizer.ggml.eos_token_id", 2);
    must_open();
    check_eog((const int32_t[]){1, 2}, 2);
    tiny_vocab_close(&t);
}

static void suppressed_ids(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    for (int i = 0; i < 5; i++) tiny_vocab_add(&t, "x", TOKEN_NORMAL);
    gguf_writer_array(&t.keys, "tokenizer.ggml.suppress_tokens", GGUF_I32, (const int32_t[]){3, -1, 5, 0}, 4);
    must_open();
    assert_int_equal(t.vocab.n_suppress, 2);
    assert_int_equal(t.vocab.suppress[0], 3);
    assert_int_equal(t.vocab.suppress[1], 0);
    tiny_vocab_close(&t);
}

/* ---- merges ----------------------------------------------------------------------------------------------------- */

static bool merges(uint32_t left, uint32_t right, uint32_t want_rank, uint32_t want_result) {
    uint32_t rank, result;
    return th_vocab_merge(&t.vocab, left, right, &rank, &result) && rank == want_rank && result == want_result;
}

static void rows_of_merges(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    const char *tokens[] = {"a", "b", "ab", "abab", "c"};
    for (size_t i = 0; i < TH_COUNT(tokens); i++) tiny_vocab_add(&t, tokens[i], TOKEN_NORMAL);
    const char *rows[] = {"a b", "nospace", "a ", " a", "ab ab", "a b", "zz a", "b c", "bc a", "a bca", "ca b", "c a"};
    for (size_t i = 0; i < TH_COUNT(rows); i++) tiny_vocab_merge(&t, rows[i]);
    must_open();
    uint32_t rank, result, n = (uint32_t)t.vocab.n;
    assert_true(merges(0, 1, 0, 2)); /* the first of two equal rows */
    assert_true(merges(2, 2, 4, 3));
    assert_false(th_vocab_merge(&t.vocab, 1, 0, &rank, &result));
    /* "bc" and "bca" are no tokens: symbols of their own, known to later rows. */
    assert_true(merges(1, 4, 7, n + 256 + 7));
    assert_true(merges(n + 256 + 7, 0, 8, n + 256 + 8));
    assert_true(merges(0, n + 256 + 8, 9, n + 256 + 9));
    /* Also where a later row makes the part. */
    assert_true(merges(n + 256 + 11, 1, 10, n + 256 + 10));
    tiny_vocab_close(&t);
}

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void refused(int code, const char *word) {
    Err err = {0};
    uint64_t before;
    tiny_vocab_write(&t);
    before = t.budget.used;
    assert_false(tiny_vocab_reopen(&t, UINT64_MAX, &err));
    assert_int_equal(err.code, code);
    if (!strstr(err.message, word)) fail_msg("\"%s\" does not say %s", err.message, word);
    tiny_vocab_shut(&t);
    assert_int_equal(t.budget.used, before);
    tiny_vocab_close(&t);
}

static void broken_arrays(void **state) {
    (void)state;
    const int32_t three[] = {1, 1, 1};
    const float two[] = {0, 0};
    for (int i = 0; i < 9; i++) {
        tiny_vocab_begin(&t, i == 4 || i == 5 ? "llama" : "gpt2");
        if (i > 2) tiny_vocab_add(&t, "x", TOKEN_NORMAL), tiny_vocab_add(&t, "y", TOKEN_NORMAL);
        t.omit_types = i == 3 || i == 6;
        t.omit_scores = true;
        if (i == 1) gguf_writer_strs(&t.keys, "tokenizer.ggml.tokens", NULL, 0);
        if (i == 2) gguf_writer_array(&t.keys, "tokenizer.ggml.tokens", GGUF_I32, three, 3);
        if (i == 3) gguf_writer_array(&t.keys, "tokenizer.ggml.token_type", GGUF_I32, three, 1);
        if (i == 4) gguf_writer_array(&t.keys, "tokenizer.ggml.scores", GGUF_F32, two, 1);
        if (i == 5) gguf_writer_strs(&t.keys, "tokenizer.ggml.scores", (const char *const[]){"a", "b"}, 2);
        if (i == 6) gguf_writer_strs(&t.keys, "tokenizer.ggml.token_type", (const char *const[]){"a", "b"}, 2);
        if (i == 7) gguf_writer_array(&t.keys, "tokenizer.ggml.merges", GGUF_I32, three, 3);
        if (i == 8) gguf_writer_array(&t.keys, "tokenizer.ggml.suppress_tokens", GGUF_I32, three, 3);
        refused(THIMBLE_E_FORMAT, i < 3              ? "tokens"
                                  : i == 3 || i == 6 ? "token_type"
                                  : i < 6            ? "scores"
                                  : i == 7           ? "merges"
                                                     : "suppress");
    }
}

static void unknown_kinds(void **state) {
    (void)state;
    const char *models[] = {"bert", "t5", "rwkv", "plamo2", "somet\033hing"};
    for (size_t i = 0; i < TH_COUNT(models); i++) {
        tiny_vocab_begin(&t, models[i]);
        tiny_vocab_add(&t, "x", TOKEN_NORMAL);
        refused(THIMBLE_E_UNSUPPORTED, i < 4 ? models[i] : "somet\\x1Bhing");
    }
    tiny_vocab_begin(&t, NULL);
    t.model = "gpt2";
    gguf_writer_str(&t.keys, "tokenizer.ggml.model", "gpt2");
    gguf_writer_str(&t.keys, "tokenizer.ggml.pre", "qwen99");
    tiny_vocab_add(&t, "x", TOKEN_NORMAL);
    refused(THIMBLE_E_UNSUPPORTED, "qwen99");
}

static void a_text_longer_than_the_window(void **state) {
    (void)state;
    static char text[70000];
    memset(text, 'x', sizeof text);
    tiny_vocab_begin(&t, "gpt2");
    gguf_writer_texts(&t.keys, "tokenizer.ggml.tokens", &(Str){text, sizeof text}, 1);
    refused(THIMBLE_E_FORMAT, "70000 bytes");
}

static void odd_values_are_handled(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "llama");
    tiny_vocab_add(&t, "x", 77);
    tiny_vocab_add(&t, "y", -5);
    tiny_vocab_add(&t, "z", TOKEN_UNUSED);
    t.omit_scores = true;
    must_open();
    for (int32_t id = 0; id < 3; id++) assert_int_equal(th_token_bytes(&t.vocab, id, true, NULL, 0), 0);
    assert_true(t.vocab.score[0] == 0 && t.vocab.score[2] == 0);
    tiny_vocab_close(&t);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static void encode_something(const Tokenizer *tokenizer) {
    TokenBuf ids = {0};
    Err err = {0};
    const char text[] = "Hello <|im_start|> world, \xE4\xBD\xA0\xE5\xA5\xBD 123\n\n  it's \xFF 2026 </s>";
    if (!th_tokenizer_encode(tokenizer, th_str(text), true, true, &ids, &err)) fail_msg("%s", err.message);
    th_token_buf_free(&ids);
}

/* Opening and an encode fit exactly the bytes that th_vocab_bytes promises; every smaller budget is refused cleanly. */
static void memory_of_small_vocabularies(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        tiny_vocab_begin(&t, kind == 1 ? "llama" : "gpt2");
        if (kind == 1)
            tiny_vocab_add_byte_tokens(&t);
        else
            tiny_vocab_add_bytes(&t);
        for (int i = 0; i < 40; i++) { /* as many lengths of candidates as possible */
            char text[TINY_TEXT_MAX] = {0};
            memset(text, 'a' + i % 26, (size_t)i + 1);
            tiny_vocab_add(&t, text, TOKEN_USER);
        }
        if (kind == 0)
            for (int i = 0; i < TINY_VOCAB_MAX; i++) { /* results that are no tokens, as long as they get */
                char row[TINY_TEXT_MAX];
                snprintf(row, sizeof row, "%045d %045d", i, i);
                tiny_vocab_merge(&t, row);
            }
        Err err = {0};
        tiny_vocab_write(&t);
        uint64_t bound = th_vocab_bytes(&t.gguf);
        if (!tiny_vocab_reopen(&t, bound, &err)) fail_msg("%s", err.message);
        encode_something(t.tokenizer);
        uint64_t took = t.budget.peak - t.header_bytes;
        assert_true(took <= bound && bound <= took + 512 * TH_KIB); /* no plan should pay for much more */
        tiny_vocab_shut(&t);
        assert_int_equal(t.budget.used, t.header_bytes);
        for (uint64_t room = 0; room < took; room += took / 97 + 1) {
            err = (Err){0};
            assert_false(tiny_vocab_reopen(&t, room, &err));
            assert_true((err.code == THIMBLE_E_BUDGET || err.code == THIMBLE_E_NOMEM) && err.message[0]);
            tiny_vocab_shut(&t);
            assert_int_equal(t.budget.used, t.header_bytes);
        }
        tiny_vocab_close(&t);
    }
}

/* The same promise for whole vocabularies, where they are. True if path was one. */
static bool bound_holds(const char *path) {
    Budget budget;
    Gguf gguf;
    Vocab vocab;
    Tokenizer *tokenizer = NULL;
    Err err = {0};
    th_budget_init(&budget, UINT64_MAX);
    bool ok = th_gguf_open(&gguf, path, &budget, &err);
    if (!ok) {
        th_budget_free(&budget);
        return false;
    }
    uint64_t header = budget.used, bound = th_vocab_bytes(&gguf);
    th_budget_limit(&budget, header + bound);
    budget.peak = header;
    ok = th_vocab_open(&vocab, &gguf, &budget, NULL, &err);
    if (!ok && err.code != THIMBLE_E_UNSUPPORTED) fail_msg("%s: %s", path, err.message);
    if (ok && vocab.kind != VOCAB_NONE) {
        if (!th_tokenizer_open(&tokenizer, &vocab, &budget, &err)) fail_msg("%s: %s", path, err.message);
        encode_something(tokenizer);
        /* Generous, but not by more than half as much again and a megabyte. */
        assert_true(bound <= (budget.peak - header) * 3 / 2 + TH_MIB);
        if (vocab.n > 200000) assert_true(bound <= 16 * TH_MIB);
        if (vocab.n < 50000) assert_true(bound <= 5 * TH_MIB);
    }
    th_tokenizer_close(tokenizer);
    if (ok) th_vocab_close(&vocab);
    th_gguf_close(&gguf);
    assert_int_equal(budget.used, 0);
    th_budget_free(&budget);
    return ok;
}

static void memory_of_whole_vocabularies(void **state) {
    (void)state;
    const char *dir = "../shared/vectors/tokenizers";
    DIR *entries = opendir(dir);
    int n = 0;
    for (struct dirent *e; entries && (e = readdir(entries));) {
        char path[512];
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        n += bound_holds(path);
    }
    if (entries) closedir(entries);
    n += bound_holds("../shared/models/tale-moe-13m-Q8_0.gguf");
    if (n == 0) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_ids),
        cmocka_unit_test(many_texts_are_all_found),
        cmocka_unit_test(ids_beyond_the_vocabulary_mean_none),
        cmocka_unit_test(defaults_of_the_models),
        cmocka_unit_test(eog_by_key_and_by_text),
        cmocka_unit_test(eog_of_gpt_oss),
        cmocka_unit_test(eog_with_tool_response),
        cmocka_unit_test(suppressed_ids),
        cmocka_unit_test(rows_of_merges),
        cmocka_unit_test(broken_arrays),
        cmocka_unit_test(unknown_kinds),
        cmocka_unit_test(a_text_longer_than_the_window),
        cmocka_unit_test(odd_values_are_handled),
        cmocka_unit_test(memory_of_small_vocabularies),
        cmocka_unit_test(memory_of_whole_vocabularies),
    };
    return cmocka_run_group_tests_name("vocab", tests, NULL, NULL);
}
