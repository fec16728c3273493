/* signals.c: see signals.h. Handlers set counters and, the second time, leave through _exit: nothing in between is
 * safe. */
#include "common/signals.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts, terminations;

static void on_interrupt(int sig) {
    (void)sig;
    interrupts = interrupts + 1;
    if (interrupts > 1) _exit(130);
}

static void on_terminate(int sig) {
    (void)sig;
    terminations = terminations + 1;
    if (terminations > 1) _exit(143);
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
void signals_forget_interrupt(void) { interrupts = 0; }
