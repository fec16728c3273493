/* vm.h: address space and pages. */
#ifndef THIMBLE_VM_H
#define THIMBLE_VM_H

#include "base/budget.h"

/* A region of anonymous zeroed memory, entered in the budget under mem_class, rounded up to pages (with huge: to 2 MiB,
 * aligned to 2 MiB and advised for transparent huge pages). NULL on failure. Written to once by nobody: pages arrive on
 * first touch, the ledger counts them at once. b == NULL enters nothing: for small things of this folder that the
 * plan's reserve covers. */
void *th_vm_alloc(Budget *b, MemClass mem_class, size_t bytes, bool huge, Err *err);
void th_vm_free(Budget *b, MemClass mem_class, void *p, size_t bytes,
                bool huge);                    /* same bytes and huge; p may be NULL */
size_t th_vm_rounded(size_t bytes, bool huge); /* what an allocation is entered as */
void th_vm_release(void *p, size_t bytes);     /* gives whole pages inside back to the system; they read as zero */

/* Read-only mapping of a whole file (home `mapped` only; its pages are the page cache's and not in the budget). */
const void *th_vm_map_file(int fd, uint64_t bytes, Err *err);
void th_vm_unmap_file(const void *p, uint64_t bytes);
size_t th_vm_page(void);

#endif
