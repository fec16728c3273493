/* faulty.h: a FileHook that misbehaves on purpose, for tests of everything that reads files.
 *
 *     Faulty faulty = {.fault = FAULT_SHORT_BY_ONE};
 *     file.hook = th_faulty_hook(&faulty);        (after th_file_open; the Faulty must outlive the reads)
 *
 * Thread-safe. `from` and `to` limit the fault to calls that touch offsets in [from, to); to == 0 means everywhere. */
#ifndef THIMBLE_FAULTY_H
#define THIMBLE_FAULTY_H

#include <stdatomic.h>

#include "os/file.h"

typedef enum Fault {
    FAULT_NONE,
    FAULT_SHORT_BY_ONE, /* each call of more than one byte gives one byte less   */
    FAULT_ONE_BYTE,     /* each call gives one byte                              */
    FAULT_ZERO,         /* end of file, at once                                  */
    FAULT_EINTR,        /* every other call is interrupted                       */
    FAULT_EIO_ONCE,     /* the first call that is hit fails, later ones work     */
    FAULT_EIO_ALWAYS,
    FAULT_EINVAL_DIRECT, /* refuses every descriptor but `buffered_fd` (B52)      */
    FAULT_DELAY          /* each call takes delay_us longer                       */
} Fault;

typedef struct Faulty {
    Fault fault;
    uint64_t from, to;
    int buffered_fd; /* for FAULT_EINVAL_DIRECT */
    int delay_us;    /* for FAULT_DELAY */
    atomic_int calls, hits;
} Faulty;

FileHook th_faulty_hook(Faulty *f);

#endif
