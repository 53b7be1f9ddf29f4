/* SPDX-License-Identifier: MIT
 *
 * A job from its hash. Fields that nobody knows are passed over; numbers are read as JavaScript's
 * parseInt() would, what is none counts as 0.
 */
#include "engine/redis/path.h"

#include "base/str.h"

#include <limits.h>

/* Our own fields, which say how to read others. */
struct reading {
    struct emq__job *j;
    emq_str data, result, data_encoding, result_encoding, last, cancel;
    int64_t attempts_made; /* of a field that only old producers write; -1 = not there */
    bool has_data, has_result;
};

static int64_t lead_i64(emq_str s)
{
    size_t digits = s.len > 0 && s.ptr[0] == '-';
    int64_t v;

    digits = emq__skip_digits(s, digits);
    return emq__str_to_i64(emq_strn(s.ptr, digits), &v) ? v : 0;
}

static int32_t lead_i32(emq_str s)
{
    int64_t v = lead_i64(s);
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

static bool read_text(struct reading *r, emq_str field, emq_str value)
{
    struct emq__job *j = r->j;
    const struct {
        const char *name;
        emq_str *out;
    } texts[] = {
        {"name", &j->name},
        {"opts", &j->opts},
        {"pb", &j->processed_by},
        {"failedReason", &j->failed_reason},
        {"stacktrace", &j->stacktrace},
        {"progress", &j->progress},
        {"defa", &j->deferred_failure},
        {"deid", &j->dedup_id},
        {"rjk", &j->scheduler},
        {"parentKey", &j->parent_key},
        {"parent", &j->parent},
        {"emq:group", &j->group},
        {"emq:tk", &r->last},
        {"emq:cancel", &r->cancel},
        {"emq:enc", &r->data_encoding},
        {"emq:renc", &r->result_encoding},
    };
    for (size_t i = 0; i < EMQ_ARRAY_LEN(texts); i++)
        if (emq__str_is(field, texts[i].name)) {
            *texts[i].out = value;
            return true;
        }
    return false;
}

static void read_field(struct reading *r, emq_str field, emq_str value)
{
    struct emq__job *j = r->j;

    if (emq__str_is(field, "data")) {
        r->data = value;
        r->has_data = true;
    } else if (emq__str_is(field, "returnvalue")) {
        r->result = value;
        r->has_result = true;
    } else if (emq__str_is(field, "timestamp")) {
        j->timestamp_at_ms = lead_i64(value);
    } else if (emq__str_is(field, "delay")) {
        j->delay_ms = lead_i64(value);
    } else if (emq__str_is(field, "priority")) {
        j->priority = lead_i32(value);
    } else if (emq__str_is(field, "processedOn")) {
        j->processed_at_ms = lead_i64(value);
    } else if (emq__str_is(field, "finishedOn")) {
        j->finished_at_ms = lead_i64(value);
    } else if (emq__str_is(field, "atm")) {
        j->attempts_made = lead_i32(value);
    } else if (emq__str_is(field, "attemptsMade")) {
        r->attempts_made = lead_i32(value);
    } else if (emq__str_is(field, "ats")) {
        j->attempts_started = lead_i32(value);
    } else if (emq__str_is(field, "stc")) {
        j->stalled = lead_i32(value);
    } else if (emq__str_is(field, "emq:redo")) {
        j->redo = lead_i32(value);
    } else {
        (void)read_text(r, field, value);
    }
}

int64_t rd_fence_of(emq_str token)
{
    size_t colon = token.len;

    while (colon > 0 && token.ptr[colon - 1] != ':')
        colon--;
    return lead_i64(emq_strn(token.ptr + colon, token.len - colon));
}

/* Is it "<worker>:<fence>"? */
static bool is_token_of(emq_str token, emq_str worker)
{
    size_t at = worker.len;

    return at > 0 && at < token.len && memcmp(token.ptr, worker.ptr, at) == 0 &&
           token.ptr[at] == ':' && emq__skip_digits(token, at + 1) == token.len;
}

/* emq:tk, "<mode> <processedOn> <token>": the last hand-out by us, and the present one unless somebody
 * else has taken the job since. A worker of BullMQ without a name leaves the last one's in the record. */
static void read_hand_out(struct reading *r, emq_str token)
{
    struct emq__job *j = r->j;
    emq_str s = r->last;
    size_t mode = emq__skip_digits(s, 0), at = mode < s.len ? emq__skip_digits(s, mode + 1) : s.len;

    j->foreign = j->state == EMQ_ACTIVE || j->processed_at_ms > 0;
    if (at < s.len) {
        j->token = emq_strn(s.ptr + at + 1, s.len - at - 1);
        j->fence = rd_fence_of(j->token);
        if (lead_i64(emq_strn(s.ptr + mode + 1, at - mode - 1)) == j->processed_at_ms) {
            j->mode = j->state == EMQ_ACTIVE ? lead_i32(emq_strn(s.ptr, mode)) : 0;
            j->foreign = false;
        }
    }
    if (j->foreign && is_token_of(j->token, j->processed_by))
        j->processed_by = EMQ_STR_LIT("");
    if (token.len > 0)
        j->token = token;
    j->cancel = j->state == EMQ_ACTIVE && r->cancel.len > 0;
}

static bool read_payloads(struct reading *r, struct emq__arena *mem)
{
    struct emq__job *j = r->j;
    emq_str encoding;

    j->opts = rd_opts_unmark(j->opts, mem, &encoding);
    if (!j->opts.ptr)
        return false;
    if (r->data_encoding.len > 0)
        encoding = r->data_encoding;
    j->damaged = !r->has_data;
    if (r->has_data && !rd_decode(r->data, encoding, mem, &j->data))
        return false;
    return !r->has_result || rd_decode(r->result, r->result_encoding, mem, &j->result);
}

struct emq__job *rd_job_read(const struct rd_reply *hash, const struct rd_job_extra *x,
                             struct emq__arena *mem)
{
    struct emq__job *j = emq__arena_zalloc(mem, 1, sizeof *j);
    struct reading r = {.j = j, .attempts_made = -1};
    size_t n = hash && hash->type == RD_ARR ? hash->n : 0;

    if (!j)
        return NULL;
    *j = (struct emq__job){
        .prefix = emq__arena_str(mem, x->prefix),
        .queue = emq__arena_str(mem, x->queue),
        .id = x->id,
        .opts = EMQ_STR_LIT("{}"),
        .state = x->state,
        .due_at_ms = x->due_at_ms,
        .lock_left_ms = x->lock_left_ms,
        .next_run = x->next_run,
    };
    for (size_t i = 0; i + 1 < n; i += 2)
        read_field(&r, rd_str(rd_at(hash, i)), rd_str(rd_at(hash, i + 1)));
    if (r.attempts_made >= 0)
        j->attempts_made = (int32_t)r.attempts_made;
    read_hand_out(&r, x->token);
    return j->prefix.ptr && j->queue.ptr && read_payloads(&r, mem) ? j : NULL;
}
