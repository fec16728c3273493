/* test_vm.c: the ledger and the pages agree. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/limits.h"
#include "common/scratch.h"
#include "os/sys.h"
#include "os/vm.h"

static void regions_are_entered_and_zero(void **state) {
    const size_t sizes[] = {1, 4095, 4096, 4097, 70000, 3 * TH_MIB + 1};
    size_t page = th_vm_page();
    assert_int_equal(page, sysconf(_SC_PAGESIZE));
    for (int huge = 0; huge < 2; huge++) {
        for (size_t i = 0; i < TH_COUNT(sizes); i++) {
            Budget b;
            Err err = {0};
            th_budget_init(&b, 64 * TH_MIB);
            size_t rounded = th_vm_rounded(sizes[i], huge), unit = huge ? 2 * TH_MIB : page;
            assert_true(rounded >= sizes[i] && rounded - sizes[i] < unit && rounded % unit == 0);
            unsigned char *p = th_vm_alloc(&b, MEM_SLOTS, sizes[i], huge, &err);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % unit, 0);
            assert_int_equal(b.used, rounded);
            assert_int_equal(b.by_class[MEM_SLOTS], rounded);
            for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(p[at], 0);
            memset(p, 0xA5, rounded); /* all of it can be written to */
            th_vm_free(&b, MEM_SLOTS, p, sizes[i], huge);
            assert_int_equal(b.used, 0);
            th_budget_free(&b);
        }
    }
}

/* Neighbours keep their bytes when a region between them is cut to 2 MiB or freed. */
static void regions_do_not_overlap(void **state) {
    enum { N = 12 };
    Budget b;
    Err err = {0};
    unsigned char *p[N];
    th_budget_init(&b, 1024 * TH_MIB);
    for (int i = 0; i < N; i++) {
        p[i] = th_vm_alloc(&b, MEM_RING, (size_t)(i + 1) * 300000, i % 2, &err);
        assert_non_null(p[i]);
        memset(p[i], i + 1, th_vm_rounded((size_t)(i + 1) * 300000, i % 2));
    }
    for (int i = 0; i < N; i += 3) th_vm_free(&b, MEM_RING, p[i], (size_t)(i + 1) * 300000, i % 2);
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0) continue;
        size_t bytes = th_vm_rounded((size_t)(i + 1) * 300000, i % 2);
        for (size_t at = 0; at < bytes; at++)
            if (p[i][at] != i + 1) fail_msg("region %d byte %zu", i, at);
        th_vm_free(&b, MEM_RING, p[i], (size_t)(i + 1) * 300000, i % 2);
    }
    assert_int_equal(b.used, 0);
    th_budget_free(&b);
}

static void refusals(void **state) {
    Budget b;
    Err err = {0};
    th_budget_init(&b, TH_MIB);
    assert_null(th_vm_alloc(&b, MEM_KV, TH_MIB + 1, false, &err));
    assert_int_equal(err.code, THIMBLE_E_BUDGET);
    assert_null(th_vm_alloc(&b, MEM_KV, 1, true, &err)); /* a huge region is 2 MiB at least */
    assert_int_equal(err.code, THIMBLE_E_BUDGET);
    th_budget_limit(&b, UINT64_MAX);
    assert_null(th_vm_alloc(&b, MEM_KV, SIZE_MAX, false, &err));
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    assert_null(th_vm_alloc(&b, MEM_KV, PTRDIFF_MAX - 4 * TH_MIB, false, &err)); /* the system says no */
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    assert_null(th_vm_alloc(&b, MEM_KV, PTRDIFF_MAX - 4 * TH_MIB, true, &err));
    assert_int_equal(b.used, 0);
    th_vm_free(&b, MEM_KV, NULL, 4096, false);
    assert_int_equal(b.used, 0);
    th_budget_free(&b);
    void *p = th_vm_alloc(NULL, MEM_IO, 1, false, &err); /* nobody's ledger */
    assert_non_null(p);
    th_vm_free(NULL, MEM_IO, p, 1, false);
}

/* `ulimit -v` (B61): no address space beyond what is asked for is reserved. */
static void address_space_limit(void **state) {
    struct rlimit before;
    Err err = {0};
    if (!th_limit_address_space(512 * TH_MIB, &before)) skip();
    void *large = th_vm_alloc(NULL, MEM_SLOTS, 1024 * TH_MIB, true, &err);
    void *fits = th_vm_alloc(NULL, MEM_SLOTS, 300 * TH_MIB, true, NULL);
    (void)setrlimit(RLIMIT_AS, &before);
    assert_null(large);
    assert_int_equal(err.code, THIMBLE_E_NOMEM);
    assert_non_null(fits);
    th_vm_free(NULL, MEM_SLOTS, fits, 300 * TH_MIB, true);
}

static void released_pages_read_as_zero(void **state) {
    size_t page = th_vm_page(), bytes = 16 * page;
    Err err = {0};
    unsigned char *p = th_vm_alloc(NULL, MEM_RING, bytes, false, &err);
    assert_non_null(p);
    memset(p, 7, bytes);
    th_vm_release(p + 1, 4 * page); /* whole pages inside: 1, 2, 3 */
    th_vm_release(p + 8 * page, page - 1);
    th_vm_release(p + 9 * page + 5, 10);
    for (size_t i = 0; i < bytes; i++) {
        bool gone = i >= page && i < 4 * page;
        if (p[i] != (gone ? 0 : 7)) fail_msg("byte %zu is %d", i, p[i]);
    }
    th_vm_free(NULL, MEM_RING, p, bytes, false);
}

/* What is released leaves the resident set: the promise behind a stream ring that shrinks. */
static void released_pages_leave_memory(void **state) {
    SysMemory full = {0}, empty = {0};
    const size_t bytes = 32 * TH_MIB;
    unsigned char *p = th_vm_alloc(NULL, MEM_RING, bytes, true, NULL);
    assert_non_null(p);
    memset(p, 1, bytes);
    th_sys_memory(&full);
    th_vm_release(p, bytes);
    th_sys_memory(&empty);
    if (full.anon == 0) skip();
    assert_true(full.anon >= bytes);
    assert_true(empty.anon + 24 * TH_MIB < full.anon);
    assert_int_equal(p[bytes - 1], 0);
    th_vm_free(NULL, MEM_RING, p, bytes, true);
}

static void files_are_mapped(void **state) {
    Scratch scratch;
    Err err = {0};
    th_scratch_open(&scratch);
    int fd = open(th_scratch_pattern(&scratch, "pattern", 10001), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const unsigned char *p = th_vm_map_file(fd, 10001, &err);
    assert_non_null(p);
    for (size_t i = 0; i < 10001; i++) assert_int_equal(p[i], th_scratch_byte(i));
    th_vm_unmap_file(p, 10001);
    assert_null(th_vm_map_file(fd, 0, &err));
    assert_null(th_vm_map_file(fd, UINT64_MAX, &err));
    assert_null(th_vm_map_file(-1, 4096, &err));
    assert_int_equal(err.code, THIMBLE_E_IO);
    th_vm_unmap_file(NULL, 4096);
    close(fd);
    th_scratch_close(&scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_entered_and_zero),
        cmocka_unit_test(regions_do_not_overlap),
        cmocka_unit_test(refusals),
        cmocka_unit_test(address_space_limit),
        cmocka_unit_test(released_pages_read_as_zero),
        cmocka_unit_test(released_pages_leave_memory),
        cmocka_unit_test(files_are_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
