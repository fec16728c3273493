/* outfile.h: writing a file so that it is there whole or not at all.
 *
 * Bytes go to a temporary file beside the target; commit renames it. What was there before stays until then, and a
 * failed or interrupted write leaves nothing under the target's name. The temporary file is locked while it is written:
 * th_outfile_sweep tells leftovers of a crash from another writer's work by that. Files are readable by their owner
 * alone: they hold conversations. */
#ifndef THIMBLE_OUTFILE_H
#define THIMBLE_OUTFILE_H

#include "base/err.h"

typedef struct OutFile {
    int fd; /* -1: closed */
    char path[1024], temporary[1100];
    uint64_t bytes, written;
} OutFile;

/* bytes: what will be written; E_IO with needed and free bytes if the file system has less (B54). */
bool th_outfile_open(OutFile *o, const char *path, uint64_t bytes, Err *err);
bool th_outfile_write(OutFile *o, const void *data, size_t bytes, Err *err);
/* Makes it the target. durable: only when it is safe on the device (fsync of file and folder). On failure the file is
 * removed. */
bool th_outfile_commit(OutFile *o, bool durable, Err *err);
void th_outfile_abort(OutFile *o); /* accepts a closed one */
/* Removes what crashed writers left in a folder; returns how many files. */
int th_outfile_sweep(const char *dir);

#endif
