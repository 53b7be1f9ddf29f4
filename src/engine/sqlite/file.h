/* SPDX-License-Identifier: MIT
 *
 * The database file: where it is, whether it is still the one that was opened, and who may delete
 * its log. Only file.c hands the path to SQLite; nothing in the library opens the file otherwise.
 */
#ifndef EMQ_ENGINE_SQLITE_FILE_H
#define EMQ_ENGINE_SQLITE_FILE_H

#include "engine/engine.h"

#include <sqlite3.h>
#include <sys/stat.h>

struct sq_file_id {
    dev_t dev;
    ino_t ino;
};

struct sq_file {
    char *path; /* resolved; NULL = in memory */
    char *wal, *shm, *side;
    struct sq_file_id db_id, wal_id, shm_id; /* as they were when the connections opened them */
    off_t guard_at;                          /* our byte of SQLite's shared range; 0 = no guard */
    int shm_fd; /* SQLite's own descriptor of the shm file, borrowed to ask about locks; -1 */
    bool guarded;
    enum emq__making making;
};

/* open(), but never 0, 1 or 2: in a program that was started with these closed, its next printf would
 * write into what was opened. */
int sq_open(const char *path, int flags);
/* Sets F_RDLCK or F_WRLCK, or drops F_UNLCK, a lock of the open file description on one byte. Does not
 * wait: false when another holds it, or there are no such locks. */
bool sq_ofd_lock(int fd, short type, off_t at);
/* Is this errno a shortage that passes, of descriptors or memory? */
bool sq_short_of(int e);
/* The status and text of an errno: "can't <what> '<path>': ...". */
emq_status sq_fail_path(int e, const char *what, const char *path, emq_error *err);

/* Resolves the path and makes the file (0600 whatever the umask) if it is not there; EMQ__MAKE_NONE: E_STORE
 * with ENODATA then. */
emq_status sq_file_init(struct sq_file *f, emq_str path, enum emq__making making,
                        const struct emq__log *log, emq_error *err);
void sq_file_free(struct sq_file *f);
/* THE function that opens the file. */
emq_status sq_file_open_db(const struct sq_file *f, sqlite3 **db, emq_error *err);
/* Makes the file if it is not there. */
emq_status sq_file_create(const struct sq_file *f, emq_error *err);
/* After a connection has used the log for the first time: remembers which files these are. */
emq_status sq_file_remember(struct sq_file *f, emq_error *err);
/* Keeps others from deleting the log or resetting its index even when this process's POSIX locks are
 * lost; after each opened connection. Fails only for want of a descriptor or memory; f->guarded says
 * whether this system has such locks. */
emq_status sq_file_guard(struct sq_file *f, emq_error *err);
void sq_file_unguard(struct sq_file *f);
/* Is the path still the file, and the log the log, that the connections have open? */
bool sq_file_same(const struct sq_file *f);
bool sq_file_db_same(const struct sq_file *f); /* the file alone */
/* Does this process, by its POSIX lock, really hold SQLite's write lock? True when that can't be told. */
bool sq_file_write_locked(const struct sq_file *f);
/* Bytes in the log; 0 if there is none. */
int64_t sq_file_wal_bytes(const struct sq_file *f);

#endif
