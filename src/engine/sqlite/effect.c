/* SPDX-License-Identifier: MIT
 *
 * The transactional effect: a function of the application between the look at the lock and the settlement, in
 * one transaction.
 *
 * The one invariant: what the function changes is committed with the completion of its job, or not at all. So
 * it can neither end the transaction nor touch the queue: an authorizer refuses both, and a commit hook
 * what SQLite itself would commit after it has rolled the transaction back.
 */
#include "engine/sqlite/effect.h"

#include "base/error.h"
#include "base/str.h"
#include "engine/sqlite/effect_bounds.h"
#include "engine/sqlite/marker.h"
#include "engine/sqlite/settle.h"

#include <strings.h>

struct effect {
    const struct emq__effect_req *req;
    struct emq__effect_res *res;
    struct emq__arena *mem;
    int (*fn)(sqlite3 *db, void *arg);
    void *arg;
    int64_t limit_ms;
    /* while fn runs, and of how it ended */
    int64_t end_us;
    bool ran, alters;
    emq_status outcome;   /* EMQ_FAILED, EMQ_TIMEOUT: rolled back */
    char refused[80];     /* what it asked for and may not have; empty = nothing */
    struct sq_bounds was; /* in force before */
};

static const char where[] = "effect";

/* ---- what fn may do ------------------------------------------------------------------------------- */

static bool is_ours(const char *name)
{
    return name && strncasecmp(name, "emq_", 4) == 0;
}

/* What it asks for, when that is refused; NULL: it may. */
static const char *refuses(int action, const char *a, const char *b, const char **name)
{
    *name = a;
    switch (action) {
    case SQLITE_TRANSACTION: return ""; /* its name is BEGIN, COMMIT or ROLLBACK */
    case SQLITE_SAVEPOINT: return "a savepoint, ";
    case SQLITE_ATTACH: return "ATTACH ";
    case SQLITE_DETACH: return "DETACH ";
    case SQLITE_PRAGMA: return "PRAGMA ";
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW: return "something temporary, "; /* it would outlive the effect */
    case SQLITE_FUNCTION: return NULL;
    case SQLITE_READ:
    case SQLITE_UPDATE: b = NULL; break; /* a column */
    default: break;
    }
    if (!is_ours(a) && is_ours(b))
        *name = b;
    return is_ours(*name) ? "the queue's " : NULL;
}

static int authorize(void *arg, int action, const char *a, const char *b, const char *db,
                     const char *trigger)
{
    struct effect *f = arg;
    const char *name, *what = refuses(action, a, b, &name);

    (void)db, (void)trigger;
    f->alters = f->alters || action == SQLITE_ALTER_TABLE;
    if (!what)
        return SQLITE_OK;
    if (!f->refused[0])
        (void)snprintf(f->refused, sizeof f->refused, "%s%s", what, name ? name : "");
    return SQLITE_DENY;
}

static bool is_late(const struct effect *f)
{
    return emq__mono_now().us >= f->end_us;
}

static int on_progress(void *arg)
{
    return is_late(arg);
}

/* Not zero: what would be committed is rolled back. */
static int on_commit(void *arg)
{
    (void)arg;
    return 1;
}

/* How many tables, indexes, … have a name of ours: a rename does not tell the authorizer the new one. */
static emq_status count_ours(struct sq_conn *c, int64_t *n, emq_error *err)
{
    bool row = false;
    sqlite3_stmt *st = sq_stmt(c, SQ_SQL_schema_ours, err);

    if (!st)
        return sq_no_stmt(err);
    emq_status s = sq_step(c, st, &row, where, err);
    *n = row ? sq_col_i64(st, 0) : 0;
    (void)sqlite3_reset(st);
    return s;
}

/* ---- running it ----------------------------------------------------------------------------------- */

static void guard(sqlite3 *db, struct effect *f)
{
    enum { EACH_STATEMENT = 1 }; /* and each turn of its loops: many short ones take long, too */

    (void)sqlite3_set_authorizer(db, authorize, f);
    sqlite3_progress_handler(db, EACH_STATEMENT, on_progress, f);
    (void)sqlite3_commit_hook(db, on_commit, NULL);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 1, (int *)NULL);
    f->was = sq_bounds_begin(db);
}

/* Its foreign keys hold? Only while they are looked at. */
static bool unguard(sqlite3 *db, const struct effect *f)
{
    int open_keys = 0, high;

    sq_bounds_end(db, f->was);
    (void)sqlite3_db_status(db, SQLITE_DBSTATUS_DEFERRED_FKS, &open_keys, &high, 0);
    (void)sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, 0, (int *)NULL);
    (void)sqlite3_commit_hook(db, NULL, NULL);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    (void)sqlite3_set_authorizer(db, NULL, NULL);
    for (sqlite3_stmt *st = sqlite3_next_stmt(db, NULL); st; st = sqlite3_next_stmt(db, st))
        if (sqlite3_stmt_busy(st)) /* one that fn has left: it would keep the transaction open */
            (void)sqlite3_reset(st);
    return open_keys == 0;
}

/* Any failure rolls all of it back. */
static emq_status roll_back(struct effect *f, emq_status outcome, emq_error *err)
{
    f->outcome = outcome;
    return emq__fail(err, EMQ_E_STORE, 0, where, "rolled back");
}

static emq_status run_fn(struct sq_tx *tx, struct effect *f, emq_error *err)
{
    sqlite3 *db = tx->conn->db;
    int64_t before, after;
    emq_status s = count_ours(tx->conn, &before, err);

    if (s != EMQ_OK)
        return s;
    f->ran = true;
    f->end_us = emq__mono_now().us + f->limit_ms * 1000;
    guard(db, f);
    int answer = f->fn(db, f->arg);
    int code = sqlite3_errcode(db) & 0xff;
    const char *bound = answer != 0 ? sq_bounds_met(db) : NULL;
    bool late = is_late(f), keys_hold = unguard(db, f);

    if (f->refused[0])
        return emq__fail(err, EMQ_E_INVALID, SQLITE_AUTH, where,
                         "the effect asked for %s: it may only use the application's own tables, "
                         "and its transaction is not its own; nothing was changed",
                         f->refused);
    if (bound)
        return emq__fail(err, EMQ_E_INVALID, code, where,
                         "the effect asked for %s, which may take long, and nobody else can write "
                         "meanwhile: let its handler do that before it; nothing was changed",
                         bound);
    if (late)
        return roll_back(f, EMQ_TIMEOUT, err);
    if (answer != 0 && (code == SQLITE_FULL || code == SQLITE_IOERR || code == SQLITE_NOMEM))
        return sq_error(tx->conn, code, where, err);
    if (answer != 0)
        return roll_back(f, EMQ_FAILED, err);
    if (sqlite3_get_autocommit(db))
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "a statement of the effect rolled the transaction back (OR ROLLBACK), and "
                         "its function did not say so; nothing was changed");
    if (!keys_hold)
        return emq__fail(err, EMQ_E_INVALID, SQLITE_CONSTRAINT_FOREIGNKEY, where,
                         "the effect leaves a row whose foreign key names nothing; nothing was "
                         "changed");
    s = f->alters ? count_ours(tx->conn, &after, err) : EMQ_OK;
    if (s == EMQ_OK && f->alters && after != before)
        s = emq__fail(err, EMQ_E_INVALID, SQLITE_AUTH, where,
                      "the effect gave a table a name that begins with emq_: these are the "
                      "queue's; nothing was changed");
    return s;
}

/* ---- the act -------------------------------------------------------------------------------------- */

/* The owner's job, whose effect is not known to be done: does it, and makes that known. */
static emq_status do_effect(struct sq_tx *tx, const struct sq_queue *q, struct effect *f,
                            emq_error *err)
{
    const struct emq__settle_entry *en = f->req->entry;
    struct sq_row row;
    struct emq__marker m;
    emq_status s = sq_row_get(tx, q, en->id, f->mem, &row, err);

    if (s != EMQ_OK || row.state != EMQ_ACTIVE || !sq_row_token_is(&row, en->auth.token))
        return s == EMQ_NOT_FOUND ? EMQ_OK : s; /* the settlement says so */
    s = sq_marker_get(tx, q, &row, f->req->step, f->mem, &m, err);
    if (emq__is_failure(s) || (s == EMQ_OK && m.state == SQ_MARKER_DONE))
        return s;
    if (s == EMQ_NOT_FOUND)
        m = (struct emq__marker){.id = row.id,
                                 .step = f->req->step,
                                 .timestamp_at_ms = row.timestamp_at_ms,
                                 .claimed_at_ms = tx->now_ms};
    m.state = SQ_MARKER_DONE;
    m.token = en->auth.token;
    m.done_at_ms = tx->now_ms;
    m.expires_at_ms = emq__sat_add(tx->now_ms, f->req->keep_ms);
    m.result = en->value;
    s = run_fn(tx, f, err);
    return s == EMQ_OK ? sq_marker_put(tx, q, &m, err) : s;
}

static emq_status remember(struct sq_tx *tx, const struct effect *f, emq_error *err)
{
    struct emq__buf b;

    if (f->req->call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, 64);
    sq_put_i64(&b, f->res->outcome);
    sq_put_i64(&b, f->res->state);
    emq_status s =
        b.failed ? emq__fail(err, b.failed, 0, where, "receipt")
                 : sq_receipt_store(tx, f->req->call, SQ_RECEIPT_EFFECT, emq__buf_view(&b), err);
    emq__buf_free(&b);
    return s;
}

static emq_status effect_act(struct sq_tx *tx, void *arg, emq_error *err)
{
    struct effect *f = arg;
    struct sq_queue q;
    struct emq__settled out = {.outcome = EMQ_NOT_FOUND};
    emq_str body;

    f->outcome = EMQ_OK; /* it may be run again from the start */
    f->ran = f->alters = false;
    f->refused[0] = '\0';
    *f->res = (struct emq__effect_res){.now_ms = tx->now_ms};
    emq_status s = sq_receipt_find(tx, f->req->call, SQ_RECEIPT_EFFECT, f->mem, &body, err);
    if (s == EMQ_OK) {
        struct sq_reader r = sq_reader_of(body);
        f->res->outcome = (emq_status)sq_get_i64(&r);
        f->res->state = (int)sq_get_i64(&r);
        return r.bad ? emq__fail(err, EMQ_E_CORRUPT, 0, where, "the stored receipt is damaged")
                     : EMQ_OK;
    }
    if (s != EMQ_NOT_FOUND)
        return s;
    s = sq_queue_open(tx, f->req->prefix, f->req->queue, false, &q, err);
    if (s == EMQ_OK)
        s = do_effect(tx, &q, f, err);
    if (s == EMQ_OK)
        s = sq_settle(tx, &q, f->req->entry, &out, f->mem, err);
    if (s == EMQ_OK && f->ran && out.outcome != EMQ_OK)
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "the effect went around its guard and changed the queue, so that its job "
                      "can't be completed (%s); nothing was changed",
                      emq_status_text(out.outcome));
    if (s == EMQ_OK)
        s = sq_queue_save(tx, &q, err);
    sq_queue_close(&q);
    f->res->outcome = out.outcome;
    f->res->state = out.state;
    return emq__is_failure(s) ? s : remember(tx, f, err);
}

static emq_status check(const struct emq__effect_req *req, int64_t limit_ms, emq_error *err)
{
    if (req->entry->kind != EMQ__SETTLE_COMPLETED || req->entry->auth.token.len == 0)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "it ends a job as completed, by its owner's token");
    if (limit_ms < 1 || req->keep_ms < 1)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "a limit of %lld ms, kept for %lld ms; each is at least 1",
                         (long long)limit_ms, (long long)req->keep_ms);
    return EMQ_OK;
}

emq_status emq__sqlite_effect(struct emq__engine *e, const struct emq__effect_req *req,
                              int (*fn)(sqlite3 *db, void *arg), void *arg, int64_t limit_ms,
                              struct emq__effect_res *res, struct emq__arena *mem, emq_error *err)
{
    struct effect f = {
        .req = req, .res = res, .mem = mem, .fn = fn, .arg = arg, .limit_ms = limit_ms};
    emq_error mine = {0};

    *res = (struct emq__effect_res){0};
    if (check(req, limit_ms, err) != EMQ_OK)
        return EMQ_E_INVALID;
    emq_status s = sq_write_effect((struct sq *)e, effect_act, &f, &mine);
    if (s < 0 && f.outcome != EMQ_OK) {
        res->outcome = f.outcome;
        res->state = EMQ_ACTIVE;
        return EMQ_OK;
    }
    if (s < 0 && err)
        *err = mine;
    return s;
}
