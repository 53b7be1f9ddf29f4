/* SPDX-License-Identifier: MIT
 *
 * The act `suspects`: what contradicts the schema. A walk over a queue reads its jobs in slices, then what
 * the queue's own row, its dedup ids and its stages say. Each slice is one snapshot, so that in a sound
 * store it finds nothing, whoever writes meanwhile.
 */
#include "engine/sqlite/fsck.h"

#include "base/error.h"
#include "base/str.h"
#include "model/duration.h"

enum { JOBS = 10000, SUSPECTS_MAX = 10000 };

static const struct sq_flaw flaws[] = {
    {"state", "its state is no state", "it goes to where its record says"},
    {"staged", "it is staged, but its stage is gone", "it goes into its line"},
    {"record", "its id, name, options, parent or creation time are not valid", NULL},
    {"data", "its data is gone or of no known kind: a take fails it and never runs it", NULL},
    {"side", "what it says of its payloads, logs, children or history is not what is there",
     "it says what is there"},
    {"line", "its priority is not one of the line that it stands in", "it changes the line"},
    {"owner", "it is active, but under no worker's token", "it goes back to the front of its line"},
    {"finished", "it is finished without the time of it, or not finished with one",
     "the time is corrected"},
    {"place", "its place is not one of its state", "its place is corrected"},
    {"twin", "another job has the same place", "it gets one of its own"},
    {"lock", "its lock never ends", "its lock ends now"},
    {"once", "it is held at-most-once, but would be run again", "it will not be run again"},
    {"held", "it is not active, but held", "it is not held"},
    {"reason", "it failed without a reason", "it gets one"},
    {"result", "its result is of no known kind", NULL},
    {"deferred", "it is finished, with a failure still to come", "the failure is dropped"},
    {"attempts", "its attempts contradict each other", "they are corrected"},
    {"stalled", "its lock has ended, and no sweep took it back",
     "it goes back to the front of its line"},
    {"parent", "it waits for children and has none to wait for", "it goes on"},
    {"child", "it waits for a child that is gone", "it waits no more for that one"},
    {"hidden", "the queue has jobs, but is marked as not there: it can't be seen", "it is there"},
    {"setting", "a setting is no number, and does nothing: set it anew", NULL},
    {"effect", "what is known of an effect is neither a claim nor an end", NULL},
    {"event", "events that readers can't read", "they are removed"},
    {"trigger", "a trigger changes what is written: drop it", NULL},
    {"schema", "an index or a view of the schema is gone", "it is made again"},
    {"counter", "a counter of the queue is wrong", "it is counted again"},
    {"dedup-owner", "a dedup id is held by a job that does not live",
     "it is released; a kept duplicate is added"},
    {"dedup-flag", "a dedup id says wrongly whether it keeps a duplicate", "it is corrected"},
    {"dedup-next", "a kept duplicate waits for a dedup id that nobody holds", "it is added"},
    {"stage", "a stage is gone, its jobs are not: nobody can publish them",
     "they go, as those of any stage that was not published"},
    {"old-stage", "a stage was never published and is past its end",
     "it goes, as sweeps remove such"},
    {"orphan", "rows belong to nothing", "they are removed"},
    {"lost-queue", "jobs belong to no queue", "they get a queue of their own"},
    {"file", "the file is damaged", NULL},
};

const struct sq_flaw *sq_flaw_of(emq_str name)
{
    for (size_t i = 0; i < EMQ_ARRAY_LEN(flaws); i++)
        if (emq__str_is(name, flaws[i].name))
            return &flaws[i];
    return NULL;
}

struct walk {
    const struct emq__suspects_req *req;
    struct emq__suspects_res *res;
    struct emq__arena *mem;
    size_t cap;
};

static emq_status add(struct walk *w, const char *flaw, emq_str id, emq_str key, emq_str detail,
                      emq_error *err)
{
    const struct sq_flaw *f = sq_flaw_of(emq_cstr(flaw));
    struct emq__suspect *list = sq_grow(w->mem, w->res->suspects, w->res->n, &w->cap, sizeof *list);
    emq_str text = detail.len ? emq__arena_printf(w->mem, "%s: %.*s", f->text, EMQ_STR_ARG(detail))
                              : emq_cstr(f->text);

    if (!list || !id.ptr || !key.ptr || !text.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "%zu suspects", w->res->n + 1);
    w->res->suspects = list;
    list[w->res->n++] = (struct emq__suspect){emq_cstr(f->name), id, key, text};
    return EMQ_OK;
}

/* Calls fn for each row. */
typedef emq_status (*row_fn)(struct walk *w, sqlite3_stmt *st, emq_error *err);
static emq_status each_row(struct sq_tx *tx, sqlite3_stmt *st, struct walk *w, row_fn fn,
                           emq_error *err)
{
    bool got;
    emq_status s = EMQ_OK;

    if (!st)
        return sq_no_stmt(err);
    while (s == EMQ_OK && w->res->n < SUSPECTS_MAX &&
           (s = sq_step(tx->conn, st, &got, "fsck", err)) == EMQ_OK && got)
        s = fn(w, st, err);
    sqlite3_reset(st);
    return s;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

emq_status sq_fsck_jobs(struct sq_tx *tx, int64_t qid, int64_t from, int64_t to, sqlite3_stmt **out,
                        emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_jobs, err);

    *out = st;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, qid);
    sq_bind_i64(st, 2, from);
    sq_bind_i64(st, 3, to);
    sq_bind_i64(st, 4, tx->boot_ms);
    sq_bind_i64(st, 5, sq_boot(tx->s));
    sq_bind_i64(st, 6, tx->boot_ms + EMQ__SPAN_MAX_MS);
    return EMQ_OK;
}

static emq_status job_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    return add(w, sq_flaw_of(sq_col_str(st, 2))->name, sq_col_copy(st, 1, w->mem),
               emq__arena_printf(w->mem, "job %lld", (long long)sq_col_i64(st, 0)), EMQ_STR_LIT(""),
               err);
}

/* The slice behind `from`; *last INT64_MAX: the end. */
static emq_status jobs(struct sq_tx *tx, int64_t qid, int64_t from, int64_t *last, struct walk *w,
                       emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_slice, err);
    bool more = false;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, from);
    sq_bind_i64(st, 2, JOBS - 1);
    emq_status s = sq_step(tx->conn, st, &more, "fsck", err);
    *last = s == EMQ_OK && more ? sq_col_i64(st, 0) : INT64_MAX;
    sqlite3_reset(st);
    if (s == EMQ_OK)
        s = sq_fsck_jobs(tx, qid, from + 1, *last, &st, err);
    return s == EMQ_OK ? each_row(tx, st, w, job_row, err) : s;
}

/* ---- the queue ------------------------------------------------------------------------------- */

static emq_status counter_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    emq_str name = sq_col_copy(st, 0, w->mem);

    return add(w, "counter", EMQ_STR_LIT(""),
               emq__arena_printf(w->mem, "counter %.*s", EMQ_STR_ARG(name)),
               emq__arena_printf(w->mem, "%.*s says %lld, it should be %lld", EMQ_STR_ARG(name),
                                 (long long)sq_col_i64(st, 1), (long long)sq_col_i64(st, 2)),
               err);
}

static emq_status dedup_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    emq_str id = sq_col_copy(st, 0, w->mem);

    return add(w, sq_flaw_of(sq_col_str(st, 2))->name, sq_col_copy(st, 1, w->mem),
               emq__arena_printf(w->mem, "dedup %.*s", EMQ_STR_ARG(id)), id, err);
}

static emq_status stage_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    return add(w, "stage", EMQ_STR_LIT(""),
               emq__arena_printf(w->mem, "stage %lld", (long long)sq_col_i64(st, 0)),
               emq__arena_printf(w->mem, "up to %lld jobs", (long long)sq_col_i64(st, 1)), err);
}

static emq_status queue_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    return add(w, sq_flaw_of(sq_col_str(st, 0))->name, sq_col_copy(st, 2, w->mem),
               sq_col_copy(st, 1, w->mem), sq_col_copy(st, 3, w->mem), err);
}

static emq_status rest(struct sq_tx *tx, int64_t qid, struct walk *w, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_counters, err);

    if (st)
        sq_bind_i64(st, 1, qid);
    emq_status s = each_row(tx, st, w, counter_row, err);
    if (s == EMQ_OK && (st = sq_stmt(tx->conn, SQ_SQL_fsck_queue, err)) != NULL)
        sq_bind_i64(st, 1, qid);
    if (s == EMQ_OK)
        s = each_row(tx, st, w, queue_row, err);
    if (s == EMQ_OK && (st = sq_stmt(tx->conn, SQ_SQL_fsck_dedup, err)) != NULL) {
        sq_bind_i64(st, 1, qid);
        sq_bind_text(st, 2, EMQ_STR_LIT(""));
        sq_bind_text(st, 3, EMQ_STR_LIT("\xf4\x8f\xbf\xbf")); /* behind every text */
    }
    if (s == EMQ_OK)
        s = each_row(tx, st, w, dedup_row, err);
    if (s == EMQ_OK && (st = sq_stmt(tx->conn, SQ_SQL_fsck_stages, err)) != NULL) {
        sq_bind_i64(st, 1, qid);
        sq_bind_i64(st, 2, INT64_MIN);
        sq_bind_i64(st, 3, INT64_MAX);
    }
    return s == EMQ_OK ? each_row(tx, st, w, stage_row, err) : s;
}

/* ---- the store --------------------------------------------------------------------------------- */

static emq_status orphan_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    emq_str table = sq_col_copy(st, 0, w->mem);
    long long number = (long long)sq_col_i64(st, 1), n = (long long)sq_col_i64(st, 2);
    bool lost = emq__str_is(table, "emq_job");

    return add(
        w, lost ? "lost-queue" : "orphan", EMQ_STR_LIT(""),
        emq__arena_printf(w->mem, "%.*s %lld", EMQ_STR_ARG(table), number),
        emq__arena_printf(w->mem, "%lld in %.*s, number %lld", n, EMQ_STR_ARG(table), number), err);
}

static emq_status old_stage_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    return add(w, "old-stage", EMQ_STR_LIT(""),
               emq__arena_printf(w->mem, "old %lld", (long long)sq_col_i64(st, 0)),
               emq__arena_printf(w->mem, "%lld jobs", (long long)sq_col_i64(st, 2)), err);
}

static emq_status trigger_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    emq_str name = sq_col_copy(st, 0, w->mem);

    return add(w, "trigger", EMQ_STR_LIT(""),
               emq__arena_printf(w->mem, "trigger %.*s", EMQ_STR_ARG(name)),
               emq__arena_printf(w->mem, "%.*s on %.*s", EMQ_STR_ARG(name),
                                 EMQ_STR_ARG(sq_col_str(st, 1))),
               err);
}

static emq_status missing(struct sq_tx *tx, struct walk *w, emq_error *err)
{
    struct sq_missing list[SQ_MISSING_MAX];
    size_t n;
    emq_status s = sq_fsck_missing(tx, w->mem, list, &n, err);

    for (size_t i = 0; s == EMQ_OK && i < n; i++)
        s = add(w, "schema", EMQ_STR_LIT(""),
                emq__arena_printf(w->mem, "schema %.*s", EMQ_STR_ARG(list[i].name)), list[i].name,
                err);
    return s;
}

static emq_status file_row(struct walk *w, sqlite3_stmt *st, emq_error *err)
{
    emq_str says = sq_col_copy(st, 0, w->mem);

    return emq__str_is(says, "ok")
               ? EMQ_OK
               : add(w, "file", EMQ_STR_LIT(""), EMQ_STR_LIT("file"), says, err);
}

static emq_status store(struct sq_tx *tx, struct walk *w, emq_error *err)
{
    emq_status s = each_row(tx, sq_stmt(tx->conn, SQ_SQL_fsck_orphans, err), w, orphan_row, err);
    sqlite3_stmt *st = s == EMQ_OK ? sq_stmt(tx->conn, SQ_SQL_fsck_old_stages, err) : NULL;

    if (st)
        sq_bind_i64(st, 1, tx->now_ms - SQ_STAGE_OLD_MS);
    if (s == EMQ_OK)
        s = each_row(tx, st, w, old_stage_row, err);
    if (s == EMQ_OK)
        s = each_row(tx, sq_stmt(tx->conn, SQ_SQL_fsck_triggers, err), w, trigger_row, err);
    if (s == EMQ_OK)
        s = missing(tx, w, err);
    return s == EMQ_OK ? each_row(tx, sq_stmt(tx->conn, SQ_SQL_fsck_file, err), w, file_row, err)
                       : s;
}

/* ---- the act ------------------------------------------------------------------------------------- */

static emq_status suspects_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct walk *w = arg;
    bool jobs_done = emq__str_is(w->req->after, "rest");
    int64_t from = 0, last = INT64_MAX;
    struct sq_queue q;

    w->cap = 0;
    *w->res = (struct emq__suspects_res){.now_ms = tx->now_ms};
    if (w->req->queue.len == 0)
        return store(tx, w, err);
    (void)emq__str_to_i64(w->req->after, &from);
    emq_status s = sq_queue_open_unseen(tx, w->req->prefix, w->req->queue, &q, err);
    if (s == EMQ_OK && jobs_done)
        s = rest(tx, q.qid, w, err);
    else if (s == EMQ_OK)
        s = jobs(tx, q.qid, from, &last, w, err);
    sq_queue_close(&q);
    if (s == EMQ_NOT_FOUND)
        return EMQ_OK;
    if (s == EMQ_OK && !jobs_done)
        w->res->next = last == INT64_MAX ? EMQ_STR_LIT("rest")
                                         : emq__arena_printf(w->mem, "%lld", (long long)last);
    if (s == EMQ_OK && !jobs_done && !w->res->next.ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, "fsck", "cursor");
    return s;
}

emq_status sq_act_suspects(struct emq__engine *e, const struct emq__suspects_req *req,
                           struct emq__suspects_res *res, struct emq__arena *mem, emq_error *err)
{
    struct walk w = {.req = req, .res = res, .mem = mem};

    return sq_read((struct sq *)e, suspects_fn, &w, err);
}
