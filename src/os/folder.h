/* folder.h: a folder of files of our own: made, listed, tidied. */
#ifndef THIMBLE_FOLDER_H
#define THIMBLE_FOLDER_H

#include "base/err.h"

bool th_folder_make(const char *path, Err *err); /* if it is not there; its owner's alone. E_IO if it cannot be */
/* fn for each regular file (no links), until it says false. when: its modification time in seconds. False with E_IO if
 * the folder cannot be read. fn may remove and make files. */
typedef bool (*FolderFn)(void *arg, const char *name, uint64_t bytes, double when);
bool th_folder_list(const char *path, FolderFn fn, void *arg, Err *err);
bool th_folder_remove(const char *path, const char *name);
bool th_folder_stamp(const char *path, const char *name, double when); /* sets the modification time */
double th_folder_now(void);                                            /* on the clock of `when` */

#endif
