/* SPDX-License-Identifier: MIT
 *
 * The bare loop; see bare.h. The statements of one transaction, by their names in
 * src/engine/sqlite/sql/path.sql (the cell `cost` prints both lists as they were executed):
 *
 *   always       BEGIN IMMEDIATE, schema_version, receipt_get, queue_get, queue_meta, ...,
 *                event_insert (a row for every 100 events), queue_save, receipt_set, COMMIT
 *   add          job_insert a job
 *   take         job_line, job_take a job; with delayed jobs: job_due, job_next_due
 *   settle       job_complete_owned a job, job_oldest; over 1,000 kept: job_delete(_to)
 *   settle+take  both in one transaction
 *   events       over 10,100 kept: event_oldest, event_delete_to
 *
 * SQLite's own automatic checkpoint, every 1,000 pages, does what the engine's thread does. Two of
 * the engine's reads are left out: the look of a take that settles nothing, and the 16th receipt's
 * search for old ones.
 */
#include "bare.h"

#include "counters.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum col {
    LAST_ID,
    FENCE,
    FRONT,
    BACK,
    N_WAITING,
    N_ACTIVE,
    N_DELAYED,
    N_PRIORITIZED,
    N_CHILDREN,
    N_COMPLETED,
    N_FAILED,
    N_RETRY_DELAYED,
    T_ADDED,
    T_STARTED,
    T_COMPLETED,
    T_FAILED,
    T_RETRIED,
    T_RECOVERED,
    T_DEDUPLICATED,
    T_REMOVED,
    LIMIT_COUNT,
    LIMIT_UNTIL,
    LIMIT_MAX,
    EVENT_MS,
    EVENT_SEQ,
    EVENT_COUNT,
    PUBLISHING,
    VISIBLE
};

enum {
    KEEP = 1000,
    EVENTS_KEPT = 10000,
    EVENTS_SLACK = 100,
    EVENT_ROW_MAX = 100,
    TRIM_ROWS = 256,
    LOCK_MS = 30000,
    DAY_MS = 24 * 60 * 60 * 1000,
    RECEIPT_TOUCH_MS = 5 * 60 * 1000,
    COL_JID = 0,
    COL_ID = 2,
    COL_ATTEMPTS_STARTED = 8,
    COL_DATA = 33,
    JOB_COLS = 38
};

/* ---- statements ------------------------------------------------------------------------------ */

static void must(struct bare *b, int rc, int want)
{
    if (rc != want)
        die("bare: SQLite %d: %s", rc, sqlite3_errmsg(b->db));
}

static void run(struct bare *b, const char *sql)
{
    must(b, sqlite3_exec(b->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static sqlite3_stmt *stmt(struct bare *b, enum sq_sql id)
{
    if (!b->st[id])
        must(b,
             sqlite3_prepare_v3(b->db, sq_sql_text[id], -1, SQLITE_PREPARE_PERSISTENT, &b->st[id],
                                NULL),
             SQLITE_OK);
    return b->st[id];
}

static void done(struct bare *b, sqlite3_stmt *st)
{
    must(b, sqlite3_step(st), SQLITE_DONE);
    (void)sqlite3_reset(st);
}

static void ints(sqlite3_stmt *st, int from, int n, const int64_t *v)
{
    for (int i = 0; i < n; i++)
        (void)sqlite3_bind_int64(st, from + i, v[i]);
}

static void text(sqlite3_stmt *st, int i, const char *s, int len)
{
    (void)sqlite3_bind_text(st, i, s, len, SQLITE_STATIC);
}

static int64_t wall_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static int64_t boot_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The options text that the engine would store, so that rows have the same size. */
static void learn_opts(struct bare *b, const struct plan *p)
{
    emq_client *c = NULL;
    emq_job *job = NULL;
    emq_error err = {0};
    emq_added added = {.size = sizeof added};
    emq_add_opts opts = emq_opts_plan(p);

    emq_must(emq_open(&c, emq_cstr("sqlite::memory:"), NULL, &err), &err);
    emq_must(emq_add(c, QUEUE, emq_cstr("1"), &opts, &added, &err), &err);
    emq_must(emq_get(c, QUEUE, emq_cstr(added.id), &job, &err), &err);
    b->opts_len = (int)emq_job_opts_json(job).len;
    b->opts = strndup(emq_job_opts_json(job).ptr, (size_t)b->opts_len);
    emq_job_free(job);
    emq_close(c);
    if (!b->opts)
        die("no memory");
}

static void make_schema(struct bare *b)
{
    sqlite3_stmt *st;
    bool exists;

    run(b, "BEGIN IMMEDIATE");
    st = stmt(b, SQ_SQL_schema_tables);
    exists = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) > 0;
    (void)sqlite3_reset(st);
    if (!exists) {
        run(b, sq_sql_text[SQ_SQL_schema_create]);
        run(b, "INSERT INTO emq_boot (boot, boot_id, seen_at_ms) VALUES (1, 'bare', 1);"
               "INSERT INTO emq_queue (prefix, name) VALUES ('emq', 'q');");
        st = stmt(b, SQ_SQL_schema_set_version);
        (void)sqlite3_bind_int64(st, 1, 1);
        done(b, st);
    }
    run(b, "COMMIT");
    must(b, sqlite3_prepare_v2(b->db, "SELECT max(boot) FROM emq_boot", -1, &st, NULL), SQLITE_OK);
    must(b, sqlite3_step(st), SQLITE_ROW);
    b->boot = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
}

/* SQLite's own handler naps up to 100 ms: no reference for what two processes could do. */
static int on_busy(void *arg, int count)
{
    enum { NAP_NS = 100000, NAPS_MAX = 600000 };
    const struct timespec nap = {.tv_nsec = NAP_NS};

    (void)arg;
    (void)nanosleep(&nap, NULL);
    return count < NAPS_MAX;
}

/* The busy handler is not asked here, and two processes may begin with the same new file. */
static void log_mode(struct bare *b)
{
    const struct timespec nap = {.tv_nsec = 1000000};
    int rc;

    while ((rc = sqlite3_exec(b->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL)) == SQLITE_BUSY)
        (void)nanosleep(&nap, NULL);
    must(b, rc, SQLITE_OK);
}

void bare_open(struct bare *b, const struct plan *p, int index)
{
    char pragma[80];

    memset(b, 0, sizeof *b);
    learn_opts(b, p);
    if (p->count)
        counters_install();
    (void)snprintf(b->session, sizeof b->session, "%08x-%07ld-%02x", 0x5e551010U, (long)getpid(),
                   index);
    (void)snprintf(b->worker, sizeof b->worker, "barehost:%ld:%d", (long)getpid(), index);
    b->delay_ms = p->delay_ms;
    b->keep_all = p->keep_all;
    must(b, sqlite3_open(p->path, &b->db), SQLITE_OK);
    (void)sqlite3_busy_handler(b->db, on_busy, NULL);
    (void)snprintf(pragma, sizeof pragma, "PRAGMA synchronous=%s", sync_name(p->sync));
    log_mode(b);
    run(b, pragma);
    run(b, "PRAGMA journal_size_limit=16777216; PRAGMA temp_store=MEMORY; PRAGMA mmap_size=0;"
           "PRAGMA cache_size=-8000; PRAGMA wal_autocheckpoint=1000");
    make_schema(b);
    must(b, sqlite3_prepare_v2(b->db, "BEGIN IMMEDIATE", -1, &b->begin, NULL), SQLITE_OK);
    must(b, sqlite3_prepare_v2(b->db, "COMMIT", -1, &b->commit, NULL), SQLITE_OK);
}

void bare_close(struct bare *b)
{
    for (int i = 0; i < SQ_SQL_COUNT; i++)
        (void)sqlite3_finalize(b->st[i]);
    (void)sqlite3_finalize(b->begin);
    (void)sqlite3_finalize(b->commit);
    (void)sqlite3_close(b->db);
    free(b->opts);
    free(b->events);
}

/* ---- one transaction ------------------------------------------------------------------------- */

static void event(struct bare *b, const char *name, const char *id, const char *rest)
{
    if (b->events_cap - b->events_len < 256) {
        b->events_cap = b->events_cap ? b->events_cap * 2 : 4096;
        b->events = realloc(b->events, b->events_cap);
        if (!b->events)
            die("no memory");
    }
    b->events_len += (size_t)snprintf(b->events + b->events_len, 256,
                                      "{\"event\":\"%s\",\"jobId\":\"%s\"%s}\n", name, id, rest);
    b->n_events++;
}

static void queue_read(struct bare *b)
{
    sqlite3_stmt *st = stmt(b, SQ_SQL_queue_get);

    text(st, 1, "emq", 3);
    text(st, 2, "q", 1);
    must(b, sqlite3_step(st), SQLITE_ROW);
    b->qid = sqlite3_column_int64(st, 0);
    for (int i = 0; i < QUEUE_COLS; i++)
        b->col[i] = sqlite3_column_int64(st, i + 1);
    (void)sqlite3_reset(st);
    st = stmt(b, SQ_SQL_queue_meta);
    ints(st, 1, 1, &b->qid);
    while (sqlite3_step(st) == SQLITE_ROW)
        ;
    (void)sqlite3_reset(st);
}

static void begin(struct bare *b)
{
    sqlite3_stmt *st;

    b->now_ms = wall_ms();
    done(b, b->begin);
    must(b, sqlite3_step(stmt(b, SQ_SQL_schema_version)), SQLITE_ROW);
    (void)sqlite3_reset(stmt(b, SQ_SQL_schema_version));
    st = stmt(b, SQ_SQL_receipt_get);
    text(st, 1, b->session, -1);
    (void)sqlite3_step(st);
    (void)sqlite3_reset(st);
    queue_read(b);
}

static void events_trim(struct bare *b)
{
    sqlite3_stmt *st = stmt(b, SQ_SQL_event_oldest);
    int64_t to[3] = {b->qid, 0, 0}, gone = 0;
    const int64_t ask[2] = {b->qid, TRIM_ROWS};

    ints(st, 1, 2, ask);
    while (sqlite3_step(st) == SQLITE_ROW) {
        int64_t n = sqlite3_column_int64(st, 2);
        if (b->col[EVENT_COUNT] - gone - n < EVENTS_KEPT)
            break;
        gone += n;
        to[1] = sqlite3_column_int64(st, 0);
        to[2] = sqlite3_column_int64(st, 1);
    }
    (void)sqlite3_reset(st);
    if (gone == 0)
        return;
    st = stmt(b, SQ_SQL_event_delete_to);
    ints(st, 1, 3, to);
    done(b, st);
    b->col[EVENT_COUNT] -= gone;
}

static void events_flush(struct bare *b)
{
    const char *p = b->events;

    if (b->now_ms > b->col[EVENT_MS]) {
        b->col[EVENT_MS] = b->now_ms;
        b->col[EVENT_SEQ] = -1;
    }
    while (b->n_events > 0) {
        sqlite3_stmt *st = stmt(b, SQ_SQL_event_insert);
        int n = b->n_events < EVENT_ROW_MAX ? b->n_events : EVENT_ROW_MAX;
        const char *end = p;
        const int64_t v[] = {b->qid, b->col[EVENT_MS], b->col[EVENT_SEQ] + 1, n};
        for (int i = 0; i < n; i++)
            end = strchr(end, '\n') + 1;
        ints(st, 1, 4, v);
        text(st, 5, p, (int)(end - p));
        done(b, st);
        p = end;
        b->n_events -= n;
        b->col[EVENT_SEQ] += n;
        b->col[EVENT_COUNT] += n;
    }
    b->events_len = 0;
    if (b->col[EVENT_COUNT] > EVENTS_KEPT + EVENTS_SLACK)
        events_trim(b);
}

/* `bytes`: as long as the engine's receipt for the same answer. */
static void receipt(struct bare *b, int bytes)
{
    static const char body[64 * BARE_BATCH_MAX];
    sqlite3_stmt *st = stmt(b, SQ_SQL_receipt_set);

    b->seq++;
    text(st, 1, b->session, -1);
    (void)sqlite3_bind_int64(st, 2, b->seq);
    (void)sqlite3_bind_blob(st, 3, body, bytes, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, b->now_ms - RECEIPT_TOUCH_MS);
    done(b, st);
    if (sqlite3_changes(b->db) == 1)
        return;
    st = stmt(b, SQ_SQL_receipt_put);
    text(st, 1, b->session, -1);
    (void)sqlite3_bind_int64(st, 2, b->seq);
    (void)sqlite3_bind_blob(st, 3, body, bytes, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 4, b->now_ms);
    done(b, st);
}

static void end(struct bare *b, int receipt_bytes)
{
    sqlite3_stmt *st;

    events_flush(b);
    st = stmt(b, SQ_SQL_queue_save);
    (void)sqlite3_bind_int64(st, 1, b->qid);
    ints(st, 2, QUEUE_COLS, b->col);
    done(b, st);
    receipt(b, receipt_bytes);
    done(b, b->commit);
}

/* ---- add ------------------------------------------------------------------------------------- */

void bare_add(struct bare *b, const char *const *data, int n)
{
    enum { RECEIPT_HEAD = 3, RECEIPT_ENTRY = 9 };

    begin(b);
    for (int i = 0; i < n; i++) {
        sqlite3_stmt *st = stmt(b, SQ_SQL_job_insert);
        int64_t pos = ++b->col[BACK];
        int state = b->delay_ms > 0 ? EMQ_DELAYED : EMQ_WAITING;
        char id[24];
        int len = snprintf(id, sizeof id, "%lld", (long long)++b->col[LAST_ID]);
        const int64_t v[] = {
            state,      b->delay_ms > 0 ? b->now_ms + b->delay_ms : 0, pos, 0, 0, 0, 1, b->now_ms,
            b->delay_ms};
        (void)sqlite3_bind_int64(st, 1, b->qid);
        text(st, 2, id, len);
        ints(st, 3, 9, v);
        text(st, 12, "__default__", 11);
        text(st, 18, b->opts, b->opts_len);
        text(st, 19, data[i], -1);
        done(b, st);
        b->col[b->delay_ms > 0 ? N_DELAYED : N_WAITING]++;
        b->col[T_ADDED]++;
        event(b, "added", id, ",\"name\":\"__default__\"");
        event(b, b->delay_ms > 0 ? "delayed" : "waiting", id, "");
    }
    end(b, RECEIPT_HEAD + RECEIPT_ENTRY * n);
}

/* ---- settle, take ---------------------------------------------------------------------------- */

static void settle(struct bare *b, const struct bare_job *j)
{
    sqlite3_stmt *st = stmt(b, SQ_SQL_job_complete_owned);

    (void)sqlite3_bind_int64(st, 1, b->qid);
    text(st, 2, j->id, -1);
    (void)sqlite3_bind_int64(st, 3, j->fence);
    text(st, 4, b->worker, -1);
    (void)sqlite3_bind_int64(st, 5, b->now_ms);
    (void)sqlite3_bind_int64(st, 6, ++b->col[BACK]);
    (void)sqlite3_bind_int64(st, 7, b->keep_all ? 0 : b->now_ms + DAY_MS);
    (void)sqlite3_bind_int64(st, 8, 0);
    done(b, st);
    if (sqlite3_changes(b->db) != 1)
        die("bare: job %s is not ours", j->id);
    b->col[N_ACTIVE]--;
    b->col[N_COMPLETED]++;
    b->col[T_COMPLETED]++;
    event(b, "completed", j->id, ",\"returnvalue\":null,\"prev\":\"active\"");
}

static void retain(struct bare *b)
{
    int64_t want = b->col[N_COMPLETED] > KEEP ? b->col[N_COMPLETED] - KEEP : 0, n = 0;
    int64_t last[4] = {b->qid, EMQ_COMPLETED_STATE, 0, 0}, jid = 0;
    const int64_t ask[] = {b->qid, EMQ_COMPLETED_STATE, want + 1};
    sqlite3_stmt *st;

    if (b->keep_all)
        return;
    st = stmt(b, SQ_SQL_job_oldest);
    ints(st, 1, 3, ask);
    while (sqlite3_step(st) == SQLITE_ROW && n < want) {
        n++;
        jid = sqlite3_column_int64(st, 1);
        last[2] = sqlite3_column_int64(st, 4);
        last[3] = sqlite3_column_int64(st, 5);
    }
    (void)sqlite3_reset(
        st); /* the row behind them tells whether age removes more: it never does here */
    if (n == 0)
        return;
    st = stmt(b, n == 1 ? SQ_SQL_job_delete : SQ_SQL_job_delete_to);
    if (n == 1)
        ints(st, 1, 1, &jid);
    else
        ints(st, 1, 4, last);
    done(b, st);
    b->col[N_COMPLETED] -= n;
    b->col[T_REMOVED] += n;
}

static void due(struct bare *b, bool promote)
{
    sqlite3_stmt *st = stmt(b, promote ? SQ_SQL_job_due : SQ_SQL_job_next_due);
    const int64_t v[] = {b->qid, b->now_ms, 64};

    if (b->col[N_DELAYED] == 0)
        return;
    ints(st, 1, promote ? 3 : 1, v);
    (void)sqlite3_step(st);
    (void)sqlite3_reset(st);
}

/* The number in {"n":123...}, or the payload itself. */
static int64_t number_in(const char *data, int len)
{
    int at = len > 5 && data[0] == '{' ? 5 : 0;
    int64_t n = 0;

    for (; at < len && data[at] >= '0' && data[at] <= '9'; at++)
        n = n * 10 + data[at] - '0';
    return n;
}

static void take(struct bare *b, int n)
{
    sqlite3_stmt *st = stmt(b, SQ_SQL_job_line);
    const int64_t ask[] = {b->qid, EMQ_WAITING, INT64_MIN, INT64_MIN, INT64_MAX, n};
    int64_t lock_end = boot_ms() + LOCK_MS, ats[BARE_BATCH_MAX];

    ints(st, 1, 6, ask);
    while (b->n_hand < n && sqlite3_step(st) == SQLITE_ROW) {
        struct bare_job *j = &b->hand[b->n_hand];
        j->jid = sqlite3_column_int64(st, COL_JID);
        ats[b->n_hand] = sqlite3_column_int64(st, COL_ATTEMPTS_STARTED);
        (void)snprintf(j->id, sizeof j->id, "%s", (const char *)sqlite3_column_text(st, COL_ID));
        for (int c = 0; c < JOB_COLS; c++) /* all of a job is handed out */
            if (sqlite3_column_type(st, c) == SQLITE_INTEGER)
                (void)sqlite3_column_int64(st, c);
            else
                (void)sqlite3_column_blob(st, c);
        j->number =
            number_in(sqlite3_column_blob(st, COL_DATA), sqlite3_column_bytes(st, COL_DATA));
        b->n_hand++;
    }
    (void)sqlite3_reset(st);
    for (int i = 0; i < b->n_hand; i++) {
        struct bare_job *j = &b->hand[i];
        int64_t floor_us = b->now_ms * 1000;
        st = stmt(b, SQ_SQL_job_take);
        j->fence = b->col[FENCE] = b->col[FENCE] + 1 > floor_us ? b->col[FENCE] + 1 : floor_us;
        const int64_t v[] = {j->jid, j->fence, ats[i] + 1, lock_end, b->boot, 0, b->now_ms};
        ints(st, 1, 7, v);
        text(st, 8, b->worker, -1);
        done(b, st);
        b->col[N_WAITING]--;
        b->col[N_ACTIVE]++;
        b->col[T_STARTED]++;
        event(b, "active", j->id, ",\"prev\":\"waiting\"");
    }
}

int bare_turn(struct bare *b, int n)
{
    enum { RECEIPT_HEAD = 12, RECEIPT_SETTLED = 2, RECEIPT_TAKEN = 52 };
    int settled = b->n_hand;

    begin(b);
    for (int i = 0; i < settled; i++)
        settle(b, &b->hand[i]);
    b->n_hand = 0;
    if (settled > 0)
        retain(b);
    if (n > 0) {
        due(b, true);
        take(b, n);
        due(b, false);
    }
    end(b, RECEIPT_HEAD + RECEIPT_SETTLED * settled + RECEIPT_TAKEN * b->n_hand);
    return b->n_hand;
}

void bare_look(struct bare *b)
{
    queue_read(b);
}

/* ---- laps ------------------------------------------------------------------------------------ */

void bare_lap_add(const struct plan *p, struct lap *l, int index)
{
    struct bare *b = malloc(sizeof *b);
    char(*data)[DATA_BYTES + 1] = calloc((size_t)p->batch, sizeof *data);
    const char **list = calloc((size_t)p->batch, sizeof *list);

    if (!b || !data || !list)
        die("no memory");
    bare_open(b, p, index);
    lap_begin(l);
    for (int64_t i = 0; i < p->jobs;) {
        int n = p->jobs - i < p->batch ? (int)(p->jobs - i) : p->batch;
        for (int k = 0; k < n; k++)
            list[k] = job_data(data[k], i + k).ptr;
        bare_add(b, list, n);
        i += n;
    }
    lap_end(l, p->jobs, (p->jobs + p->batch - 1) / p->batch);
    bare_close(b);
}

void bare_lap_work(const struct plan *p, struct lap *l, int index)
{
    struct bare *b = malloc(sizeof *b);
    int64_t got = 0, acts = 0;

    if (!b)
        die("no memory");
    bare_open(b, p, index);
    lap_begin(l);
    do {
        int n = p->jobs - got < p->batch ? (int)(p->jobs - got) : p->batch;
        got += bare_turn(b, n);
        acts++;
    } while (b->n_hand > 0);
    lap_end(l, got, acts - 1);
    if (got != p->jobs)
        die("bare: %lld of %lld jobs", (long long)got, (long long)p->jobs);
    bare_close(b);
}

void bare_lap_by_hand(const struct plan *p, struct lap *l, int index)
{
    struct bare *b = malloc(sizeof *b);

    if (!b)
        die("no memory");
    bare_open(b, p, index);
    lap_begin(l);
    for (int64_t i = 0; i < p->jobs; i++) {
        (void)bare_turn(b, 1);
        (void)bare_turn(b, 0);
    }
    lap_end(l, p->jobs, p->jobs);
    bare_close(b);
}
