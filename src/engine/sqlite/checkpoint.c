/* SPDX-License-Identifier: MIT
 *
 * Checkpoints. Passive ones block nobody; but while readers overlap and writers go on, they never find
 * the moment at which the log may begin anew. When the log has grown past RESTART_PAGES the thread
 * takes its turn as a writer: with no new commits, new readers read the database file, the old ones
 * end, and the log restarts. So its size is bounded by RESTART_PAGES plus what one slow reader holds.
 *
 * The invariant: this thread keeps writers waiting for a reader in proportion to the log, 25 ms at first
 * and never more than half a second.
 */
#include "engine/sqlite/ground.h"

#include "base/error.h"

#include <signal.h>
#include <sys/statvfs.h>
#include <time.h>

enum { PASSIVE_PAGES = 1000, RESTART_PAGES = 4000, TURN_MS = 500 };
/* With less free than this, the log is moved after so few pages: it must not take the room that its
 * pages will need in the database file. */
enum { TIGHT_BYTES = 64 * 1024 * 1024, TIGHT_PAGES = 50 };

/* Pages in the log at which it is first moved. */
static int first_pages(const struct sq *s)
{
    struct statvfs fs;

    if (sq_in_memory(s) || statvfs(s->file.path, &fs) != 0)
        return PASSIVE_PAGES;
    return fs.f_bavail < TIGHT_BYTES / fs.f_frsize ? TIGHT_PAGES : PASSIVE_PAGES;
}

int sq_checkpoint_hook(void *arg, sqlite3 *db, const char *name, int pages)
{
    struct sq_checkpoint *k = &((struct sq *)arg)->checkpoint;

    (void)db;
    (void)name;
    atomic_store(&k->pages, pages);
    if (pages < atomic_load(&k->ask_at))
        return SQLITE_OK;
    pthread_mutex_lock(&k->mu);
    if (!k->due) {
        k->due = true;
        pthread_cond_signal(&k->changed);
    }
    pthread_mutex_unlock(&k->mu);
    return SQLITE_OK;
}

/* After a failed sync the kernel takes the pages for clean, and no later sync writes them. Opening the
 * set anew lets the log be read, and copied, from its start; the log itself is begun anew before the
 * next commit is acknowledged. */
static void failed(struct sq *s, struct sq_conn *c, int rc)
{
    if (rc == SQLITE_IOERR_FSYNC) {
        atomic_store(&s->log_suspect, true);
        atomic_store(&s->stale, true);
    }
    (void)sq_error(c, rc, "checkpoint", &s->checkpoint.failure);
}

/* Waits for one reader (or writer) at a time; copying pages in between does not count. */
static int on_busy(void *arg, int count)
{
    const struct sq_checkpoint *k = arg;
    struct timespec t = {.tv_nsec = 100000L << (count < 6 ? count : 6)};

    if (count >= k->naps)
        return 0;
    (void)nanosleep(&t, NULL);
    return 1;
}

/* As a writer, in turn. */
static void restart(struct sq *s, int *pages)
{
    struct sq_checkpoint *k = &s->checkpoint;
    int moved = -1;

    enum sq_turn_result turn = sq_turn_take(k->turn, sq_monotonic_us() + TURN_MS * 1000);
    /* 0.1, 0.2, ... 6.4, 6.4 ms: 25 ms in all for a log of RESTART_PAGES; more for a longer one, at most
     * half a second: slow readers that never leave a gap must not make it grow for ever. */
    k->naps = 6 + 3 * (*pages / RESTART_PAGES < 24 ? *pages / RESTART_PAGES : 24);
    (void)sqlite3_busy_handler(k->conn.db, on_busy, k);
    int rc = sqlite3_wal_checkpoint_v2(k->conn.db, NULL, SQLITE_CHECKPOINT_RESTART, pages, &moved);
    if (turn == SQ_TURN_MINE)
        sq_turn_give(k->turn);
    if (rc == SQLITE_OK)
        *pages = 0;
    else if ((rc & 0xff) != SQLITE_BUSY)
        failed(s, &k->conn, rc);
}

/* In passing: pages in the log and pages moved, -1 if another process is at it; returns how many there
 * are now, since commits go on meanwhile. */
static int passive(struct sq *s, int *pages, int *moved)
{
    struct sq_checkpoint *k = &s->checkpoint;

    *pages = *moved = -1;
    int rc = sqlite3_wal_checkpoint_v2(k->conn.db, NULL, SQLITE_CHECKPOINT_PASSIVE, pages, moved);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY)
        failed(s, &k->conn, rc);
    int now = atomic_load(&k->pages);
    return *pages < 0 || now > *pages ? now : *pages;
}

static void run_in_set(struct sq *s)
{
    struct sq_checkpoint *k = &s->checkpoint;
    int pages, moved, now, first = first_pages(s);
    int restart_at = first == PASSIVE_PAGES ? RESTART_PAGES : 2 * first;

    if (sq_conn_ready(s, &k->conn, s->sync, &k->failure) != EMQ_OK) {
        atomic_store(&k->ask_at, atomic_load(&k->pages) + first / 2);
        return;
    }
    now = passive(s, &pages, &moved);
    if (now >= restart_at && now - moved > first) /* less to copy while writers stand still */
        now = passive(s, &pages, &moved);
    if (now >= restart_at) {
        pages = now;
        restart(s, &pages);
        now = pages;
    }
    if (pages >= restart_at)
        atomic_store(&k->ask_at, pages + restart_at / 2);
    else if (pages < 0 || moved < now) /* another does it; or commits went on, or readers hold it */
        atomic_store(&k->ask_at, atomic_load(&k->pages) + first / 2);
    else
        atomic_store(&k->ask_at, first);
}

static void run_once(struct sq *s)
{
    struct sq_checkpoint *k = &s->checkpoint;

    k->failure = (emq_error){0};
    sq_set_enter(s);
    run_in_set(s);
    sq_set_leave(s);
    if (k->failure.status != EMQ_OK)
        emq__log_write(&s->log, EMQ_LOG_WARN, "checkpoint: %s", k->failure.text);
}

static void *run(void *arg)
{
    struct sq *s = arg;
    struct sq_checkpoint *k = &s->checkpoint;

    pthread_mutex_lock(&k->mu);
    while (!k->stop) {
        if (!k->due) {
            pthread_cond_wait(&k->changed, &k->mu);
            continue;
        }
        pthread_mutex_unlock(&k->mu);
        run_once(s);
        pthread_mutex_lock(&k->mu);
        k->due = false;
    }
    pthread_mutex_unlock(&k->mu);
    return NULL;
}

emq_status sq_checkpoint_start(struct sq *s, emq_error *err)
{
    struct sq_checkpoint *k = &s->checkpoint;
    sigset_t all, old;

    atomic_store(&k->ask_at, first_pages(s));
    int rc = pthread_mutex_init(&k->mu, NULL);
    if (rc != 0)
        return emq__fail(err, EMQ_E_SYSTEM, rc, "open", "mutex");
    rc = pthread_cond_init(&k->changed, NULL);
    if (rc == 0) {
        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &old);
        rc = pthread_create(&k->thread, NULL, run, s);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        if (rc == 0)
            return EMQ_OK;
        pthread_cond_destroy(&k->changed);
    }
    pthread_mutex_destroy(&k->mu);
    return emq__fail(err, EMQ_E_SYSTEM, rc, "open",
                     "no thread for checkpoints: raise the limit of threads");
}

void sq_checkpoint_stop(struct sq *s)
{
    struct sq_checkpoint *k = &s->checkpoint;

    pthread_mutex_lock(&k->mu);
    k->stop = true;
    pthread_cond_signal(&k->changed);
    pthread_mutex_unlock(&k->mu);
    (void)pthread_join(k->thread, NULL);
    pthread_cond_destroy(&k->changed);
    pthread_mutex_destroy(&k->mu);
}

/* The salt in a log's header is repeated in the index of the log (walformat.html). */
static bool index_is_of_log(sqlite3 *db)
{
    enum { HEADER = 32, LOG_SALT_AT = 16, INDEX_SALT_AT = 32, SALT = 8, INDEX_PAGE = 32768 };
    sqlite3_file *file = NULL, *log = NULL;
    unsigned char header[HEADER];
    void volatile *index = NULL;
    unsigned char salt[SALT];

    if (sqlite3_file_control(db, NULL, SQLITE_FCNTL_FILE_POINTER, &file) != SQLITE_OK ||
        sqlite3_file_control(db, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log) != SQLITE_OK ||
        !log->pMethods || log->pMethods->xRead(log, header, HEADER, 0) != SQLITE_OK ||
        file->pMethods->xShmMap(file, 0, INDEX_PAGE, 0, &index) != SQLITE_OK || !index)
        return false;
    for (size_t i = 0; i < SALT; i++)
        salt[i] = ((volatile unsigned char *)index)[INDEX_SALT_AT + i];
    return memcmp(salt, header + LOG_SALT_AT, SALT) == 0;
}

void sq_checkpoint_rescue(struct sq_conn *c)
{
    enum { RESCUE_MS = 1000 };

    c->busy_until = emq__mono_add_ms(emq__mono_now(), RESCUE_MS);
    if (index_is_of_log(c->db))
        (void)sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
}

bool sq_checkpoint_make_room(struct sq *s, struct sq_conn *c)
{
    enum { ROOM_MS = 200 };
    struct timespec nap = {.tv_nsec = 2000000};
    int rc;

    if (sq_in_memory(s) || !c->db)
        return false;
    c->busy_until = emq__mono_add_ms(emq__mono_now(), ROOM_MS);
    /* SQLite calls no busy handler when another checkpoint is running. */
    while ((rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL)) ==
               SQLITE_BUSY &&
           emq__mono_now().us < c->busy_until.us)
        (void)nanosleep(&nap, NULL);
    if (rc == SQLITE_IOERR_FSYNC) {
        atomic_store(&s->log_suspect, true);
        atomic_store(&s->stale, true);
    }
    atomic_store(&s->checkpoint.no_room, rc != SQLITE_OK && rc != SQLITE_BUSY);
    atomic_store(&s->checkpoint.ask_at, TIGHT_PAGES);
    return rc == SQLITE_OK;
}

void sq_checkpoint_last(struct sq_conn *c)
{
    if (!c->db)
        return;
    c->busy_until = emq__mono_now();
    (void)sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
}
