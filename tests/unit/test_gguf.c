/* test_gguf.c: one container file: what good ones give back, how bad ones are refused (faults B01 to B06). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "common/scratch.h"
#include "gguf/gguf.h"

enum { HEADER = 24 };

typedef struct Fixture {
    Scratch scratch;
    GgufWriter w;
    Gguf g;
    Budget budget;
    Err err;
} Fixture;

static int set_up(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    th_scratch_open(&f->scratch);
    gguf_writer_init(&f->w);
    th_budget_init(&f->budget, 64 * TH_MIB);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    Fixture *f = *state;
    th_gguf_close(&f->g);
    int left = f->budget.used != 0; /* a leak in the ledger fails the test */
    gguf_writer_free(&f->w);
    th_scratch_close(&f->scratch);
    th_budget_free(&f->budget);
    free(f);
    return left;
}

static bool open_bytes(Fixture *f, const void *bytes, size_t len) {
    th_gguf_close(&f->g);
    f->err = (Err){0};
    return th_gguf_open_single(&f->g, th_scratch_write(&f->scratch, "x.gguf", bytes, len), &f->budget, &f->err);
}

static bool open_written(Fixture *f) {
    char *bytes;
    size_t len;
    gguf_writer_finish(&f->w, &bytes, &len);
    bool ok = open_bytes(f, bytes, len);
    free(bytes);
    return ok;
}

static void must_open(Fixture *f) {
    if (!open_written(f)) fail_msg("%s", f->err.message);
}

/* Refused as the file's fault, with a sentence that holds `word`, without taking memory for what it claims. */
static void must_refuse(Fixture *f, const char *word) {
    f->budget.peak = 0;
    assert_false(open_written(f));
    assert_true(f->err.code == THIMBLE_E_FORMAT || f->err.code == THIMBLE_E_UNSUPPORTED);
    if (!strstr(f->err.message, word)) fail_msg("expected \"%s\" in: %s", word, f->err.message);
    assert_true(f->budget.peak < 512 * TH_KIB);
}

static void restart(Fixture *f) {
    gguf_writer_free(&f->w);
    gguf_writer_init(&f->w);
}

static void add_tensor(Fixture *f, const char *name, uint32_t type, uint64_t cols, uint64_t rows) {
    gguf_writer_tensor(&f->w, name, type, 2, (uint64_t[]){cols, rows}, NULL);
}

/* ---- good files ---- */

static void every_type_comes_back(void **state) {
    Fixture *f = *state;
    GgufWriter *w = &f->w;
    gguf_writer_u8(w, "u8", 200);
    gguf_writer_i8(w, "i8", -100);
    gguf_writer_u16(w, "u16", 65535);
    gguf_writer_i16(w, "i16", -32768);
    gguf_writer_u32(w, "u32", UINT32_MAX);
    gguf_writer_i32(w, "i32", INT32_MIN);
    gguf_writer_f32(w, "f32", 0.15625f);
    gguf_writer_bool(w, "bool", true);
    gguf_writer_str(w, "str", "text");
    /* Arrays before the keys that follow: a wrong skip would read garbage (fault B04). */
    gguf_writer_array(w, "a.bool", GGUF_BOOL, "\1\0\1\1\0", 5);
    gguf_writer_array(w, "a.u16", GGUF_U16, (uint16_t[]){1, 2, 3}, 3);
    gguf_writer_strs(w, "a.str", (const char *const[]){"one", "", "three"}, 3);
    gguf_writer_array(w, "a.empty", GGUF_STRING, NULL, 0);
    gguf_writer_array(w, "a.f64", GGUF_F64, (double[]){1.5, -2.5}, 2);
    gguf_writer_u64(w, "u64", UINT64_MAX);
    gguf_writer_i64(w, "i64", INT64_MIN);
    gguf_writer_f64(w, "f64", 0.1);
    must_open(f);
    const Gguf *g = &f->g;
    assert_int_equal(g->n_kv, 17);
    assert_int_equal(th_gguf_kv(g, "u8")->value.u, 200);
    assert_int_equal(th_gguf_kv(g, "i8")->value.i, -100);
    assert_int_equal(th_gguf_kv(g, "u16")->value.u, 65535);
    assert_int_equal(th_gguf_kv(g, "i16")->value.i, -32768);
    assert_int_equal(th_gguf_kv(g, "u32")->value.u, UINT32_MAX);
    assert_int_equal(th_gguf_kv(g, "i32")->value.i, INT32_MIN);
    assert_true(th_gguf_kv(g, "f32")->value.f == 0.15625);
    assert_int_equal(th_gguf_kv(g, "bool")->value.u, 1);
    assert_string_equal(th_gguf_kv(g, "str")->text, "text");
    assert_int_equal(th_gguf_kv(g, "a.bool")->payload, 5);
    assert_int_equal(th_gguf_kv(g, "a.empty")->count, 0);
    assert_true(th_gguf_kv(g, "u64")->value.u == UINT64_MAX);
    assert_true(th_gguf_kv(g, "i64")->value.i == INT64_MIN);
    assert_true(th_gguf_kv(g, "f64")->value.f == 0.1);
    assert_null(th_gguf_kv(g, "u"));
}

static void getters_convert_and_check(void **state) {
    Fixture *f = *state;
    GgufWriter *w = &f->w;
    gguf_writer_i64(w, "i", -5);
    gguf_writer_u64(w, "big", UINT64_MAX);
    gguf_writer_f32(w, "r", 2.5f);
    gguf_writer_f32(w, "nan", NAN);
    gguf_writer_f64(w, "inf", INFINITY);
    gguf_writer_bool(w, "b", true);
    gguf_writer_u8(w, "two", 2);
    gguf_writer_str(w, "s", "7");
    gguf_writer_array(w, "same", GGUF_U32, (uint32_t[]){9, 9, 9}, 3);
    gguf_writer_array(w, "mixed", GGUF_U32, (uint32_t[]){9, 8, 9}, 3);
    gguf_writer_array(w, "none", GGUF_U32, NULL, 0);
    must_open(f);
    const Gguf *g = &f->g;
    Err *e = &f->err;
    int64_t i = 77;
    double r = 77;
    bool b = false;
    Str s = {0};
    assert_true(th_gguf_get_int(g, "absent", 0, 1, &i, e) && i == 77);
    assert_true(th_gguf_get_int(g, "i", -5, -5, &i, e) && i == -5);
    assert_false(th_gguf_get_int(g, "i", -4, 5, &i, e));
    assert_non_null(strstr(e->message, "key i: -5"));
    assert_false(th_gguf_get_int(g, "big", 0, INT64_MAX, &i, e));
    assert_non_null(strstr(e->message, "18446744073709551615"));
    assert_false(th_gguf_get_int(g, "r", 0, 9, &i, e));
    assert_false(th_gguf_get_int(g, "s", 0, 9, &i, e)); /* texts are never numbers */
    assert_false(th_gguf_get_int(g, "b", 0, 9, &i, e));
    assert_true(th_gguf_get_int(g, "same", 0, 9, &i, e) && i == 9);
    assert_false(th_gguf_get_int(g, "mixed", 0, 9, &i, e));
    assert_false(th_gguf_get_int(g, "none", 0, 9, &i, e));
    assert_true(th_gguf_get_real(g, "i", -9, 9, &r, e) && r == -5);
    assert_true(th_gguf_get_real(g, "r", 0, 9, &r, e) && r == 2.5);
    assert_false(th_gguf_get_real(g, "r", 3, 9, &r, e));
    assert_false(th_gguf_get_real(g, "nan", -1e300, 1e300, &r, e));
    assert_false(th_gguf_get_real(g, "inf", -INFINITY, INFINITY, &r, e));
    assert_true(r == 2.5);
    assert_true(th_gguf_get_bool(g, "b", &b, e) && b);
    assert_false(th_gguf_get_bool(g, "two", &b, e));
    assert_true(th_gguf_get_str(g, "s", &s, e) && th_str_is(s, "7"));
    assert_false(th_gguf_get_str(g, "i", &s, e));
}

static void layers_take_scalars_and_arrays(void **state) {
    Fixture *f = *state;
    gguf_writer_u16(&f->w, "one", 4);
    gguf_writer_array(&f->w, "bool", GGUF_BOOL, "\0\1\2", 3);
    gguf_writer_array(&f->w, "five", GGUF_I32, (int32_t[]){1, 2, 3, 4, -5}, 5);
    gguf_writer_array(&f->w, "real", GGUF_F32, (float[]){1, 2, INFINITY}, 3);
    must_open(f);
    const Gguf *g = &f->g;
    Err *e = &f->err;
    int64_t v[5] = {0};
    double r[5];
    bool present;
    assert_true(th_gguf_get_ints(g, "absent", 3, 0, 0, 9, v, &present, e) && !present);
    assert_true(th_gguf_get_ints(g, "one", 3, 0, 0, 9, v, &present, e) && present && v[0] == 4 && v[2] == 4 &&
                v[3] == 0);
    assert_true(th_gguf_get_ints(g, "bool", 3, 0, 0, 1, v, &present, e) && v[0] == 0 && v[1] == 1 && v[2] == 1);
    assert_false(th_gguf_get_ints(g, "five", 3, 0, 0, 9, v, &present, e));
    assert_false(th_gguf_get_ints(g, "five", 3, 1, 0, 9, v, &present, e));
    assert_false(th_gguf_get_ints(g, "five", 6, 9, 0, 9, v, &present, e));             /* slack never means shorter */
    assert_true(th_gguf_get_ints(g, "five", 4, 1, 0, 9, v, &present, e) && v[3] == 4); /* the -5 is beyond */
    assert_false(th_gguf_get_ints(g, "five", 5, 0, 0, 9, v, &present, e));
    assert_non_null(strstr(e->message, "element 4"));
    assert_false(th_gguf_get_ints(g, "real", 3, 0, 0, 9, v, &present, e));
    assert_true(th_gguf_get_reals(g, "real", 2, 1, 0, 9, r, &present, e) && r[1] == 2);
    assert_false(th_gguf_get_reals(g, "real", 3, 0, 0, 9, r, &present, e));
    assert_true(th_gguf_get_reals(g, "one", 2, 0, 0, 9, r, &present, e) && r[1] == 4);
}

/* Longer than the window, so that texts and arrays lie across its edges. */
static void long_values_stay_in_the_file(void **state) {
    Fixture *f = *state;
    enum { LONG = 700001, N = 100000 };
    char *text = malloc(LONG);
    int32_t *ints = malloc(N * sizeof *ints);
    for (size_t i = 0; i < LONG; i++) text[i] = (char)(i * 7 + i / 1000);
    for (int i = 0; i < N; i++) ints[i] = i - N / 2;
    Str texts[] = {{text, 300000}, {"", 0}, {"nul\0inside", 10}, {text + 5, 699000}, {"\xFF\xFE", 2}};
    gguf_writer_text(&f->w, "long", text, LONG);
    gguf_writer_texts(&f->w, "texts", texts, 5);
    gguf_writer_array(&f->w, "ints", GGUF_I32, ints, N);
    gguf_writer_text(&f->w, "edge", text, 4096);
    gguf_writer_text(&f->w, "over", text, 4097);
    gguf_writer_u32(&f->w, "last", 3);
    f->budget.peak = 0;
    must_open(f);
    assert_true(f->budget.peak < 512 * TH_KIB); /* 2 MB of values, none of them stored */
    Arena arena;
    th_arena_init(&arena, &f->budget, MEM_METADATA);
    Str got = {0}, *strings = NULL;
    int32_t *numbers = NULL;
    int64_t last = 0;
    assert_null(th_gguf_kv(&f->g, "long")->text);
    assert_non_null(th_gguf_kv(&f->g, "edge")->text);
    assert_null(th_gguf_kv(&f->g, "over")->text);
    assert_false(th_gguf_get_str(&f->g, "over", &got, &f->err));
    assert_true(th_gguf_read_text(&f->g, th_gguf_kv(&f->g, "long"), &arena, &got, &f->err));
    assert_true(th_str_eq(got, (Str){text, LONG}) && got.data[LONG] == 0);
    assert_true(th_gguf_read_text(&f->g, th_gguf_kv(&f->g, "edge"), &arena, &got, &f->err));
    assert_true(th_str_eq(got, (Str){text, 4096}));
    assert_true(th_gguf_read_strings(&f->g, th_gguf_kv(&f->g, "texts"), &arena, &strings, &f->err));
    for (int i = 0; i < 5; i++) assert_true(th_str_eq(strings[i], texts[i]));
    assert_true(th_gguf_read_ints(&f->g, th_gguf_kv(&f->g, "ints"), &arena, INT32_MIN, INT32_MAX, &numbers, &f->err));
    assert_memory_equal(numbers, ints, N * sizeof *ints);
    assert_false(th_gguf_read_ints(&f->g, th_gguf_kv(&f->g, "ints"), &arena, 0, INT32_MAX, &numbers, &f->err));
    assert_false(th_gguf_read_strings(&f->g, th_gguf_kv(&f->g, "ints"), &arena, &strings, &f->err));
    assert_true(th_gguf_get_int(&f->g, "last", 0, 9, &last, &f->err) && last == 3);
    th_arena_free(&arena);
    free(text);
    free(ints);
}

/* Fault B05: the same tensors at every alignment give the same bytes. */
static void alignments_are_honoured(void **state) {
    Fixture *f = *state;
    const uint32_t good[] = {8, 16, 32, 64, 4096, 1048576};
    const unsigned char data[16] = "0123456789abcdef";
    for (size_t i = 0; i < TH_COUNT(good); i++) {
        restart(f);
        gguf_writer_align(&f->w, good[i]);
        for (int t = 0; t < 3; t++)
            gguf_writer_tensor(&f->w, (const char *[]){"a", "b", "c"}[t], TYPE_F32, 1, (uint64_t[]){4}, data);
        must_open(f);
        for (size_t t = 0; t < 3; t++) {
            unsigned char got[16];
            const GgufTensor *tensor = &f->g.tensors[t];
            assert_int_equal(tensor->offset % good[i], 0);
            assert_true(th_file_read(&f->g.files[0], got, sizeof got, tensor->offset, &f->err));
            assert_memory_equal(got, data, sizeof got);
        }
    }
    const uint32_t bad[] = {0, 1, 3, 4, 48, 2097152, 0x80000000u, UINT32_MAX};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        restart(f);
        gguf_writer_u32(&f->w, "general.alignment", bad[i]);
        must_refuse(f, "general.alignment");
    }
    restart(f);
    gguf_writer_i32(&f->w, "general.alignment", 32);
    must_refuse(f, "INT32");
    restart(f);
    gguf_writer_array(&f->w, "general.alignment", GGUF_U32, (uint32_t[]){32}, 1);
    must_refuse(f, "ARRAY");
}

/* Fault B06: a real vocabulary and many tensors cost a pass and a little memory, not copies. */
static void large_headers_are_cheap(void **state) {
    Fixture *f = *state;
    enum { TOKENS = 262144, TENSORS = 2000 };
    Str *tokens = malloc(TOKENS * sizeof *tokens);
    char(*text)[16] = malloc(TOKENS * sizeof *text);
    float *scores = calloc(TOKENS, sizeof *scores);
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (Str){text[i], (size_t)snprintf(text[i], sizeof text[i], "token%d", i)};
    gguf_writer_texts(&f->w, "tokenizer.ggml.tokens", tokens, TOKENS);
    gguf_writer_texts(&f->w, "tokenizer.ggml.merges", tokens, TOKENS);
    gguf_writer_array(&f->w, "tokenizer.ggml.scores", GGUF_F32, scores, TOKENS);
    for (int i = 0; i < TENSORS; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_exps.weight", i);
        gguf_writer_tensor(&f->w, name, TYPE_Q8_0, 1, (uint64_t[]){32}, NULL);
    }
    f->budget.peak = 0;
    must_open(f);
    assert_int_equal(f->g.n_tensors, TENSORS);
    assert_true(f->budget.peak < 2 * TH_MIB);
    const GgufTensor *t = th_gguf_tensor(&f->g, "blk.1999.ffn_gate_exps.weight");
    assert_true(t == &f->g.tensors[1999]);
    free(tokens);
    free(text);
    free(scores);
}

static void order_and_gaps_are_free(void **state) {
    Fixture *f = *state;
    const uint64_t dims[] = {8};
    gguf_writer_info(&f->w, "c", TYPE_F32, 1, dims, 192);
    gguf_writer_info(&f->w, "a", TYPE_F32, 1, dims, 0);
    gguf_writer_info(&f->w, "b", TYPE_F32, 1, dims, 64);
    for (int i = 0; i < 224; i++) (void)th_buf_append(&f->w.data, &i, 1, NULL);
    must_open(f);
    assert_string_equal(f->g.tensors[0].name.data, "c");
    assert_int_equal(th_gguf_tensor(&f->g, "c")->offset - th_gguf_tensor(&f->g, "a")->offset, 192);
}

/* ---- bad files ---- */

/* Fault B01. */
static void impossible_shapes_are_refused(void **state) {
    Fixture *f = *state;
    const uint64_t k16 = 65536;
    const uint64_t bad[][4] = {{((uint64_t)1 << 42) + 1, 1, 1, 1},
                               {(uint64_t)1 << 63, 1, 1, 1},
                               {UINT64_MAX, 1, 1, 1},
                               {0, 1, 1, 1},
                               {4, 0, 1, 1},
                               {k16, k16, k16, k16},
                               {SIZE_MAX / 4, 1, 1, 1},
                               {4, (uint64_t)1 << 62, 4, 1},
                               {1, 1, 1, UINT64_MAX}};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        restart(f);
        gguf_writer_info(&f->w, "lies.weight", TYPE_F32, 4, bad[i], 0);
        (void)th_buf_append(&f->w.data, "0123456789abcdef", 16, NULL);
        must_refuse(f, "tensor lies.weight: ");
    }
    restart(f);
    gguf_writer_info(&f->w, "odd", TYPE_Q4_K, 1, (uint64_t[]){255}, 0);
    must_refuse(f, "block of 256");
    restart(f);
    gguf_writer_info(&f->w, "five", TYPE_F32, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0);
    must_refuse(f, "5 dimensions");
    restart(f);
    gguf_writer_info(&f->w, "none", TYPE_F32, 0, NULL, 0);
    must_refuse(f, "0 dimensions");
}

static void put_u64(char *bytes, size_t at, uint64_t v) {
    for (int i = 0; i < 8; i++) bytes[at + (size_t)i] = (char)(v >> (8 * i));
}

/* Fault B02. */
static void lying_counts_take_no_memory(void **state) {
    Fixture *f = *state;
    const uint64_t lies[] = {2, 100, (uint64_t)1 << 32, (uint64_t)1 << 60, (uint64_t)1 << 63, UINT64_MAX};
    gguf_writer_strs(&f->w, "names", (const char *const[]){"a", "b"}, 2);
    char *good;
    size_t len;
    gguf_writer_finish(&f->w, &good, &len);
    assert_true(open_bytes(f, good, len));
    const size_t places[] = {8, 16, HEADER, HEADER + 8 + 5 + 4 + 4, HEADER + 8 + 5 + 4 + 4 + 8};
    for (size_t p = 0; p < TH_COUNT(places); p++)
        for (size_t i = 0; i < TH_COUNT(lies); i++) {
            char *bytes = malloc(len);
            memcpy(bytes, good, len);
            put_u64(bytes, places[p], lies[i]);
            f->budget.peak = 0;
            bool same = memcmp(bytes, good, len) == 0;
            assert_int_equal(open_bytes(f, bytes, len), same);
            if (!same) assert_int_equal(f->err.code, THIMBLE_E_FORMAT);
            assert_true(f->budget.peak < 128 * TH_KIB);
            free(bytes);
        }
    free(good);
}

/* Fault B03: cut anywhere, a file is refused; whole, or only without its last padding, it is not. */
static void cut_files_are_refused(void **state) {
    Fixture *f = *state;
    char *bytes;
    size_t len;
    gguf_writer_str(&f->w, "general.architecture", "llama");
    add_tensor(f, "first.weight", TYPE_Q8_0, 32, 2);
    add_tensor(f, "last.weight", TYPE_F32, 3, 3);
    gguf_writer_finish(&f->w, &bytes, &len);
    const size_t needed = len - 28; /* 36 bytes of data, padded to 64 */
    for (size_t n = 0; n < len; n++) {
        assert_int_equal(open_bytes(f, bytes, n), n >= needed);
        if (n < needed) assert_int_equal(f->err.code, THIMBLE_E_FORMAT);
    }
    assert_false(open_bytes(f, bytes, needed - 1));
    assert_non_null(strstr(f->err.message, "last.weight"));
    assert_non_null(strstr(f->err.message, "1 bytes short"));
    assert_non_null(strstr(f->err.message, "download it again"));
    free(bytes);
}

static void places_are_checked(void **state) {
    Fixture *f = *state;
    const uint64_t dims[] = {16};
    const struct {
        uint64_t a, b;
        const char *word;
    } bad[] = {{0, 32, "overlap"},
               {32, 0, "overlap"},
               {0, 0, "overlap"},
               {0, 65, "alignment"},
               {0, 128, "short"},
               {0, UINT64_MAX - 31, "beyond"},
               {UINT64_MAX - 63, 0, "beyond"}};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        restart(f);
        gguf_writer_info(&f->w, "a", TYPE_F32, 1, dims, bad[i].a);
        gguf_writer_info(&f->w, "b", TYPE_F32, 1, dims, bad[i].b);
        for (int k = 0; k < 128; k++) (void)th_buf_append(&f->w.data, "", 1, NULL);
        must_refuse(f, bad[i].word);
    }
    restart(f);
    add_tensor(f, "twice", TYPE_F32, 4, 4);
    add_tensor(f, "twice", TYPE_F32, 4, 4);
    must_refuse(f, "tensor twice: ");
}

/* Fault B04: what cannot be skipped exactly is refused by name. */
static void unknown_values_are_refused(void **state) {
    Fixture *f = *state;
    const unsigned char nested[] = {9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    unsigned char strange[24] = {200};
    gguf_writer_raw(&f->w, "odd.key", GGUF_ARRAY, strange, sizeof strange);
    must_refuse(f, "key odd.key: unknown element type 200");
    restart(f);
    gguf_writer_raw(&f->w, "odd.key", 13, strange, sizeof strange);
    must_refuse(f, "key odd.key: unknown value type 13");
    restart(f);
    gguf_writer_raw(&f->w, "nest", GGUF_ARRAY, nested, sizeof nested);
    must_refuse(f, "key nest: ");
    restart(f);
    gguf_writer_u8(&f->w, "k", 1);
    gguf_writer_u8(&f->w, "k", 1);
    must_refuse(f, "key k: ");
    restart(f);
    gguf_writer_u8(&f->w, "", 1);
    must_refuse(f, "empty");
    restart(f);
    gguf_writer_raw(&f->w, "esc\x1b[31m", 13, "", 0);
    must_refuse(f, "esc\\x1B[31m"); /* never raw to a terminal */
}

static void strange_types_are_named(void **state) {
    Fixture *f = *state;
    const struct {
        uint32_t id;
        const char *word;
    } bad[] = {{4, "Q4_2"}, {33, "Q4_0_8_8"}, {43, "43"}, {139, "IQ4_K"}, {UINT32_MAX, "4294967295"}};
    for (size_t i = 0; i < TH_COUNT(bad); i++) {
        restart(f);
        gguf_writer_info(&f->w, "w", bad[i].id, 1, (uint64_t[]){256}, 0);
        must_refuse(f, bad[i].word);
        assert_int_equal(f->err.code, THIMBLE_E_UNSUPPORTED);
    }
}

static void versions_are_checked(void **state) {
    Fixture *f = *state;
    f->w.version = 2;
    must_open(f);
    f->w.version = 1;
    must_refuse(f, "version 1");
    f->w.version = 4;
    must_refuse(f, "version 4");
    f->w.version = 0x03000000;
    must_refuse(f, "big-endian");
}

/* ---- ids that mean two things ---- */

/* Tensors of an id laid out as `block` bytes per `group` weights. */
static void lay_out(Fixture *f, uint32_t id, uint64_t group, uint64_t block, bool pad_end) {
    uint64_t at = 0;
    restart(f);
    for (int i = 0; i < 3; i++) {
        const char *name = (const char *[]){"a", "b", "c"}[i];
        uint64_t cols = 1024, rows = 3, bytes = cols / group * block * rows;
        gguf_writer_info(&f->w, name, id, 2, (uint64_t[]){cols, rows}, at);
        at = th_align_up(at + bytes, 32);
        uint64_t end = i < 2 || pad_end ? at : at - (th_align_up(bytes, 32) - bytes);
        while (f->w.data.len < end) (void)th_buf_append(&f->w.data, "x", 1, NULL);
    }
    f->w.pad_end = pad_end;
}

static void q2_0_is_told_by_its_size(void **state) {
    Fixture *f = *state;
    for (int pad = 0; pad < 2; pad++) {
        lay_out(f, TYPE_Q2_0, 64, 18, pad);
        must_open(f);
        assert_false(f->g.legacy_q2_0);
        assert_int_equal(th_gguf_tensor(&f->g, "b")->type->id, TYPE_Q2_0);
        lay_out(f, TYPE_Q2_0, 128, 34, pad);
        must_open(f);
        assert_true(f->g.legacy_q2_0);
        assert_int_equal(th_gguf_tensor(&f->g, "b")->type->id, TYPE_PQ2_0);
        assert_int_equal(th_gguf_tensor(&f->g, "b")->row_bytes, 8 * 34);
        assert_int_equal(th_gguf_tensor(&f->g, "b")->bytes, 3 * 8 * 34);
    }
    lay_out(f, TYPE_Q2_0, 128, 33, true); /* neither the one nor the other */
    must_refuse(f, "tensor ");
}

static void contested_ids_need_exact_sizes(void **state) {
    Fixture *f = *state;
    lay_out(f, TYPE_PQ2_0, 128, 34, true);
    must_open(f);
    lay_out(f, TYPE_PTQ1_0, 128, 28, false);
    must_open(f);
    assert_int_equal(th_gguf_tensor(&f->g, "c")->bytes, 3 * 8 * 28);
    lay_out(f, TYPE_PTQ1_0, 128, 40, true); /* another project's 143 */
    must_refuse(f, "type 143");
    assert_int_equal(f->err.code, THIMBLE_E_UNSUPPORTED);
    lay_out(f, TYPE_PQ2_0, 128, 66, true);
    must_refuse(f, "type 142");
}

/* ---- memory ---- */

static void every_failed_allocation_is_reported(void **state) {
    Fixture *f = *state;
    gguf_writer_str(&f->w, "general.architecture", "llama");
    add_tensor(f, "a", TYPE_F32, 4, 4);
    add_tensor(f, "b", TYPE_F32, 4, 4);
    bool opened = false;
    for (uint64_t limit = 0; !opened; limit += 500) {
        th_budget_limit(&f->budget, limit);
        opened = open_written(f);
        if (!opened) {
            assert_int_equal(f->err.code, THIMBLE_E_BUDGET);
            assert_int_equal(f->budget.used, 0);
        }
        assert_true(limit < TH_MIB);
    }
    th_budget_limit(&f->budget, 64 * TH_MIB);
    Gguf zeroed = {0};
    th_gguf_close(&zeroed);
    assert_false(th_gguf_open_single(&zeroed, "no such file", &f->budget, &f->err));
    assert_int_equal(f->err.code, THIMBLE_E_IO);
    th_gguf_close(&zeroed);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_type_comes_back),
        TEST(getters_convert_and_check),
        TEST(layers_take_scalars_and_arrays),
        TEST(long_values_stay_in_the_file),
        TEST(alignments_are_honoured),
        TEST(large_headers_are_cheap),
        TEST(order_and_gaps_are_free),
        TEST(impossible_shapes_are_refused),
        TEST(lying_counts_take_no_memory),
        TEST(cut_files_are_refused),
        TEST(places_are_checked),
        TEST(unknown_values_are_refused),
        TEST(strange_types_are_named),
        TEST(versions_are_checked),
        TEST(q2_0_is_told_by_its_size),
        TEST(contested_ids_need_exact_sizes),
        TEST(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
