/* SPDX-License-Identifier: MIT
 *
 * Opening and closing: the ops table, what a URL may say, the order of setting up and tearing down.
 *
 * The invariant: a handle that open gave out has a file with our schema, in log mode, guarded; close
 * leaves the file consistent and never deletes the log, which others may be using.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <time.h>
#include <unistd.h>

enum { IO_TIMEOUT_DEFAULT_MS = 10000 };
enum { SQLITE_NEEDED = 3037000 }; /* STRICT tables */

static emq_status sq_advance(struct emq__engine *e, int64_t ms, emq_error *err);
static void sq_close(struct emq__engine *e);

static const struct emq__engine_ops ops = {
    .name = "sqlite",
#define SQ_OPS_MEMBER(act, mutating) .act = sq_act_##act,
    EMQ__ACTS(SQ_OPS_MEMBER)
#undef SQ_OPS_MEMBER
        .ticket = sq_ticket,
    .interrupt = sq_interrupt,
    .advance = sq_advance,
    .close = sq_close,
};

/* ---- small things ---------------------------------------------------------------------------- */

int64_t sq_now_ms(const struct sq *s)
{
    return emq__sat_add(s->stopped ? s->stopped_wall_ms : emq__wall_ms(),
                        atomic_load(&s->advance_ms));
}

int64_t sq_boot_ms(const struct sq *s)
{
    return emq__sat_add(s->stopped ? s->stopped_boot_ms : emq__mono_now().us / 1000,
                        atomic_load(&s->advance_ms));
}

int64_t sq_boot(const struct sq *s)
{
    return atomic_load(&s->boot);
}

void sq_set_boot(struct sq *s, int64_t boot)
{
    atomic_store(&s->boot, boot);
}

atomic_bool *sq_take_hot(struct sq *s)
{
    return &s->take_hot;
}

const struct emq__log *sq_log(const struct sq *s)
{
    return &s->log;
}

void sq_one_lock(struct sq *s)
{
    if (sq_in_memory(s))
        pthread_mutex_lock(&s->one_mu);
}

void sq_one_unlock(struct sq *s)
{
    if (sq_in_memory(s))
        pthread_mutex_unlock(&s->one_mu);
}

bool sq_write_locked(struct sq *s)
{
    pthread_mutex_lock(&s->guard_mu);
    bool locked = sq_file_write_locked(&s->file);
    pthread_mutex_unlock(&s->guard_mu);
    return locked;
}

emq_status sq_check_fork(const struct sq *s, emq_error *err)
{
    if (s->pid == getpid())
        return EMQ_OK;
    return emq__fail(err, EMQ_E_FORKED, 0, "sqlite",
                     "opened by process %ld, used in %ld: open the store after fork()",
                     (long)s->pid, (long)getpid());
}

static emq_status sq_advance(struct emq__engine *e, int64_t ms, emq_error *err)
{
    struct sq *s = (struct sq *)e;

    if (ms < 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "advance", "%lld ms: clocks only go forward",
                         (long long)ms);
    atomic_fetch_add(&s->advance_ms, ms);
    return EMQ_OK;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int read_mode(struct sq_conn *c, const char *sql, bool *wal)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(c->db, sql, -1, &st, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    *wal = rc == SQLITE_ROW && emq__str_is(sq_col_str(st, 0), "wal");
    if (rc == SQLITE_ROW || rc == SQLITE_DONE)
        rc = SQLITE_OK;
    (void)sqlite3_finalize(st);
    return rc;
}

/* The first process changes the file to log mode, which needs the file for itself for a moment. */
static emq_status set_log_mode(struct sq *s, struct sq_conn *c, emq_error *err)
{
    struct emq__mono end = emq__mono_add_ms(emq__mono_now(), s->io_timeout_ms);
    bool wal = false;
    int rc;

    for (;;) {
        rc = read_mode(c, "PRAGMA journal_mode=WAL", &wal);
        if ((rc & 0xff) != SQLITE_BUSY || emq__mono_now().us >= end.us)
            break;
        struct timespec nap = {.tv_nsec = 2000000};
        (void)nanosleep(&nap, NULL);
    }
    if (rc != SQLITE_OK)
        return sq_error(c, rc, "open", err);
    if (!wal)
        return emq__fail(
            err, EMQ_E_REFUSED, 0, "open",
            "'%s' can't be put into SQLite's WAL mode: its file system has no shared memory "
            "or no locks; use a local disk",
            s->file.path);
    return EMQ_OK;
}

emq_status sq_setup(struct sq *s, struct sq_conn *c, emq_error *err)
{
    bool ready;
    emq_status st = sq_schema_look(s, c, &ready, err); /* a newer file keeps its mode, too */

    sq_conn_reset(c);
    if (st == EMQ_OK && !sq_in_memory(s))
        st = set_log_mode(s, c, err);
    if (st == EMQ_OK)
        st = sq_schema_setup(s, c, err);
    sq_conn_reset(c);
    if (st == EMQ_OK)
        st = sq_file_remember(&s->file, err);
    if (st == EMQ_OK)
        st = sq_file_guard(&s->file, err);
    return st;
}

static emq_status read_url(struct sq *s, const struct emq__url *url, emq_error *err)
{
    static const char *const names[] = {
        [SQ_SYNC_OFF] = "off", [SQ_SYNC_NORMAL] = "normal", [SQ_SYNC_FULL] = "full"};

    char shown[2][EMQ__SHOWN_MAX];

    s->sync = SQ_SYNC_FULL;
    for (size_t i = 0; i < url->n_params; i++) {
        emq_str key = url->params[i].key, value = url->params[i].value;
        bool known = emq__str_is(key, "prefix"); /* the client's */
        bool is_sync = emq__str_is(key, "sync");
        for (int v = 0; !known && is_sync && v < (int)EMQ_ARRAY_LEN(names); v++) {
            known = emq__str_is(value, names[v]);
            if (known)
                s->sync = v;
        }
        if (!known)
            return emq__fail(err, EMQ_E_INVALID, 0, "open",
                             "'?%s=%s' is not known: sqlite: takes ?sync=full, ?sync=normal, "
                             "?sync=off and ?prefix=",
                             emq__url_shown(key, shown[0]),
                             is_sync ? emq__url_shown(value, shown[1]) : "...");
    }
    return EMQ_OK;
}

static emq_status check_library(emq_error *err)
{
    if (sqlite3_libversion_number() < SQLITE_NEEDED)
        return emq__fail(err, EMQ_E_SYSTEM, sqlite3_libversion_number(), "open",
                         "SQLite %s is too old: 3.37 or newer is needed", sqlite3_libversion());
    if (sqlite3_threadsafe() == 0)
        return emq__fail(err, EMQ_E_SYSTEM, 0, "open", "this SQLite was built without threads");
    return EMQ_OK;
}

/* What must be torn down, in the order in which it was set up. */
enum stage { NOTHING, FILE_FOUND, MUTEXES, GROUP, READERS, BELL, ALL };

emq_status sq_turn_open(struct sq *s, bool first, struct sq_turn **out, emq_error *err)
{
    if (!s->bell.map)
        return EMQ_OK;
    int fd = sq_side_open(&s->file);
    if (fd < 0 && sq_short_of(errno))
        return sq_fail_path(errno, "open", s->file.side, err);
    *out = fd < 0 ? NULL : sq_turn_new(fd, first);
    return EMQ_OK;
}

static emq_status new_turns(struct sq *s, emq_error *err)
{
    emq_status st = sq_turn_open(s, false, &s->group.turn, err);

    if (st == EMQ_OK)
        st = sq_turn_open(s, true, &s->renewal.turn, err);
    s->renewal.asked = true;
    if (st == EMQ_OK)
        st = sq_turn_open(s, false, &s->checkpoint.turn, err);
    if (st == EMQ_OK)
        sq_turn_user(s->group.turn);
    return st;
}

static void free_turns(struct sq *s, bool forked)
{
    sq_turn_free(s->group.turn, forked);
    sq_turn_free(s->renewal.turn, forked);
    sq_turn_free(s->effect.turn, forked);
    sq_turn_free(s->checkpoint.turn, forked);
}

/* The last one out leaves everything in the database file, so that a copy of it alone is whole. */
static void last_checkpoint(struct sq *s)
{
    if (sq_in_memory(s) || !sq_turn_last_user(s->group.turn))
        return;
    if (s->group.conn.db && !atomic_load(&s->stale) && sq_file_same(&s->file))
        sq_checkpoint_last(&s->group.conn);
}

static void teardown(struct sq *s, enum stage have)
{
    if (have >= ALL) {
        if (!sq_in_memory(s))
            sq_checkpoint_stop(s);
        last_checkpoint(s);
    }
    free_turns(s, false);
    if (have >= BELL)
        sq_bell_close(&s->bell, false);
    if (have >= READERS)
        sq_readers_close(&s->readers);
    if (have >= GROUP)
        sq_group_close(&s->group);
    if (have >= MUTEXES) {
        sq_set_close(s);
        sq_file_unguard(&s->file);
        pthread_mutex_destroy(&s->renewal.mu);
        pthread_mutex_destroy(&s->effect.mu);
        pthread_mutex_destroy(&s->one_mu);
        pthread_mutex_destroy(&s->guard_mu);
        (void)pthread_rwlock_destroy(&s->set_lock);
    }
    if (have >= FILE_FOUND)
        sq_file_free(&s->file);
    free(s);
}

static emq_status init_mutexes(struct sq *s, emq_error *err)
{
    pthread_mutex_t *all[] = {&s->guard_mu, &s->one_mu, &s->renewal.mu, &s->effect.mu};
    pthread_rwlockattr_t attr;

    /* Opening anew must not wait for ever behind readers that overlap. */
    (void)pthread_rwlockattr_init(&attr);
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    int failed = pthread_rwlock_init(&s->set_lock, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
    if (failed != 0)
        return emq__fail(err, EMQ_E_SYSTEM, failed, "open", "lock");
    for (size_t i = 0; i < EMQ_ARRAY_LEN(all); i++) {
        int rc = pthread_mutex_init(all[i], NULL);
        if (rc != 0) {
            while (i > 0)
                pthread_mutex_destroy(all[--i]);
            (void)pthread_rwlock_destroy(&s->set_lock);
            return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
        }
    }
    return EMQ_OK;
}

/* Setting up writes: in turn, or busy processes would leave no gap for this one. */
static emq_status first_connection(struct sq *s, bool ready, emq_error *err)
{
    enum sq_turn_result turn =
        ready ? SQ_TURN_NONE
              : sq_turn_take(s->group.turn, sq_monotonic_us() + s->io_timeout_ms * 800);
    sq_set_enter(s);
    emq_status st = sq_conn_ready(s, sq_in_memory(s) ? &s->one : &s->group.conn, s->sync, err);
    sq_set_leave(s);
    if (turn == SQ_TURN_MINE)
        sq_turn_give(s->group.turn);
    return st;
}

static emq_status set_up(struct sq *s, const struct emq__engine_config *cfg, enum stage *have,
                         emq_error *err)
{
    bool ready = false;
    emq_status st = check_library(err);

    if (st == EMQ_OK)
        st = read_url(s, &cfg->url, err);
    if (st == EMQ_OK &&
        (st = sq_file_init(&s->file, cfg->url.path, cfg->making, &s->log, err)) == EMQ_OK)
        *have = FILE_FOUND;
    if (st == EMQ_OK && (st = init_mutexes(s, err)) == EMQ_OK)
        *have = MUTEXES;
    if (st == EMQ_OK && (st = sq_group_init(&s->group, err)) == EMQ_OK)
        *have = GROUP;
    if (st == EMQ_OK && (st = sq_readers_init(&s->readers, err)) == EMQ_OK)
        *have = READERS;
    if (st == EMQ_OK && !sq_in_memory(s))
        st = sq_conn_look(s, &s->group.conn, &ready, err);
    if (st == EMQ_OK && (st = sq_bell_open(s, err)) == EMQ_OK)
        *have = BELL;
    if (st == EMQ_OK)
        st = new_turns(s, err);
    if (st == EMQ_OK)
        st = first_connection(s, ready, err);
    if (st == EMQ_OK && !sq_in_memory(s))
        st = sq_checkpoint_start(s, err);
    if (st == EMQ_OK)
        *have = ALL;
    return st;
}

emq_status emq__sqlite_open(struct emq__engine **out, const struct emq__engine_config *cfg,
                            struct emq__arena *mem, emq_error *err)
{
    enum stage have = NOTHING;
    struct sq *s = calloc(1, sizeof *s);

    (void)mem;
    if (!s)
        return emq__fail(err, EMQ_E_NOMEM, 0, "open", "engine of %zu bytes", sizeof *s);
    s->base.ops = &ops;
    atomic_store(&s->checkpoint.ask_at, INT_MAX); /* until its thread runs */
    s->log = cfg->log;
    s->pid = getpid();
    s->io_timeout_ms = cfg->io_timeout_ms > 0 ? cfg->io_timeout_ms : IO_TIMEOUT_DEFAULT_MS;
    s->stopped = cfg->stop_clock;
    s->slice_us = s->stopped ? INT64_MAX : SQ_SLICE_US;
    s->stopped_wall_ms = emq__wall_ms();
    s->stopped_boot_ms = emq__mono_now().us / 1000;
    emq_status st = set_up(s, cfg, &have, err);
    if (st != EMQ_OK) {
        teardown(s, have);
        return st;
    }
    emq__log_write(&s->log, EMQ_LOG_DEBUG, "%s opened with SQLite %s, %s",
                   s->file.path ? s->file.path : "memory", sqlite3_libversion(),
                   sqlite3_sourceid());
    *out = &s->base;
    return EMQ_OK;
}

/* In a child process the connections are the parent's: closing them would end its locks or write its
 * log. They are left as they are; only memory goes. */
static void close_in_child(struct sq *s)
{
    free_turns(s, true);
    sq_bell_close(&s->bell, true);
    sq_file_free(&s->file);
    free(s);
}

static void sq_close(struct emq__engine *e)
{
    struct sq *s = (struct sq *)e;

    if (sq_check_fork(s, NULL) != EMQ_OK)
        close_in_child(s);
    else
        teardown(s, ALL);
}

/* ---- an application's connection --------------------------------------------------------------- */

emq_status sq_borrow_begin(struct sq *s, sqlite3 *db, struct sq_conn *c, struct sq_tx *tx,
                           emq_error *err)
{
    static const char where[] = "add_on";
    struct stat st;
    const char *path;
    emq_status status = sq_check_fork(s, err);

    if (status != EMQ_OK)
        return status;
    *c = (struct sq_conn){.db = db};
    if (sqlite3_get_autocommit(db) != 0)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "no transaction is open on this connection: BEGIN IMMEDIATE first");
    path = sqlite3_db_filename(db, "main");
    sq_set_enter(s);
    bool same = s->file.path && path && stat(path, &st) == 0 && st.st_dev == s->file.db_id.dev &&
                st.st_ino == s->file.db_id.ino;
    sq_set_leave(s);
    if (!same)
        return emq__fail(
            err, EMQ_E_INVALID, 0, where, "this connection has '%s' open, the store is '%s'",
            path && *path ? path : "no file", s->file.path ? s->file.path : ":memory:");
    *tx = (struct sq_tx){
        .s = s, .conn = c, .write = true, .now_ms = sq_now_ms(s), .boot_ms = sq_boot_ms(s)};
    tx->boot_ms_late = tx->boot_ms;
    return EMQ_OK;
}

void sq_borrow_end(struct sq_conn *c)
{
    for (size_t i = 0; i < SQ_SQL_COUNT; i++)
        (void)sqlite3_finalize(c->stmt[i]);
    *c = (struct sq_conn){0};
}
