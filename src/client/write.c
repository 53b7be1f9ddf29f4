/* SPDX-License-Identifier: MIT
 *
 * Writes to one job: by its owner, whose token the act compares, or by an administrator, recorded.
 */
#include "client/client.h"

#include "base/error.h"
#include "base/json.h"
#include "base/str.h"

/* Room for the mark and the NUL of emq__text_clean(). */
enum { CUT_MARK = 8 };

static emq_status write_job(emq_client *c, struct emq__write_req *req, emq_str token,
                            const char *where, struct emq__arena *mem, emq_error *err)
{
    struct emq__write_res res;
    emq_status s = token.len ? emq__check_token(token, where, err) : EMQ_OK;

    if (s != EMQ_OK)
        return s;
    req->prefix = c->prefix;
    if (token.len)
        req->auth.token = token;
    else
        req->auth.admin = c->who;
    return emq__do_write(c, req, &res, mem, err);
}

emq_status emq_set_progress(emq_client *c, emq_str queue, emq_str id, emq_str token, emq_str json,
                            emq_error *err)
{
    static const char where[] = "emq_set_progress";
    struct emq__arena mem = {0};
    size_t fault = 0;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK)
        s = emq__check_size(json, EMQ_RESULT_MAX, where, "the progress", err);
    if (s == EMQ_OK && !emq__json_valid(json, &fault))
        s = emq__fail(err, EMQ_E_INVALID, 0, where,
                      "the progress is not JSON (at byte %zu of %zu): pass a number or an object",
                      fault, json.len);
    if (s != EMQ_OK)
        return s;
    struct emq__write_req req = {
        .queue = queue,
        .id = id,
        .kind = EMQ__WRITE_PROGRESS,
        .value = {EMQ__KIND_JSON, json},
    };
    s = write_job(c, &req, token, where, &mem, err);
    emq__arena_free(&mem);
    return s;
}

emq_status emq_set_data(emq_client *c, emq_str queue, emq_str id, emq_str token, emq_str data,
                        emq_error *err)
{
    static const char where[] = "emq_set_data";
    struct emq__arena mem = {0};

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK)
        s = emq__check_size(data, EMQ_DATA_MAX, where, "data", err);
    if (s != EMQ_OK)
        return s;
    struct emq__write_req req = {
        .queue = queue,
        .id = id,
        .kind = EMQ__WRITE_DATA,
        .value = {emq__kind_of(data), data},
    };
    s = write_job(c, &req, token, where, &mem, err);
    emq__arena_free(&mem);
    return s;
}

/* A log line as it is stored: clean text, cut and marked beyond EMQ_LOG_LINE_MAX. */
static emq_status make_line(emq_str line, struct emq__arena *mem, emq_str *out, emq_error *err)
{
    /* Invalid bytes grow to three when they are replaced: still cut at the limit. */
    size_t max = line.len > EMQ_LOG_LINE_MAX ? EMQ_LOG_LINE_MAX - CUT_MARK : EMQ_LOG_LINE_MAX;
    char *text = emq__arena_alloc(mem, max + CUT_MARK);

    if (!text)
        return emq__no_memory("emq_add_log", err);
    *out = emq_strn(text, emq__text_clean(line, max, text));
    return EMQ_OK;
}

emq_status emq_add_log(emq_client *c, emq_str queue, emq_str id, emq_str token, emq_str line,
                       emq_error *err)
{
    static const char where[] = "emq_add_log";
    struct emq__arena mem = {0};
    struct emq__job *job;
    struct emq__opts o;
    int64_t now_ms;

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK)
        s = emq__check_size(line, SIZE_MAX, where, "the line", err);
    if (s == EMQ_OK)
        s = make_line(line, &mem, &line, err);
    if (s == EMQ_OK) /* how many lines it keeps; that never changes */
        s = emq__job_read(c, queue, id, &mem, &job, &now_ms, err);
    if (s == EMQ_OK) {
        (void)emq__opts_read(job->opts, &mem, &o);
        struct emq__write_req req = {
            .queue = queue,
            .id = id,
            .kind = EMQ__WRITE_LOG,
            .value = {EMQ__KIND_TEXT, line},
            .keep = o.keep_logs,
        };
        s = write_job(c, &req, token, where, &mem, err);
    }
    emq__arena_free(&mem);
    return s;
}

emq_status emq_clear_logs(emq_client *c, emq_str queue, emq_str id, int64_t keep, emq_error *err)
{
    static const char where[] = "emq_clear_logs";
    struct emq__arena mem = {0};

    emq_status s = emq__client_check_job(c, queue, id, where, err);
    if (s == EMQ_OK && keep < 0)
        s = emq__fail(err, EMQ_E_INVALID, 0, where, "keep is %lld: allowed are 0 and more",
                      (long long)keep);
    if (s != EMQ_OK)
        return s;
    struct emq__write_req req = {
        .queue = queue, .id = id, .kind = EMQ__WRITE_CLEAR_LOGS, .keep = keep};
    s = write_job(c, &req, emq_strn("", 0), where, &mem, err);
    emq__arena_free(&mem);
    return s;
}
