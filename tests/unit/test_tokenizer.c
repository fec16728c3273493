/* test_tokenizer.c: text to tokens. The rules are written down a second time here, as plainly and slowly as the
 * specification says them, and compared over many random vocabularies, also broken and incomplete ones; then single
 * cases, long texts, and what happens without memory. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/rng.h"
#include "common/tiny_vocab.h"
#include "text/vocab_parts.h"

static TinyVocab t; /* a test program's own */
static uint64_t rng[4];

static uint64_t below(uint64_t n) { return th_rng_next(rng) % n; }

/* ---- the rules, plainly --------------------------------------------------------------------------------------------
 */

typedef struct Ids {
    int32_t id[8192];
    size_t n;
} Ids;

enum { PARTS_MAX = 4096 };
typedef struct Parts {
    Str part[PARTS_MAX];
    int32_t special[PARTS_MAX]; /* id, or -1: raw text */
    size_t n;
} Parts;

static void add_id(Ids *ids, int32_t id) {
    if (ids->n == TH_COUNT(ids->id)) abort();
    ids->id[ids->n++] = id;
}

static void add_part(Parts *p, Str text, int32_t special) {
    if (text.len == 0 && special < 0) return;
    if (p->n == PARTS_MAX) abort();
    p->part[p->n] = text;
    p->special[p->n++] = special;
}

/* Section 2, step 2: one candidate after the other over every raw part. */
static void plain_partition(Parts *p, int32_t id) {
    static Parts next;
    Str text = th_vocab_text(&t.vocab, id);
    next.n = 0;
    for (size_t i = 0; i < p->n; i++) {
        Str rest = p->part[i];
        if (p->special[i] >= 0) {
            add_part(&next, rest, p->special[i]);
            continue;
        }
        for (size_t at = 0; at + text.len <= rest.len;) {
            if (memcmp(rest.data + at, text.data, text.len) != 0) {
                at++;
                continue;
            }
            add_part(&next, (Str){rest.data, at}, -1);
            add_part(&next, (Str){rest.data + at, text.len}, id);
            rest = (Str){rest.data + at + text.len, rest.len - at - text.len};
            at = 0;
        }
        add_part(&next, rest, -1);
    }
    *p = next;
}

/* Candidates by descending length, then by id, found by counting down. */
static void plain_parts(Parts *p, Str text, bool special) {
    p->n = 0;
    add_part(p, text, -1);
    for (size_t length = TINY_TEXT_MAX; length > 0; length--)
        for (int32_t id = 0; id < t.vocab.n; id++) {
            int type = t.vocab.type[id];
            bool candidate = type == TOKEN_USER || (special && (type == TOKEN_CONTROL || type == TOKEN_UNKNOWN));
            if (candidate && th_vocab_text(&t.vocab, id).len == length) plain_partition(p, id);
        }
}

/* Symbols as texts; the pair to merge is the one that `better` prefers, the leftmost among equals. */
typedef struct PlainWord {
    char text[PARTS_MAX][TINY_TEXT_MAX * 4];
    size_t len[PARTS_MAX];
    size_t n;
} PlainWord;
static PlainWord word;

static Str joined(size_t i, char room[TINY_TEXT_MAX * 8]) {
    memcpy(room, word.text[i], word.len[i]);
    memcpy(room + word.len[i], word.text[i + 1], word.len[i + 1]);
    return (Str){room, word.len[i] + word.len[i + 1]};
}

/* Rank of a pair of texts, straight from the rows as the test wrote them; -1: none. */
static int64_t plain_rank(size_t i) {
    for (size_t k = 0; k < t.n_merges; k++) {
        const char *space = t.merge[k].len > 1 ? memchr(t.merge[k].data + 1, ' ', t.merge[k].len - 1) : NULL;
        if (!space) continue;
        size_t left = (size_t)(space - t.merge[k].data), right = t.merge[k].len - left - 1;
        if (left == word.len[i] && right == word.len[i + 1] && !memcmp(t.merge[k].data, word.text[i], left) &&
            !memcmp(space + 1, word.text[i + 1], right))
            return (int64_t)k;
    }
    return -1;
}

/* Lower is earlier. */
static bool plain_priority(size_t i, double *priority) {
    char room[TINY_TEXT_MAX * 8];
    if (t.vocab.kind == VOCAB_BPE) {
        int64_t rank = plain_rank(i);
        *priority = (double)rank;
        return rank >= 0;
    }
    int32_t id = th_vocab_find(&t.vocab, joined(i, room));
    *priority = id < 0 ? 0 : -(double)t.vocab.score[id];
    return id >= 0;
}

static void plain_merge(void) {
    for (;;) {
        size_t best = 0;
        double best_priority = 0, priority;
        bool any = false;
        for (size_t i = 0; i + 1 < word.n; i++)
            if (plain_priority(i, &priority) && (!any || priority < best_priority)) {
                any = true;
                best = i;
                best_priority = priority;
            }
        if (!any) return;
        char room[TINY_TEXT_MAX * 8];
        Str both = joined(best, room);
        if (both.len > sizeof word.text[0]) abort();
        memcpy(word.text[best], both.data, both.len);
        word.len[best] = both.len;
        for (size_t i = best + 1; i + 1 < word.n; i++) {
            memcpy(word.text[i], word.text[i + 1], word.len[i + 1]);
            word.len[i] = word.len[i + 1];
        }
        word.n--;
    }
}

static void add_symbol(const char *p, size_t n) {
    if (word.n == PARTS_MAX) abort();
    memcpy(word.text[word.n], p, n);
    word.len[word.n++] = n;
}

static bool plain_bpe_word(void *arg, Str piece) {
    Ids *ids = arg;
    word.n = 0;
    for (size_t i = 0; i < piece.len; i++) {
        char c[2];
        add_symbol(c, th_byte_char((unsigned char)piece.data[i], c));
    }
    plain_merge();
    for (size_t i = 0; i < word.n; i++) {
        int32_t id = th_vocab_find(&t.vocab, (Str){word.text[i], word.len[i]});
        if (id >= 0) add_id(ids, id);
        for (size_t at = 0, n; id < 0 && at < word.len[i]; at += n) {
            uint32_t c;
            n = th_utf8_decode(word.text[i] + at, word.len[i] - at, &c);
            int32_t byte = th_vocab_find(&t.vocab, (Str){word.text[i] + at, n});
            if (byte >= 0) add_id(ids, byte);
        }
    }
    return true;
}

static void plain_bpe(Ids *ids, Str text, const Pretok *pretok) {
    static char repaired[3 * 4096];
    size_t n = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t c;
        size_t length = th_utf8_decode(text.data + at, text.len - at, &c);
        memcpy(repaired + n, length ? text.data + at : "\xEF\xBF\xBD", length ? length : 3);
        n += length ? length : 3;
        at += length ? length : 1;
    }
    assert_true(th_pretok_split(pretok, (Str){repaired, n}, plain_bpe_word, ids, NULL));
}

static void plain_spm(Ids *ids, Str text) {
    static char spaced[3 * 4096];
    size_t n = 0;
    for (size_t i = 0; i <= text.len; i++) {
        bool prefix = i == 0, space = prefix ? t.vocab.add_space_prefix : text.data[i - 1] == ' ';
        if (space) memcpy(spaced + n, "\xE2\x96\x81", 3), n += 3;
        if (!prefix && !space) spaced[n++] = text.data[i - 1];
    }
    word.n = 0;
    for (size_t at = 0; at < n;) {
        unsigned char lead = (unsigned char)spaced[at];
        size_t length = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        if (length > n - at) length = n - at;
        add_symbol(spaced + at, length);
        at += length;
    }
    plain_merge();
    for (size_t i = 0; i < word.n; i++) {
        int32_t id = th_vocab_find(&t.vocab, (Str){word.text[i], word.len[i]});
        if (id >= 0) add_id(ids, id);
        for (size_t b = 0; id < 0 && b < word.len[i]; b++) {
            char name[8];
            snprintf(name, sizeof name, "<0x%02X>", (unsigned char)word.text[i][b]);
            int32_t byte = th_vocab_find(&t.vocab, (Str){name, 6});
            if (byte < 0) byte = th_vocab_find(&t.vocab, (Str){&word.text[i][b], 1});
            if (byte >= 0) add_id(ids, byte);
        }
    }
}

static void compare(Str text, bool special, const Pretok *pretok) {
    static Parts parts;
    static Ids want;
    TokenBuf got = {0};
    Err err = {0};
    want.n = 0;
    plain_parts(&parts, text, special);
    for (size_t i = 0; i < parts.n; i++)
        if (parts.special[i] >= 0)
            add_id(&want, parts.special[i]);
        else if (t.vocab.kind == VOCAB_BPE)
            plain_bpe(&want, parts.part[i], pretok);
        else
            plain_spm(&want, parts.part[i]);
    if (!th_tokenizer_encode(t.tokenizer, text, false, special, &got, &err)) fail_msg("%s", err.message);
    assert_int_equal(got.n, want.n);
    assert_memory_equal(got.ids ? got.ids : want.id, want.id, want.n * sizeof *want.id);
    th_token_buf_free(&got);
}

/* ---- random vocabularies -------------------------------------------------------------------------------------------
 */

static const char *const letters[] = {"a", "b", "c", " ", "\n", "\xC3\xA9", "\xE4\xBD\xA0"};
static size_t alphabet = TH_COUNT(letters); /* how many of them this round's vocabulary is made of */

/* Up to n letters; spaces as the vocabulary's model spells them. */
static void random_text(char *out, size_t n, const char *space) {
    out[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const char *letter = letters[below(alphabet)];
        strcat(out, space && strcmp(letter, " ") == 0 ? space : letter);
    }
}

/* A long word of few letters, so that many merges compete. */
static void random_word(char *out, size_t n, size_t few) {
    for (size_t i = 0; i < n; i++) out[i] = letters[below(few)][0];
    out[n] = 0;
}

static void encode_bytes(const char *text, char *out) {
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) n += th_byte_char((unsigned char)text[i], out + n);
    out[n] = 0;
}

static void random_bpe(void) {
    static char made[64][TINY_TEXT_MAX];
    size_t n = 0;
    tiny_vocab_begin(&t, "gpt2");
    bool complete = below(2);
    for (int b = 0; b < 256; b++) {
        char text[2];
        size_t length = th_byte_char((unsigned char)b, text);
        if (complete || below(4)) tiny_vocab_add_text(&t, (Str){text, length}, TOKEN_NORMAL);
    }
    for (; n < alphabet; n++) encode_bytes(letters[n], made[n]);
    for (size_t k = below(50); k > 0 && n < TH_COUNT(made); k--) {
        const char *left = made[below(n)], *right = made[below(n)];
        if (strlen(left) + strlen(right) > 24) continue;
        char row[TINY_TEXT_MAX];
        snprintf(row, sizeof row, "%.24s %.24s", left, right);
        tiny_vocab_merge(&t, row);
        char both[TINY_TEXT_MAX]; /* left and right live in made */
        snprintf(both, sizeof both, "%.24s%.24s", left, right);
        memcpy(made[n], both, sizeof both);
        if (complete || below(2)) tiny_vocab_add(&t, made[n], TOKEN_NORMAL);
        n++;
    }
}

static void random_spm(void) {
    tiny_vocab_begin(&t, "llama");
    if (below(2)) tiny_vocab_add_byte_tokens(&t);
    for (size_t k = below(80); k > 0; k--) {
        char text[TINY_TEXT_MAX];
        random_text(text, 1 + below(5), "\xE2\x96\x81");
        tiny_vocab_add_scored(&t, text, -(float)below(6));
    }
    gguf_writer_bool(&t.keys, "tokenizer.ggml.add_space_prefix", below(2));
    tiny_vocab_add_scored(&t, "<unk>", 0);
}

static void random_candidates(uint64_t most) {
    const int types[] = {TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER, TOKEN_USER};
    for (size_t k = below(most); k > 0; k--) {
        char text[TINY_TEXT_MAX];
        random_text(text, 1 + below(4), NULL);
        tiny_vocab_add(&t, text, types[below(TH_COUNT(types))]);
    }
    tiny_vocab_add(&t, "<|a|>", TOKEN_CONTROL);
}

static void same_as_the_plain_rules(void **state) {
    (void)state;
    th_rng_seed(rng, 20260101);
    Budget budget;
    Pretok *pretok;
    Err err = {0};
    th_budget_init(&budget, UINT64_MAX);
    assert_true(th_pretok_open(&pretok, TH_STR("gpt-2"), &budget, &err));
    for (int round = 0; round < 60; round++) {
        alphabet = round % 3 ? TH_COUNT(letters) : 2;
        if (round % 2)
            random_bpe();
        else
            random_spm();
        random_candidates(round / 2 % 2 ? 14 : 1); /* without them long words stay long */
        if (!tiny_vocab_open(&t, UINT64_MAX, &err)) fail_msg("%s", err.message);
        alphabet = TH_COUNT(letters);
        for (int i = 0; i < 24; i++) {
            char text[1024];
            random_text(text, below(30), NULL);
            if (i >= 16) random_word(text, 40 + below(120), 2 + below(2));
            size_t n = strlen(text);
            if (i % 5 == 1) strcat(text, "<|a|>b");
            if (i % 5 == 2 && n) text[below(n)] = (char)(0x80 + below(128)); /* broken UTF-8 */
            compare(th_str(text), i % 2, pretok);
        }
        tiny_vocab_close(&t);
    }
    th_pretok_close(pretok);
    th_budget_free(&budget);
}

/* ---- single cases --------------------------------------------------------------------------------------------------
 */

static void must_open(void) {
    Err err = {0};
    if (!tiny_vocab_open(&t, UINT64_MAX, &err)) fail_msg("%s", err.message);
}

static void expect(Str text, bool add_special, bool special, const int32_t *want, size_t n) {
    TokenBuf got = {0};
    Err err = {0};
    if (!th_tokenizer_encode(t.tokenizer, text, add_special, special, &got, &err)) fail_msg("%s", err.message);
    assert_int_equal(got.n, n);
    for (size_t i = 0; i < n; i++) assert_int_equal(got.ids[i], want[i]);
    th_token_buf_free(&got);
}
#define EXPECT(text, add, special, ...)                                                                                \
    expect(TH_STR(text), add, special, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / 4)

static void bos_eos_and_empty_text(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "llama");
    const char *texts[] = {"<unk>", "<s>", "</s>", "\xE2\x96\x81", "a"};
    for (size_t i = 0; i < TH_COUNT(texts); i++) tiny_vocab_add(&t, texts[i], i < 3 ? TOKEN_CONTROL : TOKEN_NORMAL);
    gguf_writer_bool(&t.keys, "tokenizer.ggml.add_eos_token", true);
    must_open();
    EXPECT("", true, false, 1, 2); /* no lone space */
    EXPECT("a", true, false, 1, 3, 4, 2);
    EXPECT("a<s>a", false, true, 3, 4, 1, 3, 4); /* a space again behind a special token */
    EXPECT("<s>", true, true, 1, 1, 2);
    tiny_vocab_close(&t);
}

static void untrusted_text_makes_no_control_token(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    tiny_vocab_add_bytes(&t);
    int32_t control = tiny_vocab_add(&t, "<|im_start|>", TOKEN_CONTROL);
    int32_t user = tiny_vocab_add(&t, "<think>", TOKEN_USER);
    tiny_vocab_add(&t, "<|im_end|>", TOKEN_NORMAL); /* wrongly typed, control all the same */
    must_open();
    TokenBuf got = {0};
    assert_true(th_tokenizer_encode(t.tokenizer, TH_STR("<|im_start|>x<think><|im_end|>"), false, false, &got, NULL));
    for (size_t i = 0; i < got.n; i++) assert_false(th_vocab_is_control(&t.vocab, got.ids[i]));
    th_token_buf_free(&got);
    EXPECT("<|im_start|><think><|im_end|>", false, true, control, user, user + 1);
    EXPECT("<think>", false, false, user);
    tiny_vocab_close(&t);
}

static void longer_texts_win_everywhere(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gpt2");
    tiny_vocab_add_bytes(&t);
    int32_t ab = tiny_vocab_add(&t, "ab", TOKEN_USER), bcd = tiny_vocab_add(&t, "bcd", TOKEN_USER);
    int32_t ba = tiny_vocab_add(&t, "ba", TOKEN_USER), control = tiny_vocab_add(&t, "ba", TOKEN_CONTROL);
    must_open();
    int32_t a = th_vocab_find(&t.vocab, TH_STR("a"));
    EXPECT("abcd", false, false, a, bcd);
    EXPECT("aba", false, false, ab, a); /* equal lengths: the lower id, wherever it lies */
    EXPECT("baba", false, false, th_vocab_find(&t.vocab, TH_STR("b")), ab, a);
    EXPECT("ba", false, true, ba); /* equal texts: the lower id */
    assert_true(control > ba);
    tiny_vocab_close(&t);
}

static void phi3_strips_behind_special_tokens(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "llama");
    gguf_writer_str(&t.keys, "general.name", "My Phi-3 model");
    const char *texts[] = {"<unk>", "<s>", "</s>", "<|end|>", "\xE2\x96\x81", "a", "\n"};
    for (size_t i = 0; i < TH_COUNT(texts); i++) tiny_vocab_add(&t, texts[i], i < 4 ? TOKEN_CONTROL : TOKEN_NORMAL);
    must_open();
    EXPECT("<|end|> \n a", false, true, 3, 4, 5);
    EXPECT("</s> a", false, true, 2, 4, 5);
    EXPECT("<s> a", false, true, 1, 4, 4, 5); /* not behind this one */
    EXPECT("<|end|> \n<|end|>", false, true, 3, 3);
    tiny_vocab_close(&t);
}

static void whole_words_where_merges_are_ignored(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_vocab_begin(&t, NULL);
        t.model = "gpt2";
        gguf_writer_str(&t.keys, "tokenizer.ggml.model", "gpt2");
        gguf_writer_str(&t.keys, "tokenizer.ggml.pre", i ? "llama-bpe" : "dbrx");
        int32_t a = tiny_vocab_add(&t, "a", TOKEN_NORMAL), b = tiny_vocab_add(&t, "b", TOKEN_NORMAL);
        int32_t ab = tiny_vocab_add(&t, "ab", TOKEN_NORMAL);
        gguf_writer_bool(&t.keys, "tokenizer.ggml.add_bos_token", false);
        must_open();
        if (i)
            EXPECT("ab", false, false, ab);
        else
            EXPECT("ab", false, false, a, b);
        tiny_vocab_close(&t);
    }
}

static void raw_characters(void **state) {
    (void)state;
    tiny_vocab_begin(&t, "gemma4");
    tiny_vocab_add_byte_tokens(&t);
    int32_t space = tiny_vocab_add(&t, "\xE2\x96\x81", TOKEN_NORMAL), a = tiny_vocab_add(&t, "a", TOKEN_NORMAL);
    int32_t space_a = tiny_vocab_add(&t,
                                     "\xE2\x96\x81"
                                     "a",
                                     TOKEN_NORMAL);
    int32_t lines = tiny_vocab_add(&t, "\n\n", TOKEN_NORMAL);
    tiny_vocab_merge(&t, "\xE2\x96\x81 a");
    must_open();
    assert_true(t.vocab.raw_utf8 && t.vocab.add_bos);
    EXPECT("a a", false, false, a, space_a);
    EXPECT(" \n\na", false, false, space, lines, a);
    EXPECT("\xC3\xA9", false, false, 0xC3, 0xA9);
    EXPECT("\n", false, false, 0x0A);
    Buf back = {0};
    assert_true(th_detokenize(&t.vocab, (const int32_t[]){a, space_a, 0xC3, 0xA9}, 4, false, &back, NULL));
    assert_string_equal(back.data, "a a\xC3\xA9");
    th_buf_free(&back);
    tiny_vocab_close(&t);
}

/* ---- pre-tokenizers ------------------------------------------------------------------------------------------------
 */

typedef struct Joined {
    char text[256];
    size_t n, stop_after;
} Joined;

static bool join_pieces(void *arg, Str piece) {
    Joined *j = arg;
    size_t at = strlen(j->text);
    snprintf(j->text + at, sizeof j->text - at, "%.*s|", (int)piece.len, piece.data);
    return ++j->n != j->stop_after;
}

static void pieces(void **state) {
    (void)state;
    const struct {
        const char *pre, *text, *want;
    } rows[] = {
        {"gpt-2", "it's 123  x", "it|'s| 123| | x|"},
        {"gpt-2", "IT'S", "IT|'|S|"},
        {"llama-bpe", "IT'S 12345", "IT|'S| |123|45|"},
        {"qwen2", "a1234\n\n b", "a|1|2|3|4|\n\n| b|"},
        {"smollm", "x 12", "x| |1|2|"},
        {"seed-coder", "!!\n x", "!!|\n| x|"},
        {"bailingmoe2", "a\n\n b", "a|\n\n| b|"},
        {"gpt-4o", "HelloWorld's", "Hello|World's|"},
        {"deepseek-llm", "ab \xE4\xBD\xA0  ", "ab| |\xE4\xBD\xA0|  |"},
        {"deepseek-coder", "a1\n", "a|1|\n|"},
        {"default", "a1234", "a|123|4|"},
        {"", "a1234", "a|123|4|"},
        {"viking", "a(b 12", "a|(|b| |1|2|"},
        /* U+0085 is white space here, U+180E is not: it clings to the letter as any other sign does. */
        {"qwen2",
         "\xC2\x85\xC2\x85"
         "a",
         "\xC2\x85|\xC2\x85"
         "a|"},
        {"qwen2", "!\xE1\xA0\x8E", "!\xE1\xA0\x8E|"},
        {"gpt-2", "\xE1\xA0\x8E\xE1\xA0\x8E a", "\xE1\xA0\x8E\xE1\xA0\x8E| a|"},
        {"gpt-2", "\xC2\x85\xC2\x85 a", "\xC2\x85\xC2\x85| a|"},
    };
    Budget budget;
    th_budget_init(&budget, UINT64_MAX);
    for (size_t i = 0; i < TH_COUNT(rows); i++) {
        Pretok *p;
        Err err = {0};
        Joined j = {0};
        assert_true(th_pretok_open(&p, th_str(rows[i].pre), &budget, &err));
        assert_true(th_pretok_split(p, th_str(rows[i].text), join_pieces, &j, &err));
        assert_string_equal(j.text, rows[i].want);
        th_pretok_close(p);
        assert_int_equal(budget.used, 0);
    }
    th_budget_free(&budget);
}

static void pieces_stop_and_refuse(void **state) {
    (void)state;
    Budget budget;
    Pretok *p;
    Err err = {0};
    bool ignore, bos;
    th_budget_init(&budget, UINT64_MAX);
    assert_true(th_pretok_open(&p, TH_STR("qwen2"), &budget, &err));
    Joined j = {.stop_after = 2};
    assert_false(th_pretok_split(p, TH_STR("a b c d"), join_pieces, &j, &err));
    assert_string_equal(j.text, "a| b|");
    assert_false(th_pretok_split(p, TH_STR("a\xFF"), join_pieces, &j, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    th_pretok_close(p);
    assert_false(th_pretok_open(&p, TH_STR("qwen"), &budget, &err));
    assert_int_equal(err.code, THIMBLE_E_UNSUPPORTED);
    assert_null(p);
    assert_false(th_pretok_traits(TH_STR("llama-bpe lfm2"), &ignore, &bos)); /* one name, not a list */
    th_budget_free(&budget);
}

/* ---- long texts and little memory ----------------------------------------------------------------------------------
 */

enum { LONG = 1 << 20 };

/* A million equal characters end in finite time and decode to what they were. */
static void long_texts(void **state) {
    (void)state;
    const char *const units[] = {"a", " ", "\n", "\xE4\xBD\xA0", "1", " a", "<|x|>", "ab", ".\n"};
    char *text = malloc(LONG + 8);
    assert_non_null(text);
    for (int kind = 0; kind < 2; kind++) {
        tiny_vocab_begin(&t, kind ? "llama" : "gpt2");
        if (kind)
            tiny_vocab_add_byte_tokens(&t);
        else
            tiny_vocab_add_bytes(&t);
        const char *tokens[] = {"aa", "aaaa",        "\xE2\x96\x81\xE2\x96\x81", "\xC4\xA0\xC4\xA0", "\n\n",
                                "a",  "\xE2\x96\x81"};
        for (size_t i = 0; i < TH_COUNT(tokens); i++) tiny_vocab_add_scored(&t, tokens[i], (float)i);
        tiny_vocab_merge(&t, "a a");
        tiny_vocab_merge(&t, "aa aa");
        tiny_vocab_merge(&t, "\xC4\xA0 \xC4\xA0");
        tiny_vocab_add(&t, "<|x|>", TOKEN_USER);
        must_open();
        for (size_t i = 0; i < TH_COUNT(units); i++) {
            size_t unit = strlen(units[i]), n = LONG / unit * unit;
            for (size_t at = 0; at < n; at++) text[at] = units[i][at % unit];
            TokenBuf got = {0};
            Buf back = {0};
            Err err = {0};
            if (!th_tokenizer_encode(t.tokenizer, (Str){text, n}, false, false, &got, &err))
                fail_msg("%s", err.message);
            assert_true(th_detokenize(&t.vocab, got.ids, got.n, false, &back, &err));
            bool special = kind && i == 6; /* SPM puts a space behind each special token */
            if (!special) {
                assert_int_equal(back.len, n);
                assert_memory_equal(back.data, text, n);
            }
            th_buf_free(&back);
            th_token_buf_free(&got);
        }
        tiny_vocab_close(&t);
    }
    free(text);
}

/* What is left over decides whether a word of a million characters can be split, never whether ordinary text can. */
static void a_full_budget(void **state) {
    (void)state;
    char *text = malloc(LONG);
    assert_non_null(text);
    tiny_vocab_begin(&t, "gpt2");
    tiny_vocab_add_bytes(&t);
    must_open();
    th_budget_limit(&t.budget, t.budget.used);
    uint64_t used = t.budget.used;
    TokenBuf got = {0};
    Err err = {0};
    for (size_t i = 0; i < LONG; i++) text[i] = i % 8 ? 'a' : ' ';
    assert_true(th_tokenizer_encode(t.tokenizer, (Str){text, LONG}, false, true, &got, &err));
    assert_int_equal(got.n, LONG);
    memset(text, 'a', LONG);
    assert_false(th_tokenizer_encode(t.tokenizer, (Str){text, LONG}, false, true, &got, &err));
    assert_int_equal(err.code, THIMBLE_E_BUDGET);
    assert_non_null(strstr(err.message, "long"));
    assert_int_equal(got.n, LONG); /* as before the failure */
    assert_int_equal(t.budget.used, used);
    th_token_buf_free(&got);
    tiny_vocab_close(&t);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_the_plain_rules),
        cmocka_unit_test(bos_eos_and_empty_text),
        cmocka_unit_test(untrusted_text_makes_no_control_token),
        cmocka_unit_test(longer_texts_win_everywhere),
        cmocka_unit_test(phi3_strips_behind_special_tokens),
        cmocka_unit_test(whole_words_where_merges_are_ignored),
        cmocka_unit_test(raw_characters),
        cmocka_unit_test(pieces),
        cmocka_unit_test(pieces_stop_and_refuse),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(a_full_budget),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
