/* vm.c: pages from the system, entered in the ledger before they are taken.
 *
 * Huge regions begin and end at multiples of 2 MiB: only then can the kernel back them with huge pages, which flash
 * reads and matrix products both want (a direct read costs per memory segment, not per byte). They are larger than any
 * page size in use (4, 16 and 64 KiB), so everything stays a multiple of the page. */
#include "os/vm.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_BYTES = 2 * 1024 * 1024 };

size_t th_vm_page(void) {
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

size_t th_vm_rounded(size_t bytes, bool huge) {
    return (size_t)th_align_up(bytes ? bytes : 1, huge ? HUGE_BYTES : th_vm_page());
}

static void *map_anonymous(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Kernels since 6.7 align large regions by themselves: ask for the plain size first, cut a larger one otherwise. */
static void *map_huge(size_t bytes) {
    char *p = map_anonymous(bytes);
    if (p && (uintptr_t)p % HUGE_BYTES != 0) {
        munmap(p, bytes);
        if (bytes > SIZE_MAX - HUGE_BYTES) return NULL;
        p = map_anonymous(bytes + HUGE_BYTES);
        if (p) {
            size_t head = (HUGE_BYTES - (uintptr_t)p % HUGE_BYTES) % HUGE_BYTES;
            if (head) munmap(p, head);
            munmap(p + head + bytes, HUGE_BYTES - head);
            p += head;
        }
    }
#ifdef MADV_HUGEPAGE
    /* Advice: where the system has no huge pages, small ones do. */
    if (p) (void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void *th_vm_alloc(Budget *b, MemClass mem_class, size_t bytes, bool huge, Err *err) {
    if (bytes > PTRDIFF_MAX - HUGE_BYTES) {
        th_fail(err, THIMBLE_E_NOMEM, "%zu bytes for %s are more than an address space", bytes,
                th_mem_class_name(mem_class));
        return NULL;
    }
    size_t rounded = th_vm_rounded(bytes, huge);
    if (b && !th_budget_take(b, mem_class, rounded, err)) return NULL;
    void *p = huge ? map_huge(rounded) : map_anonymous(rounded);
    if (!p) {
        int number = errno;
        if (b) th_budget_give(b, mem_class, rounded);
        th_fail_errno(err, THIMBLE_E_NOMEM, number, "the system refused %zu bytes for %s", rounded,
                      th_mem_class_name(mem_class));
    }
    return p;
}

void th_vm_free(Budget *b, MemClass mem_class, void *p, size_t bytes, bool huge) {
    if (!p) return;
    size_t rounded = th_vm_rounded(bytes, huge);
    munmap(p, rounded);
    if (b) th_budget_give(b, mem_class, rounded);
}

void th_vm_release(void *p, size_t bytes) {
    size_t page = th_vm_page();
    uintptr_t begin = (uintptr_t)th_align_up((uintptr_t)p, page),
              end = (uintptr_t)th_align_down((uintptr_t)p + bytes, page);
    if (begin >= end) return;
    char *first = (char *)p + (begin - (uintptr_t)p);
#ifdef __linux__
    if (madvise(first, end - begin, MADV_DONTNEED) == 0) return;
#endif
    /* Elsewhere DONTNEED may keep the bytes: map fresh pages over them. */
    (void)mmap(first, end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

const void *th_vm_map_file(int fd, uint64_t bytes, Err *err) {
    if (bytes == 0 || bytes > PTRDIFF_MAX) {
        th_fail(err, THIMBLE_E_IO, "cannot map a file of %llu bytes", (unsigned long long)bytes);
        return NULL;
    }
    void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) return p;
    th_fail_errno(err, THIMBLE_E_IO, errno, "cannot map a file of %llu bytes", (unsigned long long)bytes);
    return NULL;
}

void th_vm_unmap_file(const void *p, uint64_t bytes) {
    if (p) munmap((void *)(uintptr_t)p, (size_t)bytes);
}
