/* test_detok.c: tokens to bytes by type, whole sequences, and streams of bytes that become valid UTF-8 however they are
 * cut. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "common/tiny_vocab.h"
#include "thimble/thimble.h"

static TinyVocab t; /* a test program's own */

static void must_open(void) {
    Err err = {0};
    if (!tiny_vocab_open(&t, UINT64_MAX, &err)) fail_msg("%s", err.message);
}

static void expect_bytes(int32_t id, bool special, const char *want) {
    char room[64];
    size_t n = th_token_bytes(&t.vocab, id, special, room, sizeof room);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(room, want, n);
}

static void bytes_of_each_type(void **state) {
    (void)state;
    for (int spm = 0; spm < 2; spm++) {
        tiny_vocab_begin(&t, spm ? "llama" : "gpt2");
        const struct {
            const char *text;
            int type;
            const char *bpe, *spm, *special;
        } rows[] = {
            {"\xC4\xA0the", TOKEN_NORMAL, " the", "\xC4\xA0the", NULL},
            {"\xE2\x96\x81the\xE2\x96\x81", TOKEN_NORMAL, "the", " the ", NULL}, /* U+2581 is in no byte table */
            {"\xC3\xA9", TOKEN_NORMAL, "\xE9", "\xC3\xA9", NULL},
            {"<|im_end|>", TOKEN_CONTROL, "", "", "<|im_end|>"},
            {"<unk>", TOKEN_UNKNOWN, "", "", "<unk>"},
            {"\xC4\xA0<t>\xE2\x96\x81", TOKEN_USER, "\xC4\xA0<t>\xE2\x96\x81", "\xC4\xA0<t>\xE2\x96\x81", NULL},
            {"unused", TOKEN_UNUSED, "", "", NULL},
            {"undefined", TOKEN_UNDEFINED, "", "", NULL},
            {"<0xfF>", TOKEN_BYTE, "\xFF", "\xFF", NULL},
            {"<0xGG>", TOKEN_BYTE, "<0xGG>", "<0xGG>", NULL},
            {"", TOKEN_NORMAL, "[EMPTY_10]", "[EMPTY_10]", NULL},
        };
        for (size_t i = 0; i < TH_COUNT(rows); i++) tiny_vocab_add(&t, rows[i].text, rows[i].type);
        must_open();
        for (size_t i = 0; i < TH_COUNT(rows); i++) {
            const char *hidden = spm ? rows[i].spm : rows[i].bpe;
            expect_bytes((int32_t)i, false, hidden);
            expect_bytes((int32_t)i, true, rows[i].special ? rows[i].special : hidden);
        }
        expect_bytes(-1, true, "");
        expect_bytes(t.vocab.n, true, "");
        expect_bytes(INT32_MAX, true, "");
        tiny_vocab_close(&t);
    }
}

static void every_byte_comes_back(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    tiny_vocab_add_bytes(&t);
    must_open();
    for (int b = 0; b < 256; b++) {
        char one[2] = {0, 'x'};
        assert_int_equal(th_token_bytes(&t.vocab, b, false, one, 1), 1);
        assert_int_equal((unsigned char)one[0], b);
    }
    tiny_vocab_close(&t);
}

static void no_byte_beyond_the_room(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "llama");
    tiny_vocab_add(&t,
                   "\xE2\x96\x81"
                   "abc\xE2\x96\x81",
                   TOKEN_NORMAL);
    must_open();
    for (size_t cap = 0; cap <= 6; cap++) {
        char room[8] = "#######";
        assert_int_equal(th_token_bytes(&t.vocab, 0, false, room, cap), 5);
        assert_memory_equal(room, " abc ", cap < 5 ? cap : 5);
        for (size_t i = cap < 5 ? cap : 5; i < 7; i++) assert_int_equal(room[i], '#');
    }
    assert_int_equal(th_token_bytes(&t.vocab, 0, false, NULL, 0), 5);
    tiny_vocab_close(&t);
}

static void expect_text(const int32_t *ids, size_t n, bool special, const char *want) {
    Buf out = {0};
    Err err = {0};
    assert_true(th_buf_append(&out, ">", 1, &err)); /* appends */
    assert_true(th_detokenize(&t.vocab, ids, n, special, &out, &err));
    assert_string_equal(out.data + 1, want);
    th_buf_free(&out);
}

/* Section 6.2: one leading space goes with the first piece, unless a BOS stood before it. */
static void leading_space_of_sequences(void **state) {
    (void)state;
    for (int prefix = 0; prefix < 2; prefix++) {
        tiny_vocab_begin(&t, "llama");
        const char *texts[] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81hi", "\xE2\x96\x81\xE2\x96\x81", "x"};
        for (size_t i = 0; i < TH_COUNT(texts); i++) tiny_vocab_add(&t, texts[i], i < 3 ? TOKEN_CONTROL : TOKEN_NORMAL);
        gguf_writer_bool(&t.keys, "tokenizer.ggml.add_space_prefix", prefix);
        must_open();
        expect_text((const int32_t[]){3, 3}, 2, false, prefix ? "hi hi" : " hi hi");
        expect_text((const int32_t[]){4, 5}, 2, false, prefix ? " x" : "  x");
        expect_text((const int32_t[]){1, 3, 3}, 3, false, " hi hi");
        expect_text((const int32_t[]){1, 3, 2}, 3, true, "<s> hi</s>");
        expect_text((const int32_t[]){5, 3}, 2, false, "x hi");
        expect_text(NULL, 0, false, "");
        tiny_vocab_close(&t);
    }
}

/* Through the public function: whatever a token's length, in just the room that the header asks for, and in no less. */
static void long_tokens_of_the_library(void **state) {
    (void)state;
    static char text[9000], out[3 * sizeof text + 16];
    const char invalid = '\xFF';
    tiny_vocab_begin(&t, "llama");
    for (size_t i = 0; i < sizeof text; i++) text[i] = i < 4500 ? (char)('a' + i % 26) : invalid;
    gguf_writer_texts(&t.keys, "tokenizer.ggml.tokens",
                      (Str[]){{text, sizeof text}, {"\xE2\x82", 2}, {"x", 1}}, 3);
    must_open();
    ThimbleModelOptions o;
    ThimbleModel *m = NULL;
    ThimbleError e = {0};
    thimble_model_options_init(&o);
    o.load = THIMBLE_LOAD_VOCAB;
    if (thimble_model_open(&m, t.scratch.path, &o, &e) != THIMBLE_OK) fail_msg("%s", e.message);
    ThimbleDetok d = {0};
    assert_int_equal(thimble_detok_push(m, &d, 0, out, 3 * sizeof text + 11), 0);
    assert_int_equal(thimble_detok_push(m, &d, 1, out, 18), 0); /* held */
    assert_int_equal(d.n_held, 2);
    size_t n = thimble_detok_push(m, &d, 0, out, 3 * sizeof text + 12);
    assert_int_equal(n, 3 + 4500 + 3 * 4500);
    assert_memory_equal(out, "\xEF\xBF\xBD", 3);
    assert_memory_equal(out + 3, text, 4500);
    for (size_t i = 4503; i < n; i += 3) assert_memory_equal(out + i, "\xEF\xBF\xBD", 3);
    assert_int_equal(thimble_detok_push(m, &d, 2, out, 15), 1);
    assert_int_equal(out[0], 'x');
    thimble_model_close(m);
    tiny_vocab_close(&t);
}

static void pieces_longer_than_any_room(void **state) {
    (void)state;
    static char text[5000];
    Buf out = {0};
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i % 26);
    tiny_vocab_begin(&t, "llama");
    memcpy(text, "\xE2\x96\x81", 3);
    gguf_writer_texts(&t.keys, "tokenizer.ggml.tokens", &(Str){text, sizeof text}, 1);
    must_open();
    assert_true(th_detokenize(&t.vocab, (const int32_t[]){0, 0}, 2, false, &out, NULL));
    assert_int_equal(out.len, 2 * (sizeof text - 2) - 1);
    assert_memory_equal(out.data, text + 3, sizeof text - 3);
    assert_int_equal(out.data[sizeof text - 3], ' ');
    assert_memory_equal(out.data + sizeof text - 2, text + 3, sizeof text - 3);
    th_buf_free(&out);
    tiny_vocab_close(&t);
}

/* ---- streams -------------------------------------------------------------------------------------------------------
 */

#define BAD "\xEF\xBF\xBD"

/* The whole text pushed in pieces of `step` bytes; every intermediate output must be whole characters. */
static size_t stream(const char *bytes, size_t n, size_t step, char *out) {
    unsigned char held[8];
    size_t n_held = 0, written = 0;
    for (size_t at = 0; at < n; at += step) {
        size_t piece = step < n - at ? step : n - at;
        written += th_utf8_stream_push(held, &n_held, bytes + at, piece, out + written);
        assert_true(n_held <= 3);
        char shown[4096];
        th_str_escape((Str){out, written}, shown, sizeof shown);
        assert_null(strstr(shown, "\\x")); /* nothing but whole, valid characters so far */
    }
    written += th_utf8_stream_end(held, &n_held, out + written);
    assert_int_equal(n_held, 0);
    return written;
}

static void streams_of_known_bytes(void **state) {
    (void)state;
    const struct {
        const char *bytes, *want;
    } rows[] = {
        {"plain", "plain"},
        {"\xF0\x9F\x90\x89\xE4\xBD\xA0", "\xF0\x9F\x90\x89\xE4\xBD\xA0"},
        {"\xFF", BAD},
        {"\x80\x80", BAD BAD},
        {"\xE4\xBD", BAD}, /* cut at the end */
        {"\xE4\xBD"
         "a",
         BAD "a"}, /* one for the part that might have become something */
        {"\xF0\x9F\x90"
         "a",
         BAD "a"},
        {"\xF0\x9F\xE4\xBD\xA0", BAD "\xE4\xBD\xA0"},
        {"\xC0\x80", BAD BAD}, /* overlong */
        {"\xC1\xBF", BAD BAD},
        {"\xE0\x80\x80", BAD BAD BAD},
        {"\xE0\x9F\xBF", BAD BAD BAD},
        {"\xF0\x8F\xBF\xBF", BAD BAD BAD BAD},
        {"\xED\xA0\x80", BAD BAD BAD}, /* surrogate */
        {"\xED\x9F\xBF", "\xED\x9F\xBF"},
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
        {"\xF4\x90\x80\x80", BAD BAD BAD BAD}, /* beyond U+10FFFF */
        {"\xF5\x80", BAD BAD},
        {"\xE4\xE4\xBD\xA0", BAD "\xE4\xBD\xA0"},
    };
    for (size_t i = 0; i < TH_COUNT(rows); i++)
        for (size_t step = 1; step <= 5; step++) {
            char out[64] = {0};
            size_t n = stream(rows[i].bytes, strlen(rows[i].bytes), step, out);
            assert_int_equal(n, strlen(rows[i].want));
            assert_memory_equal(out, rows[i].want, n);
        }
}

/* Random bytes that are often nearly characters: the cuts change nothing, and the room of 3 n + 12 is enough. */
static void streams_do_not_depend_on_cuts(void **state) {
    (void)state;
    static const unsigned char likely[] = {'a', 0x80, 0xBF, 0xC2, 0xE0, 0xA0, 0xED, 0x9F, 0xF0, 0x90, 0xF4, 0x8F, 0xFF};
    uint64_t rng[4];
    th_rng_seed(rng, 7);
    for (int round = 0; round < 3000; round++) {
        char bytes[40], one[3 * sizeof bytes + 12], other[sizeof one];
        size_t n = th_rng_next(rng) % sizeof bytes;
        for (size_t i = 0; i < n; i++) bytes[i] = (char)likely[th_rng_next(rng) % sizeof likely];
        size_t a = stream(bytes, n, 1, one), b = stream(bytes, n, 1 + th_rng_next(rng) % 7, other);
        assert_int_equal(a, b);
        assert_memory_equal(one, other, a);
    }
}

/* A valid text passes unchanged; after each byte everything that is whole has been written. */
static void streams_hold_back_no_more_than_needed(void **state) {
    (void)state;
    const char text[] = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x90\x89!";
    const size_t whole_after[] = {1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    unsigned char held[8];
    char out[64];
    size_t n_held = 0, written = 0;
    for (size_t i = 0; i < sizeof text - 1; i++) {
        written += th_utf8_stream_push(held, &n_held, text + i, 1, out + written);
        assert_int_equal(written, whole_after[i]);
    }
    assert_memory_equal(out, text, sizeof text - 1);
    assert_int_equal(th_utf8_stream_end(held, &n_held, out), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_each_type),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(no_byte_beyond_the_room),
        cmocka_unit_test(leading_space_of_sequences),
        cmocka_unit_test(long_tokens_of_the_library),
        cmocka_unit_test(pieces_longer_than_any_room),
        cmocka_unit_test(streams_of_known_bytes),
        cmocka_unit_test(streams_do_not_depend_on_cuts),
        cmocka_unit_test(streams_hold_back_no_more_than_needed),
    };
    return cmocka_run_group_tests_name("detok", tests, NULL, NULL);
}
