/* test_outfile.c: a file is there whole or not at all, and what crashed writers leave is told from work under way. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/scratch.h"
#include "os/outfile.h"

static Scratch dir;

static int count_files(void) {
    DIR *d = opendir(dir.dir);
    int n = -2;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void check_content(const char *name, const char *want) {
    char got[64] = "";
    FILE *f = fopen(th_scratch_path(&dir, name), "rb");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    assert_string_equal(got, want);
}

static void whole_or_not_at_all(void **state) {
    (void)state;
    Err err = {0};
    OutFile o;
    char path[512];
    snprintf(path, sizeof path, "%s", th_scratch_text(&dir, "target", "old"));
    for (int durable = 0; durable < 2; durable++) {
        assert_true(th_outfile_open(&o, path, 6, &err));
        assert_true(th_outfile_write(&o, "new", 3, &err));
        assert_true(th_outfile_write(&o, NULL, 0, &err));
        check_content("target", durable ? "newnew" : "old"); /* until it is committed */
        assert_true(th_outfile_write(&o, "new", 3, &err));
        assert_true(th_outfile_commit(&o, durable, &err));
        check_content("target", "newnew");
        assert_int_equal(count_files(), 1);
    }
    assert_true(th_outfile_open(&o, path, 1, &err));
    assert_true(th_outfile_write(&o, "x", 1, &err));
    th_outfile_abort(&o);
    th_outfile_abort(&o);
    check_content("target", "newnew");
    assert_int_equal(count_files(), 1);
    unlink(path);
}

static void refused_at_once(void **state) {
    (void)state;
    Err err = {0};
    OutFile o;
    assert_false(th_outfile_open(&o, th_scratch_path(&dir, "huge"), UINT64_MAX / 2, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_non_null(strstr(err.message, "9223372036854775807 bytes are needed"));
    assert_false(th_outfile_open(&o, th_scratch_path(&dir, "absent/file"), 1, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_false(th_outfile_open(&o, "", 1, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    assert_false(th_outfile_open(&o, "/tmp/", 1, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    char path[1200];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = 0;
    assert_false(th_outfile_open(&o, path, 1, &err));
    assert_int_equal(err.code, THIMBLE_E_ARG);
    th_outfile_abort(&o);
    /* A target that cannot be replaced: nothing is left of the attempt. */
    assert_int_equal(mkdir(th_scratch_path(&dir, "folder"), 0700), 0);
    assert_true(th_outfile_open(&o, th_scratch_path(&dir, "folder"), 1, &err));
    assert_false(th_outfile_commit(&o, false, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_int_equal(count_files(), 1);
    assert_int_equal(rmdir(th_scratch_path(&dir, "folder")), 0);
}

static void leftovers_are_swept(void **state) {
    (void)state;
    Err err = {0};
    OutFile o;
    th_scratch_text(&dir, ".thimble-part-1-0", "of a crash");
    th_scratch_text(&dir, ".thimble-other", "not ours");
    assert_int_equal(symlink("target", th_scratch_path(&dir, ".thimble-part-link")), 0);
    assert_true(th_outfile_open(&o, th_scratch_path(&dir, "target"), 1, &err));
    assert_int_equal(count_files(), 4);
    assert_int_equal(th_outfile_sweep(dir.dir), 1); /* the one under way stays, and so does what is no file */
    assert_int_equal(count_files(), 3);
    assert_true(th_outfile_write(&o, "x", 1, &err));
    assert_true(th_outfile_commit(&o, false, &err));
    check_content("target", "x");
    assert_int_equal(th_outfile_sweep(dir.dir), 0);
    assert_int_equal(th_outfile_sweep(th_scratch_path(&dir, "absent")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_or_not_at_all),
        cmocka_unit_test(refused_at_once),
        cmocka_unit_test(leftovers_are_swept),
    };
    th_scratch_open(&dir);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    th_scratch_close(&dir);
    return failed;
}
