/* SPDX-License-Identifier: MIT
 *
 * write: progress, data and log of one job.
 */
#include "engine/redis/path.h"

#include "base/error.h"

emq_status rd_write(struct emq__engine *e, const struct emq__write_req *req,
                    struct emq__write_res *res, struct emq__arena *mem, emq_error *err)
{
    static const char *const kinds[] = {[EMQ__WRITE_PROGRESS] = "p",
                                        [EMQ__WRITE_DATA] = "d",
                                        [EMQ__WRITE_LOG] = "l",
                                        [EMQ__WRITE_CLEAR_LOGS] = "c",
                                        [EMQ__WRITE_NOTE] = "n"};
    emq_str value = req->value.bytes, encoding = {0};
    const struct rd_reply *r;

    if (req->auth.token.len == 0 && req->auth.admin.len == 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "write", "neither a token nor an administrator");
    if (req->kind < EMQ__WRITE_PROGRESS || req->kind > EMQ__WRITE_NOTE)
        return emq__fail(err, EMQ_E_INVALID, 0, "write", "kind %d is not one", (int)req->kind);
    if (req->kind == EMQ__WRITE_NOTE && req->auth.token.len > 0)
        return emq__fail(err, EMQ_E_INVALID, 0, "write",
                         "a note is an administrator's: give a name instead of a token");
    if (req->kind == EMQ__WRITE_NOTE)
        value = emq__detail(value);
    if (req->kind == EMQ__WRITE_DATA && !rd_encode(req->value, mem, &value, &encoding))
        return emq__fail(err, EMQ_E_NOMEM, 0, "write", "no memory for %zu bytes", value.len);
    struct rd_args *a = rd_args_new(e, RD_LUA_write, req->prefix, req->queue, mem);
    rd_arg_call(a, req->call);
    rd_arg_str(a, req->id);
    rd_arg_str(a, req->auth.token);
    rd_arg_str(a, req->auth.admin);
    rd_arg_str(a, emq_cstr(kinds[req->kind]));
    rd_arg_str(a, value);
    if (req->kind == EMQ__WRITE_LOG || req->kind == EMQ__WRITE_CLEAR_LOGS)
        rd_arg_i64(a, req->keep);
    else
        rd_arg_str(a, encoding);
    emq_status s = rd_eval(a, &r, err);
    if (s != EMQ_OK)
        return s;
    *res = (struct emq__write_res){.now_ms = rd_i64(rd_at(r, 0)), .logs = rd_i64(rd_at(r, 2))};
    return (emq_status)rd_i64(rd_at(r, 1));
}
