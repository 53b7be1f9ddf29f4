/* SPDX-License-Identifier: MIT
 *
 * One connection: its settings, its prepared statements, and what SQLite's result codes mean.
 *
 * The invariant: every connection has the same settings, whoever opens it and whenever, and no
 * connection checkpoints or deletes the log when it is closed.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"

#include <errno.h>
#include <time.h>

/* ---- errors -------------------------------------------------------------------------------- */

static emq_status status_of(int rc)
{
    switch (rc) {
    case SQLITE_IOERR_NOMEM: return EMQ_E_NOMEM;
    case SQLITE_READONLY_DBMOVED: return EMQ_E_STORE;
    default: break;
    }
    switch (rc & 0xff) {
    case SQLITE_FULL: return EMQ_E_FULL;
    case SQLITE_NOMEM: return EMQ_E_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return EMQ_E_BUSY;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY: return EMQ_E_REFUSED;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT: return EMQ_E_CORRUPT;
    case SQLITE_TOOBIG: return EMQ_E_INVALID;
    default: return EMQ_E_STORE;
    }
}

static const char *advice(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL: return ": no space left; nothing was changed; free some and try again";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL: return ": another program holds the file; nothing was changed; try again";
    case SQLITE_READONLY:
        return ": the file and its folder must be writable, the log is kept beside the file";
    case SQLITE_NOTADB: return ": give the path of a queue file or of a new file";
    case SQLITE_CORRUPT:
        return ": look with `sqlite3 FILE 'PRAGMA integrity_check'`, restore a backup";
    default: return "";
    }
}

emq_status sq_error(struct sq_conn *c, int rc, const char *where, emq_error *err)
{
    int e = c->db ? sqlite3_system_errno(c->db) : 0;
    const char *path = c->db ? sqlite3_db_filename(c->db, "main") : NULL;
    const char *msg =
        c->db && sqlite3_errcode(c->db) != SQLITE_OK ? sqlite3_errmsg(c->db) : sqlite3_errstr(rc);

    if (!path || !*path)
        path = "memory";
    if (((rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_IOERR) && sq_short_of(e))
        return sq_fail_path(e, "open what stands beside", path, err);
    /* What could not be created for lack of permission comes as CANTOPEN. */
    if (rc == SQLITE_CANTOPEN_SYMLINK ||
        ((rc & 0xff) == SQLITE_CANTOPEN && (e == EACCES || e == EPERM || e == EROFS)))
        rc = SQLITE_READONLY_DIRECTORY;
    if ((rc & 0xff) == SQLITE_READONLY || (rc & 0xff) == SQLITE_NOTADB)
        return emq__fail(err, status_of(rc), rc, where, "'%s': %s%s", path, msg, advice(rc));
    if ((rc & 0xff) == SQLITE_IOERR && (e == ENOSPC || e == EDQUOT) && rc != SQLITE_IOERR_FSYNC)
        return emq__fail(err, EMQ_E_FULL, rc, where, "%s%s", msg, advice(SQLITE_FULL));
    return emq__fail(err, status_of(rc), rc, where, "%s (SQLite %d%s%s)%s", msg, rc, e ? ", " : "",
                     e ? strerrorname_np(e) : "", advice(rc));
}

/* ---- opening ------------------------------------------------------------------------------- */

/* Only for writers that take no turns (the sqlite3 shell, an application's own transaction). Called
 * by SQLite with the connection's thread. */
static int on_busy(void *arg, int count)
{
    struct sq_conn *c = arg;
    int64_t left_us = c->busy_until.us - emq__mono_now().us;
    int64_t nap_us = count < 6 ? 100 << count : 5000;

    c->was_busy = true;
    if (left_us <= 0)
        return 0;
    if (nap_us > left_us)
        nap_us = left_us;
    struct timespec t = {.tv_nsec = (long)nap_us * 1000};
    (void)nanosleep(&t, NULL);
    return 1;
}

static int configure(sqlite3 *db, int sync)
{
    static const struct {
        int op, on;
    } flags[] = {
        {SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1}, {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FKEY, 0},      {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_DQS_DDL, 0},          {SQLITE_DBCONFIG_DQS_DML, 0},
    };
    static const char *const pragmas[] = {
        [SQ_SYNC_OFF] = "PRAGMA synchronous=OFF",
        [SQ_SYNC_NORMAL] = "PRAGMA synchronous=NORMAL",
        [SQ_SYNC_FULL] = "PRAGMA synchronous=FULL",
    };
    int rc = SQLITE_OK;

    for (size_t i = 0; rc == SQLITE_OK && i < EMQ_ARRAY_LEN(flags); i++)
        rc = sqlite3_db_config(db, flags[i].op, flags[i].on, (int *)NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, pragmas[sync], NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(
            db,
            "PRAGMA wal_autocheckpoint=0;"
            "PRAGMA journal_size_limit=" SQ_STRING(
                SQ_WAL_KEEP_BYTES) ";"
                                   "PRAGMA temp_store=MEMORY;"
                                   /* removing must not need room and time to write zeros */
                                   "PRAGMA secure_delete=FAST;"
                                   "PRAGMA mmap_size=0;" /* a file cut short would be a SIGBUS */
                                   "PRAGMA cache_size=-8000",
            NULL, NULL, NULL);
    return rc;
}

static emq_status open_one(struct sq *s, struct sq_conn *c, int sync, emq_error *err)
{
    emq_status st = sq_file_open_db(&s->file, &c->db, err);

    if (st != EMQ_OK)
        return st;
    sq_conn_patience(s, c);
    (void)sqlite3_busy_handler(c->db, on_busy, c);
    int rc = configure(c->db, sync);
    (void)sqlite3_wal_hook(c->db, sq_checkpoint_hook, s);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(c, rc, "open", err);
}

/* The first read of a connection is what opens the log. Every new one renews the guard: SQLite may have
 * closed the guarded descriptor. */
static emq_status open_in_set(struct sq *s, struct sq_conn *c, int sync, emq_error *err)
{
    emq_status st = open_one(s, c, sync, err);

    if (st == EMQ_OK) {
        int rc = sq_conn_run(c, SQ_SQL_schema_version);
        st = rc == SQLITE_OK ? EMQ_OK : sq_error(c, rc, "open", err);
    }
    if (st != EMQ_OK) {
        sq_conn_close(c);
        return st;
    }
    pthread_mutex_lock(&s->guard_mu);
    st = sq_file_guard(&s->file, err);
    pthread_mutex_unlock(&s->guard_mu);
    if (st != EMQ_OK)
        sq_conn_close(c);
    return st;
}

emq_status sq_conn_look(struct sq *s, struct sq_conn *c, bool *ready, emq_error *err)
{
    emq_status st = open_one(s, c, s->sync, err);

    if (st == EMQ_OK)
        st = sq_schema_look(s, c, ready, err);
    sq_conn_reset(c);
    /* The log that a look has made beside somebody else's file goes with it; one with something in it is theirs. */
    if (st != EMQ_OK && s->file.making != EMQ__MAKE_ANYWHERE && c->db &&
        sq_file_wal_bytes(&s->file) == 0)
        (void)sqlite3_db_config(c->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, (int *)NULL);
    if (st != EMQ_OK)
        sq_conn_close(c);
    return st;
}

/* Has c looked at the file that its path still names? */
static bool looked(const struct sq *s, const struct sq_conn *c)
{
    int moved = 0;

    return !s->set_up && c->db &&
           sqlite3_file_control(c->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
           !moved;
}

void sq_set_close(struct sq *s)
{
    sq_conn_close(&s->group.conn);
    sq_conn_close(&s->renewal.conn);
    sq_conn_close(&s->effect.conn);
    sq_conn_close(&s->one);
    sq_conn_close(&s->checkpoint.conn);
    sq_conn_close(&s->bell.look);
    for (size_t i = 0; i < SQ_READERS; i++)
        sq_conn_close(&s->readers.slot[i].conn);
}

/* Opens the set anew with c as its first connection. The caller has the set for itself. */
static emq_status open_set(struct sq *s, struct sq_conn *c, int sync, const char **notice,
                           emq_error *err)
{
    bool rescue = s->set_up && sq_file_db_same(&s->file);

    if (s->set_up)
        *notice = atomic_load(&s->stale)
                      ? "locks were lost, a sync failed or it read as damaged; opened anew"
                  : rescue ? "its log was deleted by another program; opened anew"
                           : "it was replaced by another program; opened anew";
    if (rescue && !atomic_load(&s->stale) && s->group.conn.db)
        sq_checkpoint_rescue(&s->group.conn);
    if (!looked(s, c))
        sq_set_close(s);
    s->set_up = false;
    emq_status st = sq_file_create(&s->file, err);
    if (c->db)
        sq_conn_patience(s, c); /* the wait for the turn has used up what it had */
    else if (st == EMQ_OK)
        st = open_one(s, c, sync, err);
    if (st == EMQ_OK)
        st = sq_setup(s, c, err);
    if (st != EMQ_OK) {
        if (rescue && err && err->native == SQLITE_IOERR_SHORT_READ)
            st = emq__fail(
                err, EMQ_E_BUSY, SQLITE_IOERR_SHORT_READ, "open",
                "the log of '%s' was deleted while several programs use it; it is free again "
                "once all of them have noticed",
                s->file.path);
        sq_conn_close(c);
        return st;
    }
    if (!*notice && !sq_in_memory(s) && !s->file.guarded)
        *notice = "no guard against lost locks (no /proc, or no OFD locks): don't open it by "
                  "other means in this process";
    s->set_up = true;
    atomic_store(&s->stale, false);
    atomic_store(&s->same_at_us, 0);
    return EMQ_OK;
}

void sq_set_enter(struct sq *s)
{
    (void)pthread_rwlock_rdlock(&s->set_lock);
}

void sq_set_leave(struct sq *s)
{
    (void)pthread_rwlock_unlock(&s->set_lock);
}

/* Looking at the paths each time would cost more than some acts do; what is replaced in between is
 * seen after the commit, or by the next reader. */
static bool set_good(struct sq *s)
{
    enum { LOOK_US = 10000 };

    if (!s->set_up || sq_in_memory(s))
        return s->set_up;
    if (atomic_load(&s->stale))
        return false;
    int64_t now_us = sq_monotonic_us();
    if (now_us - atomic_load(&s->same_at_us) < LOOK_US)
        return true;
    if (!sq_file_same(&s->file))
        return false;
    atomic_store(&s->same_at_us, now_us);
    return true;
}

emq_status sq_conn_ready(struct sq *s, struct sq_conn *c, int sync, emq_error *err)
{
    enum { TRIES = 5 };

    for (int i = 0; i < TRIES; i++) {
        emq_status st = EMQ_OK;
        emq_error e = {0};
        const char *notice = NULL;
        if (set_good(s)) {
            if (c->db)
                return EMQ_OK;
            st = open_in_set(s, c, sync, err);
            /* Opened after the look at the paths: are they still the same files? */
            atomic_store(&s->same_at_us, 0);
            if (st != EMQ_OK || set_good(s))
                return st;
        }
        sq_set_leave(s);
        (void)pthread_rwlock_wrlock(&s->set_lock);
        if (!set_good(s))
            st = open_set(s, c, sync, &notice, &e);
        (void)pthread_rwlock_unlock(&s->set_lock);
        if (notice) /* now that no lock is held */
            emq__log_write(&s->log, EMQ_LOG_WARN, "'%s': %s", s->file.path, notice);
        sq_set_enter(s);
        if (st == EMQ_E_STORE && e.native == ENOENT && i + 1 < TRIES)
            continue; /* another program deleted the log just then */
        if (st != EMQ_OK) {
            if (err)
                *err = e;
            return st;
        }
    }
    return emq__fail(err, EMQ_E_BUSY, 0, "open",
                     "'%s' is replaced again and again by another program", s->file.path);
}

void sq_conn_patience(const struct sq *s, struct sq_conn *c)
{
    c->busy_until = emq__mono_add_ms(emq__mono_now(), s->io_timeout_ms);
}

void sq_conn_close(struct sq_conn *c)
{
    for (size_t i = 0; i < SQ_SQL_COUNT; i++)
        (void)sqlite3_finalize(c->stmt[i]);
    if (c->db)
        (void)sqlite3_close_v2(c->db);
    *c = (struct sq_conn){0};
}

void sq_conn_reset(struct sq_conn *c)
{
    for (size_t i = 0; i < c->n_used; i++) {
        sqlite3_stmt *st = c->stmt[c->used[i]];
        (void)sqlite3_reset(st);
        (void)sqlite3_clear_bindings(st);
        c->in_use[c->used[i]] = false;
    }
    c->n_used = 0;
}

int sq_conn_run(struct sq_conn *c, enum sq_sql id)
{
    int rc = SQLITE_OK;

    if (!c->stmt[id])
        rc = sqlite3_prepare_v3(c->db, sq_sql_text[id], -1, SQLITE_PREPARE_PERSISTENT, &c->stmt[id],
                                NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(c->stmt[id]);
    int reset = sqlite3_reset(c->stmt[id]);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? reset : rc;
}

/* ---- statements ---------------------------------------------------------------------------- */

sqlite3_stmt *sq_stmt(struct sq_conn *c, enum sq_sql id, emq_error *err)
{
    sqlite3_stmt *st = c->stmt[id];

    if (!st) {
        int rc = sqlite3_prepare_v3(c->db, sq_sql_text[id], -1, SQLITE_PREPARE_PERSISTENT,
                                    &c->stmt[id], NULL);
        if (rc != SQLITE_OK) {
            (void)sq_error(c, rc, sq_sql_name[id], err);
            return NULL;
        }
        st = c->stmt[id];
    } else if (c->in_use[id]) {
        (void)sqlite3_reset(st);
        (void)sqlite3_clear_bindings(st);
    }
    if (!c->in_use[id]) {
        c->in_use[id] = true;
        c->used[c->n_used++] = (uint16_t)id;
    }
    return st;
}

emq_status sq_step(struct sq_conn *c, sqlite3_stmt *st, bool *row, const char *where,
                   emq_error *err)
{
    int rc = sqlite3_step(st);

    *row = rc == SQLITE_ROW;
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? EMQ_OK : sq_error(c, rc, where, err);
}

emq_status sq_exec(struct sq_conn *c, sqlite3_stmt *st, const char *where, emq_error *err)
{
    int rc = sqlite3_step(st);

    if (rc == SQLITE_DONE)
        return EMQ_OK;
    if (rc == SQLITE_ROW)
        return emq__fail(err, EMQ_E_STORE, 0, where,
                         "a statement that returns nothing returned a row");
    return sq_error(c, rc, where, err);
}

/* A failed bind of a borrowed value is a wrong index (a bug) or a value over SQLite's limit, which
 * callers' own limits exclude. */
static void bound(int rc)
{
    EMQ_ASSERT(rc == SQLITE_OK);
    (void)rc;
}

void sq_bind_text(sqlite3_stmt *st, int i, emq_str s)
{
    bound(sqlite3_bind_text64(st, i, s.len ? s.ptr : "", s.len, SQLITE_STATIC, SQLITE_UTF8));
}

void sq_bind_text_or_null(sqlite3_stmt *st, int i, emq_str s)
{
    if (s.len == 0)
        bound(sqlite3_bind_null(st, i));
    else
        sq_bind_text(st, i, s);
}

void sq_bind_i64(sqlite3_stmt *st, int i, int64_t v)
{
    bound(sqlite3_bind_int64(st, i, v));
}

void sq_bind_i64_or_null(sqlite3_stmt *st, int i, int64_t v)
{
    if (v == 0)
        bound(sqlite3_bind_null(st, i));
    else
        bound(sqlite3_bind_int64(st, i, v));
}

void sq_bind_payload(sqlite3_stmt *st, int i, struct emq__payload p)
{
    switch (p.kind) {
    case EMQ__KIND_JSON:
    case EMQ__KIND_TEXT: sq_bind_text(st, i, p.bytes); return;
    case EMQ__KIND_BYTES:
        bound(
            sqlite3_bind_blob64(st, i, p.bytes.len ? p.bytes.ptr : "", p.bytes.len, SQLITE_STATIC));
        return;
    }
    bound(sqlite3_bind_null(st, i));
}

emq_str sq_col_str(sqlite3_stmt *st, int i)
{
    int type = sqlite3_column_type(st, i);
    const void *p;

    /* Text is read as a blob: the same bytes, and no copy for a NUL that nobody needs. */
    if (type == SQLITE_TEXT || type == SQLITE_BLOB)
        p = sqlite3_column_blob(st, i);
    else
        p = sqlite3_column_text(st, i);
    size_t n = (size_t)sqlite3_column_bytes(st, i);
    return emq_strn(p ? p : "", p ? n : 0);
}

emq_str sq_col_copy(sqlite3_stmt *st, int i, struct emq__arena *mem)
{
    return emq__arena_str(mem, sq_col_str(st, i));
}

int64_t sq_col_i64(sqlite3_stmt *st, int i)
{
    return sqlite3_column_int64(st, i);
}
