/* signals.c: see signals.h. Handlers set counters and, the second time, leave through _exit: nothing in between is
 * safe. */
#include "common/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts, terminations;

/* A signal may arrive just before a read that then blocks for ever, or on a thread of the engine, which interrupts
 * nothing here: so waiting for input also waits for this pipe, into which the handlers write. -1 until the first wait.
 */
static volatile sig_atomic_t wake_read = -1, wake_write = -1;

static void wake(void) {
    int keep = errno;
    if (wake_write >= 0 && write((int)wake_write, "", 1) < 0) errno = keep; /* full: it wakes all the same */
    errno = keep;
}

static void on_interrupt(int sig) {
    (void)sig;
    interrupts = interrupts + 1;
    if (interrupts > 1) _exit(130);
    wake();
}

static void on_terminate(int sig) {
    (void)sig;
    terminations = terminations + 1;
    if (terminations > 1) _exit(143);
    wake();
}

static void on_bus_error(int sig) {
    static const char sentence[] = "\nthimble: the model file was cut short or became unreadable while it was mapped\n";
    (void)sig;
    if (write(2, sentence, sizeof sentence - 1) < 0) _exit(5);
    _exit(5);
}

static void install(int sig, void (*handler)(int)) {
    struct sigaction a;
    memset(&a, 0, sizeof a);
    sigemptyset(&a.sa_mask);
    a.sa_handler = handler; /* without SA_RESTART: a read at the prompt must return */
    sigaction(sig, &a, NULL);
}

void signals_install(void) {
    struct sigaction old;
    install(SIGINT, on_interrupt);
    install(SIGTERM, on_terminate);
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        install(SIGHUP, on_terminate); /* nohup stays */
    install(SIGPIPE, SIG_IGN);
    install(SIGXFSZ, SIG_IGN); /* ulimit -f: the write fails with EFBIG and is reported */
}

void signals_guard_mapping(void) { install(SIGBUS, on_bus_error); }
bool signals_stop(void) { return interrupts > 0 || terminations > 0; }
bool signals_terminated(void) { return terminations > 0; }
int signals_exit_code(void) { return terminations > 0 ? 143 : 130; }

static void open_pipe(void) {
    int ends[2];
    if (wake_read >= 0 || pipe(ends) != 0) return; /* without it, waiting is only a little less sure */
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    wake_read = ends[0];
    wake_write = ends[1];
}

bool signals_wait_readable(int fd) {
    open_pipe();
    while (!signals_stop()) {
        struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = (int)wake_read, .events = POLLIN}};
        if (poll(p, wake_read >= 0 ? 2 : 1, -1) < 0 && errno != EINTR) return true; /* let the read say what is wrong */
        if (p[0].revents && !signals_stop()) return true;
    }
    return false;
}

void signals_forget_interrupt(void) {
    char drained[64];
    interrupts = 0;
    while (wake_read >= 0 && read((int)wake_read, drained, sizeof drained) > 0) continue;
}
