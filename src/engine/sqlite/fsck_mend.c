/* SPDX-License-Identifier: MIT
 *
 * The act `mend`: looks at one suspect again, by the statement that found it, and repairs it in the same
 * transaction.
 */
#include "engine/sqlite/fsck.h"
#include "engine/sqlite/stage.h"
#include "engine/sqlite/stall.h"

#include "base/error.h"
#include "base/str.h"

struct mend {
    const struct emq__mend_req *req;
    struct emq__mend_res *res;
    struct emq__arena *mem;
    emq_str word, rest; /* of the key: its first word, what is behind it */
    int64_t number;
};

/* Does the first row, if any, tell of this flaw? Column -1: any row does. */
static emq_status tells(struct sq_tx *tx, sqlite3_stmt *st, int column, emq_str value, bool *yes,
                        emq_error *err)
{
    bool got;
    emq_status s = EMQ_OK;

    *yes = false;
    if (!st)
        return sq_no_stmt(err);
    while (!*yes && (s = sq_step(tx->conn, st, &got, "fsck", err)) == EMQ_OK && got)
        *yes = column < 0 || emq__str_eq(sq_col_str(st, column), value);
    sqlite3_reset(st);
    return s;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static emq_status run(struct sq_tx *tx, enum sq_sql sql, int64_t jid, int64_t second,
                      emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    if (sqlite3_bind_parameter_count(st) > 1)
        sq_bind_i64(st, 2, second);
    return sq_exec(tx->conn, st, "repair", err);
}

/* A statement that answers the job's new state; from 0: nobody knows where it was counted, the counters are
 * looked at by themselves. */
static emq_status move(struct sq_tx *tx, struct sq_queue *q, enum sq_sql sql, int64_t jid, int from,
                       emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);
    bool got = false;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, jid);
    if (sqlite3_bind_parameter_count(st) > 1)
        sq_bind_i64(st, 2, ++q->back);
    emq_status s = sq_step(tx->conn, st, &got, "repair", err);
    int to = got ? (int)sq_col_i64(st, 0) : 0;
    sqlite3_reset(st);
    if (s != EMQ_OK || !got)
        return s;
    if (from) {
        sq_count(q, from, -1);
        sq_count(q, to, 1);
    }
    q->dirty = q->wake = true;
    return EMQ_OK;
}

/* Back to the front of its line; `stalled`: as a sweep does it. */
static emq_status take_back(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                            bool stalled, emq_error *err)
{
    struct sq_row row;
    bool gone;
    emq_status s = sq_row_get(tx, q, m->req->suspect->id, m->mem, &row, err);

    if (s != EMQ_OK)
        return s;
    if (stalled)
        return sq_stall(tx, q, &row, INT64_MAX, EMQ_STR_LIT(""), NULL, &gone, m->mem, err);
    struct sq_requeue to = sq_requeue_of(&row);
    to.front = true;
    s = sq_row_requeue(tx, q, &row, &to, err);
    if (s == EMQ_OK)
        sq_requeue_event(q, &row, "active");
    return s;
}

/* A parent with none to wait for goes on, as after its last child. */
static emq_status go_on(struct sq_tx *tx, struct sq_queue *q, const struct mend *m, emq_error *err)
{
    struct sq_row row;
    emq_status s = sq_row_get(tx, q, m->req->suspect->id, m->mem, &row, err);

    if (s != EMQ_OK)
        return s;
    struct sq_requeue to = sq_requeue_of(&row);
    to.delay_ms = row.delay_ms;
    to.front = row.priority == 0;
    s = sq_row_requeue(tx, q, &row, &to, err);
    if (s == EMQ_OK)
        sq_requeue_event(q, &row, "waiting-children");
    return s;
}

static emq_status forget_children(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                                  emq_error *err)
{
    sqlite3_stmt *st;
    bool none = false;
    emq_status s = run(tx, SQ_SQL_fsck_forget_children, m->number, 0, err);

    if (s == EMQ_OK)
        s = run(tx, SQ_SQL_mend_side, m->number, 0, err);
    if (s == EMQ_OK)
        s = sq_fsck_jobs(tx, q->qid, m->number, m->number, &st, err);
    if (s == EMQ_OK)
        s = tells(tx, st, 2, EMQ_STR_LIT("parent"), &none, err);
    return s == EMQ_OK && none ? go_on(tx, q, m, err) : s;
}

static emq_status repair_job(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                             emq_error *err)
{
    static const struct {
        const char *flaw;
        enum sq_sql sql;
    } plain[] = {{"side", SQ_SQL_mend_side},        {"finished", SQ_SQL_mend_finished},
                 {"place", SQ_SQL_mend_place},      {"lock", SQ_SQL_mend_lock},
                 {"once", SQ_SQL_mend_once},        {"held", SQ_SQL_mend_held},
                 {"reason", SQ_SQL_mend_reason},    {"deferred", SQ_SQL_mend_deferred},
                 {"attempts", SQ_SQL_mend_attempts}};
    emq_str flaw = m->req->suspect->flaw;
    struct sq_row row;

    for (size_t i = 0; i < EMQ_ARRAY_LEN(plain); i++)
        if (emq__str_is(flaw, plain[i].flaw))
            return run(tx, plain[i].sql, m->number, tx->now_ms, err);
    if (emq__str_is(flaw, "twin")) {
        q->dirty = true;
        return run(tx, SQ_SQL_mend_twin, m->number, ++q->back, err);
    }
    if (emq__str_is(flaw, "state") || emq__str_is(flaw, "staged"))
        return move(tx, q, SQ_SQL_mend_state, m->number, 0, err);
    if (emq__str_is(flaw, "line")) {
        emq_status s = sq_row_get(tx, q, m->req->suspect->id, m->mem, &row, err);
        return s == EMQ_OK ? move(tx, q, SQ_SQL_mend_line, m->number, row.state, err) : s;
    }
    if (emq__str_is(flaw, "parent"))
        return go_on(tx, q, m, err);
    if (emq__str_is(flaw, "child"))
        return forget_children(tx, q, m, err);
    return take_back(tx, q, m, emq__str_is(flaw, "stalled"), err);
}

static emq_status look_job(struct sq_tx *tx, const struct sq_queue *q, const struct mend *m,
                           bool *broken, emq_error *err)
{
    sqlite3_stmt *st;
    emq_status s = sq_fsck_jobs(tx, q->qid, m->number, m->number, &st, err);

    return s == EMQ_OK ? tells(tx, st, 2, m->req->suspect->flaw, broken, err) : s;
}

/* ---- the queue ------------------------------------------------------------------------------- */

/* The columns are those of the statement that looks. */
static emq_status repair_counter(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                                 emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_counters, err);
    char sql[160] = "";
    bool got;
    emq_status s = EMQ_OK;

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    while (!sql[0] && (s = sq_step(tx->conn, st, &got, "repair", err)) == EMQ_OK && got)
        if (emq__str_eq(sq_col_str(st, 0), m->rest))
            (void)snprintf(sql, sizeof sql, "UPDATE emq_queue SET %.*s = %lld WHERE qid = %lld",
                           EMQ_STR_ARG(m->rest), (long long)sq_col_i64(st, 2), (long long)q->qid);
    sqlite3_reset(st);
    if (s != EMQ_OK || !sql[0])
        return s;
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "repair", err);
}

static emq_status look_counter(struct sq_tx *tx, const struct sq_queue *q, const struct mend *m,
                               bool *broken, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_counters, err);

    if (st)
        sq_bind_i64(st, 1, q->qid);
    return tells(tx, st, 0, m->rest, broken, err);
}

static emq_status look_queue(struct sq_tx *tx, const struct sq_queue *q, const struct mend *m,
                             bool *broken, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_queue, err);

    if (st)
        sq_bind_i64(st, 1, q->qid);
    return tells(tx, st, 1, m->req->suspect->key, broken, err);
}

static emq_status repair_hidden(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                                emq_error *err)
{
    (void)tx, (void)m, (void)err;
    q->visible = q->dirty = q->wake = true;
    return EMQ_OK;
}

/* "ms seq" */
static emq_status repair_event(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                               emq_error *err)
{
    size_t at = emq__skip_digits(m->rest, 0);
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_mend_event, err);
    int64_t ms = 0, seq = 0;

    if (!st)
        return sq_no_stmt(err);
    if (emq__str_to_i64(emq_strn(m->rest.ptr, at), &ms) && at < m->rest.len)
        (void)emq__str_to_i64(emq_strn(m->rest.ptr + at + 1, m->rest.len - at - 1), &seq);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_i64(st, 2, ms);
    sq_bind_i64(st, 3, seq);
    return sq_exec(tx->conn, st, "repair", err);
}

static emq_status look_dedup(struct sq_tx *tx, const struct sq_queue *q, const struct mend *m,
                             bool *broken, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_dedup, err);

    if (st) {
        sq_bind_i64(st, 1, q->qid);
        sq_bind_text(st, 2, m->rest);
        sq_bind_text(st, 3, m->rest);
    }
    return tells(tx, st, 2, m->req->suspect->flaw, broken, err);
}

static emq_status repair_dedup(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                               emq_error *err)
{
    if (!emq__str_is(m->req->suspect->flaw, "dedup-flag"))
        return sq_dedup_next_add(tx, q, m->rest, m->mem, err);
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_mend_dedup_flag, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, q->qid);
    sq_bind_text(st, 2, m->rest);
    return sq_exec(tx->conn, st, "repair", err);
}

static emq_status look_stage(struct sq_tx *tx, const struct sq_queue *q, const struct mend *m,
                             bool *broken, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_stages, err);

    if (st) {
        sq_bind_i64(st, 1, q->qid);
        sq_bind_i64(st, 2, m->number);
        sq_bind_i64(st, 3, m->number);
    }
    return tells(tx, st, -1, m->rest, broken, err);
}

static emq_status repair_stage(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                               emq_error *err)
{
    (void)q;
    return run(tx, SQ_SQL_mend_stage, m->number, tx->now_ms - SQ_STAGE_LIFE_MS, err);
}

/* ---- the store --------------------------------------------------------------------------------- */

static const char *key_column(emq_str table)
{
    static const char *const of_jobs[] = {"emq_data", "emq_result", "emq_log", "emq_dependency",
                                          "emq_history"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(of_jobs); i++)
        if (emq__str_is(table, of_jobs[i]))
            return "jid";
    return "qid";
}

static emq_status repair_orphan(struct sq_tx *tx, const struct mend *m, emq_error *err)
{
    char sql[200], name[40];
    const char *column = key_column(m->word);

    if (emq__str_is(m->req->suspect->flaw, "lost-queue")) {
        sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_mend_queue, err);
        if (!st)
            return sq_no_stmt(err);
        (void)snprintf(name, sizeof name, "lost-%lld", (long long)m->number);
        sq_bind_i64(st, 1, m->number);
        sq_bind_text(st, 2, m->req->prefix);
        sq_bind_text(st, 3, emq_cstr(name));
        return sq_exec(tx->conn, st, "repair", err);
    }
    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM %.*s WHERE %s = %lld AND %s NOT IN (SELECT %s FROM %s)",
                   EMQ_STR_ARG(m->word), column, (long long)m->number, column, column,
                   column[0] == 'j' ? "emq_job" : "emq_queue");
    int rc = sqlite3_exec(tx->conn->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "repair", err);
}

static emq_status look_orphan(struct sq_tx *tx, const struct mend *m, bool *broken, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_orphans, err);
    bool got;
    emq_status s = EMQ_OK;

    *broken = false;
    if (!st)
        return sq_no_stmt(err);
    while (!*broken && (s = sq_step(tx->conn, st, &got, "fsck", err)) == EMQ_OK && got)
        *broken = emq__str_eq(sq_col_str(st, 0), m->word) && sq_col_i64(st, 1) == m->number;
    sqlite3_reset(st);
    return s;
}

static emq_status look_old_stage(struct sq_tx *tx, const struct mend *m, bool *broken,
                                 emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_fsck_old_stages, err);
    bool got;
    emq_status s = EMQ_OK;

    *broken = false;
    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, tx->now_ms - SQ_STAGE_OLD_MS);
    while (!*broken && (s = sq_step(tx->conn, st, &got, "fsck", err)) == EMQ_OK && got)
        *broken = sq_col_i64(st, 0) == m->number;
    sqlite3_reset(st);
    return s;
}

/* A slice: the next look finds what is left. */
static emq_status repair_old_stage(struct sq_tx *tx, emq_error *err)
{
    bool more;

    return sq_stage_expire(tx, &more, err);
}

static emq_status mend_schema(struct sq_tx *tx, const struct mend *m, bool repairs, bool *broken,
                              emq_error *err)
{
    struct sq_missing list[SQ_MISSING_MAX];
    size_t n, i = 0;
    emq_status s = sq_fsck_missing(tx, m->mem, list, &n, err);

    *broken = false;
    if (s != EMQ_OK)
        return s;
    while (i < n && !emq__str_eq(list[i].name, m->rest))
        i++;
    *broken = i < n;
    if (!*broken || !repairs)
        return EMQ_OK;
    int rc = sqlite3_exec(tx->conn->db, list[i].sql.ptr, NULL, NULL, NULL);
    return rc == SQLITE_OK ? EMQ_OK : sq_error(tx->conn, rc, "repair", err);
}

static emq_status mend_store(struct sq_tx *tx, const struct mend *m, bool repairs, bool *broken,
                             emq_error *err)
{
    emq_str flaw = m->req->suspect->flaw;
    emq_status s;

    if (emq__str_is(flaw, "file")) {
        s = tells(tx, sq_stmt(tx->conn, SQ_SQL_fsck_file, err), 0, EMQ_STR_LIT("ok"), broken, err);
        *broken = !*broken;
        return s;
    }
    if (emq__str_is(flaw, "trigger"))
        return tells(tx, sq_stmt(tx->conn, SQ_SQL_fsck_triggers, err), 0, m->rest, broken, err);
    if (emq__str_is(flaw, "schema"))
        return mend_schema(tx, m, repairs, broken, err);
    if (emq__str_is(flaw, "old-stage")) {
        s = look_old_stage(tx, m, broken, err);
        return s == EMQ_OK && *broken && repairs ? repair_old_stage(tx, err) : s;
    }
    s = look_orphan(tx, m, broken, err);
    return s == EMQ_OK && *broken && repairs ? repair_orphan(tx, m, err) : s;
}

/* ---- the act ------------------------------------------------------------------------------------- */

static emq_status mend_queue(struct sq_tx *tx, struct sq_queue *q, const struct mend *m,
                             bool repairs, bool *broken, emq_error *err)
{
    static const struct {
        const char *word;
        emq_status (*look)(struct sq_tx *, const struct sq_queue *, const struct mend *, bool *,
                           emq_error *);
        emq_status (*repair)(struct sq_tx *, struct sq_queue *, const struct mend *, emq_error *);
    } kinds[] = {{"job ", look_job, repair_job},        {"counter ", look_counter, repair_counter},
                 {"hidden", look_queue, repair_hidden}, {"setting ", look_queue, NULL},
                 {"effect ", look_queue, NULL},         {"event ", look_queue, repair_event},
                 {"dedup ", look_dedup, repair_dedup},  {"stage ", look_stage, repair_stage}};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(kinds); i++) {
        if (!emq__str_starts(m->req->suspect->key, kinds[i].word))
            continue;
        emq_status s = kinds[i].look(tx, q, m, broken, err);
        return s == EMQ_OK && *broken && repairs ? kinds[i].repair(tx, q, m, err) : s;
    }
    return EMQ_OK;
}

static emq_status mend_fn(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct mend *m = arg;
    const struct sq_flaw *f = sq_flaw_of(m->req->suspect->flaw);
    bool broken = false, repairs = m->req->repair && f && f->remedy;
    struct sq_queue q = {0};
    emq_status s;

    *m->res = (struct emq__mend_res){.now_ms = tx->now_ms, .outcome = EMQ__MEND_HEALTHY};
    if (!f)
        return EMQ_OK;
    if (m->req->queue.len == 0) {
        s = mend_store(tx, m, repairs, &broken, err);
    } else {
        s = sq_queue_open_unseen(tx, m->req->prefix, m->req->queue, &q, err);
        if (s == EMQ_OK)
            s = mend_queue(tx, &q, m, repairs, &broken, err);
        if (s == EMQ_OK && tx->write)
            s = sq_queue_save(tx, &q, err);
        sq_queue_close(&q);
        if (s == EMQ_NOT_FOUND)
            s = EMQ_OK;
    }
    if (s != EMQ_OK || !broken)
        return s;
    m->res->outcome = repairs ? EMQ__MEND_REPAIRED : EMQ__MEND_BROKEN;
    m->res->remedy = emq_cstr(f->remedy);
    m->res->waits = emq__str_is(m->req->suspect->flaw, "stalled");
    return EMQ_OK;
}

emq_status sq_act_mend(struct emq__engine *e, const struct emq__mend_req *req,
                       struct emq__mend_res *res, struct emq__arena *mem, emq_error *err)
{
    struct mend m = {.req = req, .res = res, .mem = mem, .rest = req->suspect->key};
    const char *space = m.rest.len ? memchr(m.rest.ptr, ' ', m.rest.len) : NULL;

    if (space) {
        size_t head = (size_t)(space + 1 - m.rest.ptr);
        m.word = emq_strn(m.rest.ptr, head - 1);
        m.rest = emq_strn(m.rest.ptr + head, m.rest.len - head);
        (void)emq__str_to_i64(m.rest, &m.number);
    }
    return req->repair ? sq_write((struct sq *)e, mend_fn, &m, err)
                       : sq_read((struct sq *)e, mend_fn, &m, err);
}
