/* faulty.c: see faulty.h. */
#include "common/faulty.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

static ptrdiff_t fail_with(int number) {
    errno = number;
    return -1;
}

static void wait_us(int us) {
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL);
}

static ptrdiff_t faulty_pread(void *arg, int fd, void *buffer, size_t bytes, uint64_t offset) {
    Faulty *f = arg;
    atomic_fetch_add(&f->calls, 1);
    bool hit = f->to == 0 || (offset < f->to && offset + bytes > f->from);
    if (!hit) return pread(fd, buffer, bytes, (off_t)offset);
    int before = atomic_fetch_add(&f->hits, 1);
    size_t most = bytes;
    switch (f->fault) {
    case FAULT_SHORT_BY_ONE:
        most -= bytes > 1;
        break;
    case FAULT_ONE_BYTE:
        most = bytes > 1 ? 1 : bytes;
        break;
    case FAULT_ZERO:
        return 0;
    case FAULT_EINTR:
        if (before % 2 == 0) return fail_with(EINTR);
        break;
    case FAULT_EIO_ONCE:
        if (before == 0) return fail_with(EIO);
        break;
    case FAULT_EIO_ALWAYS:
        return fail_with(EIO);
    case FAULT_EINVAL_DIRECT:
        if (fd != f->buffered_fd) return fail_with(EINVAL);
        break;
    case FAULT_DELAY:
        wait_us(f->delay_us);
        break;
    case FAULT_NONE:
        break;
    }
    ptrdiff_t n = pread(fd, buffer, most, (off_t)offset);
    /* A direct descriptor refuses odd lengths: read all and tell of less, as a device that stops midway does. */
    if (n < 0 && errno == EINVAL && most < bytes) n = pread(fd, buffer, bytes, (off_t)offset);
    return n > (ptrdiff_t)most ? (ptrdiff_t)most : n;
}

FileHook th_faulty_hook(Faulty *f) { return (FileHook){.pread = faulty_pread, .arg = f}; }
