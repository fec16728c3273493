/* thread.c: see thread.h. */
#include "os/thread.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

static size_t stack_bytes(void) {
    size_t bytes = TH_THREAD_STACK;
#ifdef _SC_THREAD_STACK_MIN
    long least = sysconf(_SC_THREAD_STACK_MIN);
    /* The minimum holds the C library's own needs only; wide vector registers make it large on some machines. */
    if (least > 0 && (size_t)least > bytes / 2) bytes = (size_t)least + TH_THREAD_STACK / 2;
#endif
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)th_align_up(bytes, (uint64_t)page) : bytes;
}

bool th_thread_start(pthread_t *out, void *(*fn)(void *), void *arg, const char *role, Err *err) {
    pthread_attr_t attr;
    int failed = pthread_attr_init(&attr);
    if (failed) return th_fail_errno(err, THIMBLE_E_NOMEM, failed, "cannot start a %s thread", role);
    sigset_t blocked, before;
    sigfillset(&blocked);
    const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < TH_COUNT(faults); i++) sigdelset(&blocked, faults[i]);

    failed = pthread_attr_setstacksize(&attr, stack_bytes());
    if (!failed) {
        /* A new thread inherits the mask of its maker. */
        pthread_sigmask(SIG_SETMASK, &blocked, &before);
        failed = pthread_create(out, &attr, fn, arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    if (failed) return th_fail_errno(err, THIMBLE_E_NOMEM, failed, "cannot start a %s thread", role);
    return true;
}
