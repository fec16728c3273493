/* test_gguf_set.c: several files as one model, folders, and files that are something else (faults B07, B09, B11). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/gguf_writer.h"
#include "common/scratch.h"
#include "gguf/gguf.h"

typedef struct Fixture {
    Scratch scratch;
    Gguf g;
    Budget budget;
    Err err;
} Fixture;

static int set_up(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    th_scratch_open(&f->scratch);
    th_budget_init(&f->budget, 64 * TH_MIB);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    Fixture *f = *state;
    th_gguf_close(&f->g);
    int left = f->budget.used != 0;
    th_scratch_close(&f->scratch);
    th_budget_free(&f->budget);
    free(f);
    return left;
}

/* Shard `no` of `count`, holding tensors [first, end) of `total`; the first shard has the model's metadata. */
typedef struct Shard {
    int no, count, first, end, total;
    const char *model;
} Shard;

static void make_shard(GgufWriter *w, const Shard *s) {
    gguf_writer_init(w);
    if (s->no == 0) gguf_writer_str(w, "general.architecture", "llama");
    if (s->model) gguf_writer_str(w, "general.name", s->model);
    gguf_writer_split(w, (uint16_t)s->no, (uint16_t)s->count, s->total);
    for (int t = s->first; t < s->end; t++) {
        char name[32];
        snprintf(name, sizeof name, "blk.%d.weight", t);
        gguf_writer_tensor(w, name, TYPE_Q8_0, 2, (uint64_t[]){32, (uint64_t)t + 1}, NULL);
    }
}

static void write_shard(Fixture *f, const char *name, Shard s) {
    GgufWriter w;
    char *bytes;
    size_t len;
    make_shard(&w, &s);
    gguf_writer_finish(&w, &bytes, &len);
    th_scratch_write(&f->scratch, name, bytes, len);
    free(bytes);
    gguf_writer_free(&w);
}

/* Three shards, the first without tensors, as in real sets (fault B09). */
static void write_set(Fixture *f, const char *prefix) {
    char name[256];
    for (int no = 0; no < 3; no++) {
        snprintf(name, sizeof name, "%s-%05d-of-00003.gguf", prefix, no + 1);
        write_shard(f, name, (Shard){no, 3, no == 0 ? 0 : (no - 1) * 2, no * 2, 4, NULL});
    }
}

static bool open_name(Fixture *f, const char *name) {
    th_gguf_close(&f->g);
    f->err = (Err){0};
    return th_gguf_open(&f->g, th_scratch_path(&f->scratch, name), &f->budget, &f->err);
}

static void must_open(Fixture *f, const char *name, size_t shards, size_t tensors) {
    if (!open_name(f, name)) fail_msg("%s: %s", name, f->err.message);
    assert_int_equal(f->g.n_shards, shards);
    assert_int_equal(f->g.n_tensors, tensors);
}

static void must_refuse(Fixture *f, const char *name, const char *word) {
    assert_false(open_name(f, name));
    assert_int_not_equal(f->err.code, 0);
    if (!strstr(f->err.message, word)) fail_msg("expected \"%s\" in: %s", word, f->err.message);
    assert_int_equal(f->budget.used, 0);
}

static void any_shard_opens_the_set(void **state) {
    Fixture *f = *state;
    write_set(f, "m/model");
    const char *const names[] = {"m/model-00001-of-00003.gguf", "m/model-00002-of-00003.gguf",
                                 "m/model-00003-of-00003.gguf", "m", "m/"};
    for (size_t i = 0; i < TH_COUNT(names); i++) {
        Str arch = {0};
        must_open(f, names[i], 3, 4);
        assert_true(th_gguf_get_str(&f->g, "general.architecture", &arch, &f->err) && th_str_is(arch, "llama"));
        const GgufTensor *t = th_gguf_tensor(&f->g, "blk.3.weight");
        assert_int_equal(t->shard, 2);
        unsigned char byte;
        assert_true(th_file_read(&f->g.files[t->shard], &byte, 1, t->offset, &f->err));
        assert_int_equal(byte, (unsigned char)(2 * 37)); /* the writer's pattern: second tensor of its file */
    }
    th_gguf_close(&f->g);
    assert_true(
        th_gguf_open_single(&f->g, th_scratch_path(&f->scratch, "m/model-00002-of-00003.gguf"), &f->budget, &f->err));
    assert_int_equal(f->g.n_tensors, 2);
}

static void missing_and_foreign_shards_are_named(void **state) {
    Fixture *f = *state;
    write_set(f, "m/model");
    assert_int_equal(unlink(th_scratch_path(&f->scratch, "m/model-00003-of-00003.gguf")), 0);
    must_refuse(f, "m", "model-00003-of-00003.gguf");
    must_refuse(f, "m/model-00001-of-00003.gguf", "shard 3 of 3");
    write_set(f, "m/model");
    assert_int_equal(unlink(th_scratch_path(&f->scratch, "m/model-00001-of-00003.gguf")), 0);
    must_refuse(f, "m/model-00002-of-00003.gguf", "model-00001-of-00003.gguf");

    /* A shard of another model in the place of the second: same number and totals, tensors that others hold. */
    write_set(f, "m/model");
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){1, 3, 1, 3, 4, NULL});
    must_refuse(f, "m", "model-00002-of-00003.gguf");
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){1, 3, 0, 2, 9, NULL}); /* another total */
    must_refuse(f, "m", "model-00002-of-00003.gguf");
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){2, 3, 0, 2, 4, NULL}); /* another number */
    must_refuse(f, "m", "model-00002-of-00003.gguf");
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){1, 4, 0, 2, 4, NULL}); /* another count */
    must_refuse(f, "m/model-00001-of-00003.gguf", "model-00002-of-00003.gguf");
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){1, 3, 0, 1, 4, NULL}); /* a tensor less */
    must_refuse(f, "m", "split.tensors.count says 4");
    write_shard(f, "m/model-00001-of-00003.gguf", (Shard){0, 3, 0, 0, 4, "this"});
    write_shard(f, "m/model-00002-of-00003.gguf", (Shard){1, 3, 0, 2, 4, "that"}); /* says so itself */
    must_refuse(f, "m", "model-00002-of-00003.gguf");
}

static void names_have_to_fit(void **state) {
    Fixture *f = *state;
    write_shard(f, "renamed.gguf", (Shard){0, 2, 0, 2, 4, NULL});
    must_refuse(f, "renamed.gguf", "-00001-of-00002.gguf");
    write_shard(f, "x-00001-of-00002.gguf", (Shard){1, 2, 0, 2, 4, NULL});
    must_refuse(f, "x-00001-of-00002.gguf", "shard 2 of a set of 2");
    write_shard(f, "y-00006-of-00002.gguf", (Shard){5, 2, 0, 2, 4, NULL});
    must_refuse(f, "y-00006-of-00002.gguf", "split.no is 5");
}

static void similar_prefixes_never_mix(void **state) {
    Fixture *f = *state;
    write_set(f, "m/model");
    write_set(f, "m/model-2");
    write_shard(f, "m/model-00001-of-00002.gguf", (Shard){0, 2, 0, 1, 2, NULL});
    write_shard(f, "m/model-00002-of-00002.gguf", (Shard){1, 2, 1, 2, 2, NULL});
    must_refuse(f, "m", "more than one split model");
    must_open(f, "m/model-00002-of-00003.gguf", 3, 4);
    must_open(f, "m/model-00002-of-00002.gguf", 2, 2);
    must_open(f, "m/model-2-00003-of-00003.gguf", 3, 4);
    assert_non_null(strstr(f->g.files[1].path, "model-2-00002-of-00003.gguf"));
}

static void one_of_one_is_a_plain_file(void **state) {
    Fixture *f = *state;
    GgufWriter w;
    write_shard(f, "a/model-00001-of-00001.gguf", (Shard){0, 1, 0, 2, 2, NULL});
    must_open(f, "a/model-00001-of-00001.gguf", 1, 2);
    must_open(f, "a", 1, 2);
    write_shard(f, "zero.gguf", (Shard){0, 0, 0, 2, 0, NULL});
    must_open(f, "zero.gguf", 1, 2);
    gguf_writer_init(&w); /* old writers used other integer types */
    gguf_writer_u32(&w, "split.no", 0);
    gguf_writer_i64(&w, "split.count", 2);
    gguf_writer_u64(&w, "split.tensors.count", 1);
    gguf_writer_save(&w, th_scratch_path(&f->scratch, "old-00001-of-00002.gguf"));
    gguf_writer_free(&w);
    write_shard(f, "old-00002-of-00002.gguf", (Shard){1, 2, 0, 1, 1, NULL}); /* a shard with a single tensor */
    must_open(f, "old-00002-of-00002.gguf", 2, 1);
    gguf_writer_init(&w);
    gguf_writer_i32(&w, "split.count", -1);
    gguf_writer_save(&w, th_scratch_path(&f->scratch, "minus.gguf"));
    gguf_writer_free(&w);
    must_refuse(f, "minus.gguf", "split.count");
}

static void alignment_is_each_shards_own(void **state) {
    Fixture *f = *state;
    GgufWriter w;
    gguf_writer_init(&w);
    gguf_writer_align(&w, 4096);
    gguf_writer_split(&w, 0, 2, 3);
    gguf_writer_tensor(&w, "a", TYPE_F32, 1, (uint64_t[]){4}, NULL);
    gguf_writer_save(&w, th_scratch_path(&f->scratch, "m-00001-of-00002.gguf"));
    gguf_writer_free(&w);
    gguf_writer_init(&w); /* no key: 32 */
    gguf_writer_split(&w, 1, 2, 3);
    gguf_writer_tensor(&w, "b", TYPE_F32, 1, (uint64_t[]){4}, NULL);
    gguf_writer_tensor(&w, "c", TYPE_F32, 1, (uint64_t[]){4}, "0123456789abcdef");
    gguf_writer_save(&w, th_scratch_path(&f->scratch, "m-00002-of-00002.gguf"));
    gguf_writer_free(&w);
    must_open(f, "m-00001-of-00002.gguf", 2, 3);
    char got[16];
    const GgufTensor *c = th_gguf_tensor(&f->g, "c");
    assert_true(th_file_read(&f->g.files[c->shard], got, 16, c->offset, &f->err));
    assert_memory_equal(got, "0123456789abcdef", 16);
    assert_int_equal(th_gguf_tensor(&f->g, "a")->offset % 4096, 0);
}

static void folders_have_to_be_clear(void **state) {
    Fixture *f = *state;
    th_scratch_text(&f->scratch, "empty/readme.txt", "x");
    must_refuse(f, "empty", "without a GGUF file");
    write_shard(f, "one/only.gguf", (Shard){0, 1, 0, 2, 2, NULL});
    th_scratch_text(&f->scratch, "one/notes.gguf.txt", "x");
    must_open(f, "one", 1, 2);
    write_shard(f, "one/other.gguf", (Shard){0, 1, 0, 2, 2, NULL});
    must_refuse(f, "one", "2 GGUF files");
    write_set(f, "one/set"); /* the set is what a folder is given for */
    must_open(f, "one", 3, 4);
    must_refuse(f, "nowhere", "nowhere");
}

/* Fault B11. */
static void other_files_are_recognised(void **state) {
    Fixture *f = *state;
    const struct {
        const char *text, *word;
    } files[] = {
        {"", "0 bytes"},
        {"<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "web page"},
        {"\n  <HTML><body>404</body></HTML>", "web page"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"},
        {"{\"error\": \"Invalid credentials in Authorization header\"}", "JSON"},
        {"PK\3\4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "zip archive"},
        {"lmggaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "before GGUF"},
        {"\x1F\x8B\x08sss", "gunzip"},
        {"GGUF", "4 bytes"},
        {"abcdefghijklmnopqrstuvwxyz", "61 62 63 64"},
    };
    for (size_t i = 0; i < TH_COUNT(files); i++) {
        th_scratch_text(&f->scratch, "x.gguf", files[i].text);
        must_refuse(f, "x.gguf", files[i].word);
        assert_int_equal(f->err.code, THIMBLE_E_FORMAT);
    }
}

static void pieces_and_joined_files_are_explained(void **state) {
    Fixture *f = *state;
    for (int first_tensors = 0; first_tensors < 2; first_tensors++) { /* also a first shard without tensors */
        GgufWriter a, b;
        char *one, *two;
        size_t n, m;
        make_shard(&a, &(Shard){0, 2, 0, first_tensors, 2, NULL});
        make_shard(&b, &(Shard){1, 2, first_tensors, 2, 2, NULL});
        gguf_writer_finish(&a, &one, &n);
        gguf_writer_finish(&b, &two, &m);
        char *joined = malloc(n + m);
        memcpy(joined, one, n);
        memcpy(joined + n, two, m);
        th_scratch_write(&f->scratch, "joined.gguf", joined, n + m);
        must_refuse(f, "joined.gguf", "joined with cat");
        th_scratch_write(&f->scratch, "joined-00001-of-00002.gguf", joined, n + m);
        th_scratch_write(&f->scratch, "joined-00002-of-00002.gguf", two, m);
        must_refuse(f, "joined-00001-of-00002.gguf", "joined with cat");
        th_scratch_write(&f->scratch, "model.gguf.part1of2", two, m - 100);
        must_refuse(f, "model.gguf.part1of2", "join all pieces");
        th_scratch_write(&f->scratch, "model.gguf.part2of2", two + m - 100, 100);
        must_refuse(f, "model.gguf.part2of2", "join all pieces");
        th_scratch_write(&f->scratch, "model-part-b.gguf", two + m - 100, 100);
        must_refuse(f, "model-part-b.gguf", "join all pieces");
        free(one);
        free(two);
        free(joined);
        gguf_writer_free(&a);
        gguf_writer_free(&b);
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(any_shard_opens_the_set),
        TEST(missing_and_foreign_shards_are_named),
        TEST(names_have_to_fit),
        TEST(similar_prefixes_never_mix),
        TEST(one_of_one_is_a_plain_file),
        TEST(alignment_is_each_shards_own),
        TEST(folders_have_to_be_clear),
        TEST(other_files_are_recognised),
        TEST(pieces_and_joined_files_are_explained),
    };
    return cmocka_run_group_tests_name("gguf_set", tests, NULL, NULL);
}
