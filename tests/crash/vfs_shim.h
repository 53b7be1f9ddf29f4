/* SPDX-License-Identifier: MIT
 *
 * A file system that loses power: a SQLite VFS around the default one that remembers, for each file,
 * which bytes were synced and what was written since. A power cut writes what a disk would then hold
 * into other files. It also fails chosen calls.
 */
#ifndef EMQ_TESTS_VFS_SHIM_H
#define EMQ_TESTS_VFS_SHIM_H

#include <stdbool.h>
#include <stdint.h>

enum shim_op { SHIM_WRITE = 1, SHIM_SYNC, SHIM_TRUNCATE };
enum shim_cut {
    SHIM_LOSE_ALL, /* nothing of what was not synced is on the disk */
    SHIM_KEEP_SOME /* each 512-byte sector of it at random: out of order, torn */
};

/* Becomes the default VFS; once a process. Forgets files of earlier tests. */
void shim_install(void);
/* From now, the nth such call (from 1) on a file whose name ends with `tail` returns rc, `times` times.
 * 0 = no failure any more. */
void shim_fail(enum shim_op op, const char *tail, int nth, int rc, int times);
bool shim_failed(void); /* since shim_fail() */
/* What the database file at `path` and its log would be after a power cut now, as files at `to`. */
void shim_power_cut(const char *path, const char *to, enum shim_cut cut, uint64_t *seed);

#endif
