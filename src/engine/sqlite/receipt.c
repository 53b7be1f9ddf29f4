/* SPDX-License-Identifier: MIT
 *
 * What a session's last act answered, so that the same call again gives the same answer and changes
 * nothing. The one invariant: the receipt is in the same transaction as what it is a receipt for.
 */
#include "engine/sqlite/row.h"

#include "base/error.h"

enum {
    LIFE_MS = 20 * 60 * 1000, /* promised: 10 minutes */
    TOUCH_MS = 5 * 60 * 1000, /* at_ms, which is indexed, is written this often only */
    EXPIRE_MAX = 4            /* removed by one act: more than one, so that the table shrinks */
};

emq_status sq_receipt_find(struct sq_tx *tx, struct emq__call call, enum sq_receipt_act act,
                           struct emq__arena *mem, emq_str *body, emq_error *err)
{
    static const char where[] = "repeat of an act";
    sqlite3_stmt *st;
    bool found = false;
    emq_status s;

    if (call.session.len == 0)
        return EMQ_NOT_FOUND;
    st = sq_stmt(tx->conn, SQ_SQL_receipt_get, err);
    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, call.session);
    s = sq_step(tx->conn, st, &found, where, err);
    if (s == EMQ_OK && !found) {
        s = EMQ_NOT_FOUND;
    } else if (s == EMQ_OK) {
        uint64_t seq = (uint64_t)sq_col_i64(st, 0);
        if (call.seq > seq)
            s = EMQ_NOT_FOUND;
        else if (call.seq < seq)
            s = emq__fail(err, EMQ_E_INVALID, 0, where,
                          "sequence %llu is behind %llu: a session numbers its acts upwards",
                          (unsigned long long)call.seq, (unsigned long long)seq);
        else
            *body = sq_col_copy(st, 1, mem);
    }
    sqlite3_reset(st);
    if (s != EMQ_OK)
        return s;
    if (!body->ptr)
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "no memory for the stored answer");
    if (body->len == 0 || body->ptr[0] != (char)act)
        return emq__fail(err, EMQ_E_INVALID, 0, where,
                         "sequence %llu was used by another act: number each act anew",
                         (unsigned long long)call.seq);
    *body = emq_strn(body->ptr + 1, body->len - 1);
    return EMQ_OK;
}

static emq_status expire(struct sq_tx *tx, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, SQ_SQL_receipt_expire, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_i64(st, 1, tx->now_ms - LIFE_MS);
    sq_bind_i64(st, 2, EXPIRE_MAX);
    return sq_exec(tx->conn, st, "expire receipts", err);
}

static emq_status put(struct sq_tx *tx, struct emq__call call, enum sq_sql sql, int64_t at_ms,
                      const struct emq__buf *body, emq_error *err)
{
    sqlite3_stmt *st = sq_stmt(tx->conn, sql, err);

    if (!st)
        return sq_no_stmt(err);
    sq_bind_text(st, 1, call.session);
    sq_bind_i64(st, 2, (int64_t)call.seq);
    sqlite3_bind_blob64(st, 3, body->ptr, body->len, SQLITE_STATIC);
    sq_bind_i64(st, 4, at_ms);
    return sq_exec(tx->conn, st, "store receipt", err);
}

emq_status sq_receipt_store(struct sq_tx *tx, struct emq__call call, enum sq_receipt_act act,
                            emq_str body, emq_error *err)
{
    static const char where[] = "store receipt";
    struct emq__buf b;
    emq_status s;

    if (call.session.len == 0)
        return EMQ_OK;
    emq__buf_init(&b, SIZE_MAX);
    emq__buf_char(&b, (char)act);
    emq__buf_str(&b, body);
    if (b.failed) {
        emq__buf_free(&b);
        return emq__fail(err, EMQ_E_NOMEM, 0, where, "%zu bytes", body.len);
    }
    s = put(tx, call, SQ_SQL_receipt_set, tx->now_ms - TOUCH_MS, &b, err);
    if (s == EMQ_OK && sqlite3_changes(tx->conn->db) == 0)
        s = put(tx, call, SQ_SQL_receipt_put, tx->now_ms, &b, err);
    emq__buf_free(&b);
    /* one act in 16 looks for old ones */
    return s == EMQ_OK && call.seq % 16 == 0 ? expire(tx, err) : s;
}

/* Zigzag and base 128: small numbers are one byte. */
void sq_put_i64(struct emq__buf *b, int64_t v)
{
    uint64_t u = ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);

    while (u >= 0x80) {
        emq__buf_char(b, (char)(unsigned char)(u | 0x80));
        u >>= 7;
    }
    emq__buf_char(b, (char)u);
}

void sq_put_str(struct emq__buf *b, emq_str s)
{
    sq_put_i64(b, (int64_t)s.len);
    emq__buf_str(b, s);
}

int64_t sq_get_i64(struct sq_reader *r)
{
    uint64_t u = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (r->p == r->end)
            break;
        unsigned char c = *r->p++;
        u |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
    }
    r->bad = true;
    return 0;
}

emq_str sq_get_str(struct sq_reader *r)
{
    int64_t len = sq_get_i64(r);
    emq_str s = {"", 0};

    if (r->bad || len < 0 || len > r->end - r->p) {
        r->bad = true;
        return s;
    }
    s = emq_strn((const char *)r->p, (size_t)len);
    r->p += len;
    return s;
}
