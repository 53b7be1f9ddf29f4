/* SPDX-License-Identifier: MIT
 *
 * Rules for names. A name that passes here can stand in a key, a path of the log or a JSON string
 * without further care; nothing is ever repaired, only refused.
 */
#include "model/names.h"

#include "base/error.h"
#include "base/str.h"
#include "model/check.h"

#define FAIL(...) emq__fail(err, EMQ_E_INVALID, 0, "name", __VA_ARGS__)

/* 1..max bytes of UTF-8 without control bytes. */
static emq_status check_common(const char *what, emq_str s, size_t max, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];

    if (s.len == 0 || !s.ptr)
        return FAIL("%s is empty; 1..%zu bytes", what, max);
    if (s.len > max)
        return FAIL("%s \"%s\" has %zu bytes; 1..%zu bytes", what, emq__shown(s, shown), s.len,
                    max);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char ch = (unsigned char)s.ptr[i];
        if (ch < 0x20 || ch == 0x7f)
            return FAIL("%s \"%s\" has the control byte 0x%02x at offset %zu; none are allowed",
                        what, emq__shown(s, shown), ch, i);
    }
    if (!emq__utf8_valid(s))
        return FAIL("%s \"%s\" is no valid UTF-8", what, emq__shown(s, shown));
    return EMQ_OK;
}

static emq_status refuse_byte(const char *what, emq_str s, char ch, const char *name,
                              emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    const char *at = memchr(s.ptr, ch, s.len);

    if (!at)
        return EMQ_OK;
    return FAIL("%s \"%s\" has a %s at offset %zu; none are allowed", what, emq__shown(s, shown),
                name, (size_t)(at - s.ptr));
}

emq_status emq__check_queue(emq_str name, emq_error *err)
{
    emq_status s = check_common("queue name", name, EMQ_QUEUE_NAME_MAX, err);

    return s == EMQ_OK ? refuse_byte("queue name", name, ':', "':'", err) : s;
}

emq_status emq__check_prefix(emq_str name, emq_error *err)
{
    return check_common("prefix", name, EMQ_QUEUE_NAME_MAX, err);
}

/* A server keeps a job under its id beside the keys of its queue: these are theirs. */
static bool is_key_of_queue(emq_str id)
{
    static const char *const keys[] = {
        "active", "completed",     "delayed",         "events", "failed",      "id",     "limiter",
        "marker", "meta",          "paused",          "pc",     "prioritized", "repeat", "stalled",
        "wait",   "stalled-check", "waiting-children"};
    static const char *const fronts[] = {"de:", "dn:", "metrics:"};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(keys); i++)
        if (emq__str_is(id, keys[i]))
            return true;
    for (size_t i = 0; i < EMQ_ARRAY_LEN(fronts); i++)
        if (emq__str_starts(id, fronts[i]))
            return true;
    return false;
}

emq_status emq__check_custom_id(emq_str id, emq_error *err)
{
    char shown[EMQ__SHOWN_MAX];
    emq_status s = check_common("job id", id, EMQ_ID_MAX, err);
    size_t digits = 0, colons = 0;

    if (s != EMQ_OK)
        return s;
    for (size_t i = 0; i < id.len; i++) {
        digits += id.ptr[i] >= '0' && id.ptr[i] <= '9';
        colons += id.ptr[i] == ':';
    }
    if (digits == id.len)
        return FAIL("job id \"%s\" is all digits: such ids belong to the queue's counter; put a "
                    "letter in front",
                    emq__shown(id, shown));
    if (emq__str_starts(id, "0:"))
        return FAIL("job id \"%s\" starts with \"0:\": that is a marker of other programs on this "
                    "queue",
                    emq__shown(id, shown));
    if (is_key_of_queue(id))
        return FAIL("job id \"%s\" is the name of a key that each queue has on a server; put "
                    "something in front",
                    emq__shown(id, shown));
    if (colons != 0 && colons != 2)
        return FAIL("job id \"%s\" has %zu ':'; none, or exactly two, are allowed",
                    emq__shown(id, shown), colons);
    return EMQ_OK;
}

emq_status emq__check_id(emq_str id, emq_error *err)
{
    return check_common("job id", id, EMQ_ID_MAX, err);
}

emq_status emq__check_job_name(emq_str name, emq_error *err)
{
    return check_common("job name", name, EMQ_ID_MAX, err);
}

emq_status emq__check_worker(emq_str name, emq_error *err)
{
    emq_status s = check_common("worker name", name, EMQ_WORKER_NAME_MAX, err);

    return s == EMQ_OK ? refuse_byte("worker name", name, ' ', "space", err) : s;
}

emq_status emq__check_dedup_id(emq_str id, emq_error *err)
{
    return check_common("dedup id", id, EMQ_ID_MAX, err);
}

emq_status emq__check_group(emq_str name, emq_error *err)
{
    return check_common("group", name, EMQ_ID_MAX, err);
}
