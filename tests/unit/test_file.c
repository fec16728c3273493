/* test_file.c: whole reads or a sentence; direct reads and what replaces them (faults B51, B52, B53). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/faulty.h"
#include "common/scratch.h"
#include "os/file.h"

enum { FILE_BYTES = 300001 }; /* ends in the middle of a block */

static Scratch scratch;

static void open_pattern(File *f, size_t bytes) {
    Err err = {0};
    assert_true(th_file_open(f, th_scratch_pattern(&scratch, "pattern", bytes), &err));
    assert_int_equal(f->size, bytes);
}

static bool is_pattern(const unsigned char *p, size_t bytes, uint64_t offset) {
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != th_scratch_byte(offset + i)) return false;
    return true;
}

static void *aligned_space(const File *f, uint64_t offset, size_t bytes) {
    void *p = NULL;
    assert_int_equal(posix_memalign(&p, f->align, th_file_span(f, offset, bytes)), 0);
    return p;
}

static const struct {
    size_t bytes;
    uint64_t offset;
} ranges[] = {{1, 0},          {1, 4095},           {2, 4095},
              {4096, 0},       {4096, 1},           {4097, 4096},
              {100000, 12345}, {1, FILE_BYTES - 1}, {5000, FILE_BYTES - 5000},
              {FILE_BYTES, 0}};

static void check_spans(const File *f) {
    Err err = {0};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        size_t skip = 77777, bytes = ranges[i].bytes;
        unsigned char *space = aligned_space(f, ranges[i].offset, bytes);
        if (!th_file_read_span(f, space, bytes, ranges[i].offset, &skip, &err)) fail_msg("%s", err.message);
        assert_true(skip + bytes <= th_file_span(f, ranges[i].offset, bytes));
        assert_int_equal(skip, ranges[i].offset % f->align);
        assert_true(is_pattern(space + skip, bytes, ranges[i].offset));
        free(space);
    }
}

static void reads_are_whole(void **state) {
    File f;
    Err err = {0};
    unsigned char *buffer = malloc(FILE_BYTES);
    open_pattern(&f, FILE_BYTES);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_true(th_file_read(&f, buffer, ranges[i].bytes, ranges[i].offset, &err));
        assert_true(is_pattern(buffer, ranges[i].bytes, ranges[i].offset));
    }
    assert_true(th_file_read(&f, buffer, 0, FILE_BYTES, &err));
    check_spans(&f);
    th_file_close(&f);
    th_file_close(&f);
    free(buffer);
}

static void direct_equals_buffered(void **state) {
    File f;
    open_pattern(&f, FILE_BYTES);
    if (!th_file_probe_direct(&f)) print_message("# no direct reads on this file system: buffered path only\n");
    check_spans(&f);
    assert_int_equal(f.fd_direct >= 0, th_file_probe_direct(&f)); /* asking again changes nothing */
    th_file_close(&f);
}

static void faults_that_pass_are_not_seen(void **state) {
    const Fault mild[] = {FAULT_SHORT_BY_ONE, FAULT_EINTR, FAULT_EIO_ONCE};
    for (int direct = 0; direct < 2; direct++) {
        for (size_t i = 0; i < sizeof mild / sizeof *mild; i++) {
            File f;
            Faulty faulty = {.fault = mild[i]};
            open_pattern(&f, FILE_BYTES);
            if (direct) (void)th_file_probe_direct(&f);
            f.hook = th_faulty_hook(&faulty);
            check_spans(&f);
            assert_true(faulty.calls > (int)(sizeof ranges / sizeof *ranges));
            th_file_close(&f);
        }
    }
}

static void one_byte_at_a_time(void **state) {
    File f;
    Err err = {0};
    Faulty faulty = {.fault = FAULT_ONE_BYTE};
    unsigned char buffer[300];
    open_pattern(&f, FILE_BYTES);
    f.hook = th_faulty_hook(&faulty);
    assert_true(th_file_read(&f, buffer, sizeof buffer, 999, &err));
    assert_true(is_pattern(buffer, sizeof buffer, 999));
    assert_int_equal(faulty.calls, sizeof buffer);
    th_file_close(&f);
}

static void expect_sentence(File *f, Fault fault, const char *reason) {
    Err err = {0};
    Faulty faulty = {.fault = fault};
    char want[700];
    size_t skip;
    unsigned char *space = aligned_space(f, 5000, 1000);
    f->hook = th_faulty_hook(&faulty);
    snprintf(want, sizeof want, "%s: reading 1000 bytes at offset 5000 got 0: %s", f->path, reason);
    assert_false(th_file_read(f, space, 1000, 5000, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_string_equal(err.message, want);
    assert_true(faulty.calls < 10);
    err = (Err){0};
    assert_false(th_file_read_span(f, space, 1000, 5000, &skip, &err));
    assert_string_equal(err.message, want);
    assert_true(faulty.calls < 20);
    free(space);
}

static void faults_that_stay_are_a_sentence(void **state) {
    for (int direct = 0; direct < 2; direct++) {
        File f;
        open_pattern(&f, FILE_BYTES);
        if (direct) (void)th_file_probe_direct(&f);
        expect_sentence(&f, FAULT_EIO_ALWAYS, "Input/output error");
        expect_sentence(&f, FAULT_ZERO, "the file ends at 300001");
        th_file_close(&f);
    }
}

static void partial_reads_say_how_far(void **state) {
    File f;
    Err err = {0};
    Faulty faulty = {.fault = FAULT_EIO_ALWAYS, .from = 8192, .to = 8193};
    char buffer[20000], want[700];
    open_pattern(&f, FILE_BYTES);
    assert_false(th_file_read(&f, buffer, sizeof buffer, FILE_BYTES - 10, &err));
    snprintf(want, sizeof want, "%s: reading 20000 bytes at offset %d got 10: the file ends at %d", f.path,
             FILE_BYTES - 10, FILE_BYTES);
    assert_string_equal(err.message, want);
    f.hook = th_faulty_hook(&faulty);
    assert_true(th_file_read(&f, buffer, 4096, 4096, &err));
    assert_false(th_file_read(&f, buffer, 8192, 4096, &err));
    th_file_close(&f);
}

static void numbers_do_not_wrap(void **state) {
    File f;
    Err err = {0};
    char buffer[8192];
    size_t skip;
    open_pattern(&f, FILE_BYTES);
    const struct {
        size_t bytes;
        uint64_t offset;
    } bad[] = {{1, UINT64_MAX},        {1, INT64_MAX},     {SIZE_MAX, 1},
               {SIZE_MAX, UINT64_MAX}, {8, INT64_MAX - 4}, {1, FILE_BYTES}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.code = 0;
        assert_false(th_file_read(&f, buffer, bad[i].bytes, bad[i].offset, &err));
        assert_int_equal(err.code, THIMBLE_E_IO);
        assert_false(th_file_read_span(&f, buffer, bad[i].bytes, bad[i].offset, &skip, &err));
    }
    assert_true(th_file_span(&f, 0, SIZE_MAX) == SIZE_MAX);
    th_file_drop_cache(&f, UINT64_MAX, UINT64_MAX);
    th_file_close(&f);
}

static void probe_believes_reads_only(void **state) {
    File f;
    open_pattern(&f, FILE_BYTES);
    /* The file system takes O_DIRECT at open and refuses the read. */
    Faulty faulty = {.fault = FAULT_EINVAL_DIRECT, .buffered_fd = f.fd};
    f.hook = th_faulty_hook(&faulty);
    assert_false(th_file_probe_direct(&f));
    assert_int_equal(f.fd_direct, -1);
    check_spans(&f);
    th_file_close(&f);
}

static void refusal_midway_goes_on_buffered(void **state) {
    File f;
    open_pattern(&f, FILE_BYTES);
    if (!th_file_probe_direct(&f)) skip();
    Faulty faulty = {.fault = FAULT_EINVAL_DIRECT, .buffered_fd = f.fd};
    f.hook = th_faulty_hook(&faulty);
    check_spans(&f);
    th_file_close(&f);
}

/* How many pages of the file the page cache holds; -1 if it does not tell. */
static long cached_pages(const File *f) {
    static unsigned char in_core[16384];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (f->size + page - 1) / page;
    void *p = mmap(NULL, f->size, PROT_READ, MAP_SHARED, f->fd, 0);
    long n = -1;
    if (p == MAP_FAILED || pages > sizeof in_core) return -1;
    if (mincore(p, f->size, in_core) == 0) {
        n = 0;
        for (size_t i = 0; i < pages; i++) n += in_core[i] & 1;
    }
    munmap(p, f->size);
    return n;
}

/* Buffered spans leave nothing in the page cache, neither their edges nor what the kernel would read ahead: a model of
 * many times the memory must not push everything else out. */
static void spans_leave_no_cache(void **state) {
    enum { LARGE = 8 << 20 };
    File f;
    Err err = {0};
    size_t skip_bytes;
    open_pattern(&f, LARGE);
    int fd = open(f.path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fsync(fd), 0); /* dirty pages stay whatever one asks */
    close(fd);
    th_file_drop_cache(&f, 0, f.size);
    if (cached_pages(&f) != 0) skip(); /* a file system that lives in memory */
    Faulty faulty = {.fault = FAULT_EINVAL_DIRECT, .buffered_fd = f.fd};
    f.hook = th_faulty_hook(&faulty);
    assert_false(th_file_probe_direct(&f));
    th_file_drop_cache(&f, 0, f.size);
    unsigned char *space = aligned_space(&f, 0, 100000);
    for (uint64_t offset = 1234; offset + 100000 < LARGE; offset += 777777) {
        assert_true(th_file_read_span(&f, space, 100000, offset, &skip_bytes, &err));
        assert_true(is_pattern(space + skip_bytes, 100000, offset));
        assert_int_equal(cached_pages(&f), 0);
    }
    assert_true(th_file_read(&f, space, 100000, 0, &err)); /* a plain read does stay: the measure works */
    assert_true(cached_pages(&f) > 0);
    free(space);
    th_file_close(&f);
}

/* Whatever the file system makes of O_DIRECT, the bytes are the same. */
static void other_file_systems(void **state) {
    const char *places[] = {"/dev/shm", ".", "/var/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[300];
        unsigned char *data = malloc(FILE_BYTES);
        for (size_t at = 0; at < FILE_BYTES; at++) data[at] = th_scratch_byte(at);
        snprintf(path, sizeof path, "%s/thimble-test-XXXXXX", places[i]);
        int fd = mkstemp(path);
        if (fd >= 0) {
            File f;
            Err err = {0};
            assert_int_equal(write(fd, data, FILE_BYTES), FILE_BYTES);
            assert_true(th_file_open(&f, path, &err));
            unlink(path);
            bool direct = th_file_probe_direct(&f);
            print_message("# %s: %s reads, aligned to %zu\n", places[i], direct ? "direct" : "buffered", f.align);
            check_spans(&f);
            th_file_close(&f);
            close(fd);
        }
        free(data);
    }
}

static void small_and_empty_files(void **state) {
    const size_t sizes[] = {0, 1, 4095, 4096, 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        File f;
        Err err = {0};
        size_t skip;
        open_pattern(&f, sizes[i]);
        bool direct = th_file_probe_direct(&f);
        assert_false(direct && sizes[i] == 0);
        unsigned char *space = aligned_space(&f, 0, sizes[i] + 1);
        assert_true(th_file_read_span(&f, space, sizes[i], 0, &skip, &err));
        assert_true(is_pattern(space + skip, sizes[i], 0));
        assert_false(th_file_read_span(&f, space, sizes[i] + 1, 0, &skip, &err));
        free(space);
        th_file_close(&f);
    }
}

static void only_regular_files_open(void **state) {
    File f;
    Err err = {0};
    assert_false(th_file_open(&f, scratch.dir, &err));
    assert_non_null(strstr(err.message, "is a folder"));
    assert_false(th_file_open(&f, th_scratch_path(&scratch, "absent"), &err));
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(mkfifo(th_scratch_path(&scratch, "fifo"), 0600), 0);
    assert_false(th_file_open(&f, scratch.path, &err)); /* and does not wait for a writer */
    assert_non_null(strstr(err.message, "not a regular file"));
    assert_false(th_file_open(&f, "/dev/zero", &err));
}

static void closing_a_zeroed_file_keeps_descriptor_0(void **state) {
    int spare = open("/dev/null", O_RDONLY);
    int saved = dup(0);
    assert_int_equal(dup2(spare, 0), 0);
    File zeroed = {0};
    th_file_close(&zeroed);
    assert_int_not_equal(fcntl(0, F_GETFD), -1);
    if (saved >= 0) dup2(saved, 0), close(saved);
    close(spare);
}

static void changes_are_noticed(void **state) {
    File f;
    Err err = {0};
    char buffer[16];
    open_pattern(&f, FILE_BYTES);
    assert_true(th_file_check(&f, &err));
    char path[512];
    snprintf(path, sizeof path, "%s", f.path);

    /* Another file moved to its place: ours is still there. */
    th_scratch_text(&scratch, "other", "another");
    assert_int_equal(rename(scratch.path, path), 0);
    assert_true(th_file_check(&f, &err));
    assert_true(th_file_read(&f, buffer, sizeof buffer, 100, &err));
    assert_true(is_pattern((unsigned char *)buffer, sizeof buffer, 100));
    th_file_close(&f);

    open_pattern(&f, FILE_BYTES);
    assert_int_equal(truncate(path, 1000), 0);
    assert_false(th_file_check(&f, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    assert_non_null(strstr(err.message, "it had 300001 bytes and has 1000 now"));
    assert_false(th_file_read(&f, buffer, sizeof buffer, 995, &err));
    assert_non_null(strstr(err.message, "got 5: the file changed while in use"));
    th_file_close(&f);

    open_pattern(&f, FILE_BYTES);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000, .tv_nsec = 5}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_false(th_file_check(&f, &err));
    assert_non_null(strstr(err.message, "written to while in use"));
    th_file_close(&f);
}

static int setup(void **state) {
    th_scratch_open(&scratch);
    return 0;
}
static int teardown(void **state) {
    th_scratch_close(&scratch);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_are_whole),
        cmocka_unit_test(direct_equals_buffered),
        cmocka_unit_test(faults_that_pass_are_not_seen),
        cmocka_unit_test(one_byte_at_a_time),
        cmocka_unit_test(faults_that_stay_are_a_sentence),
        cmocka_unit_test(partial_reads_say_how_far),
        cmocka_unit_test(numbers_do_not_wrap),
        cmocka_unit_test(probe_believes_reads_only),
        cmocka_unit_test(refusal_midway_goes_on_buffered),
        cmocka_unit_test(spans_leave_no_cache),
        cmocka_unit_test(other_file_systems),
        cmocka_unit_test(small_and_empty_files),
        cmocka_unit_test(only_regular_files_open),
        cmocka_unit_test(closing_a_zeroed_file_keeps_descriptor_0),
        cmocka_unit_test(changes_are_noticed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
