/* SPDX-License-Identifier: MIT
 *
 * An effect that is a counter on the queue's server.
 */
#include "lab/ledger.h"

#include "base/error.h"
#include "client/client.h"

/* Beside the queues of the prefix, none of which has such a name. */
void lab_counter_name(const struct lab_ledger *l, char out[LAB_PATH_MAX])
{
    (void)snprintf(out, LAB_PATH_MAX, "%s-counter-%s", l->prefix, l->queue);
}

emq_status lab_counter_commit(const struct lab_ledger *l, emq_job *job, emq_error *err)
{
    char name[LAB_PATH_MAX];

    lab_counter_name(l, name);
    const emq_str args[] = {EMQ_STR_LIT("INCR"), emq_cstr(name)};
    const emq_redis_command incr = {.size = sizeof incr, .args = args, .n = EMQ_ARRAY_LEN(args)};
    const emq_redis_command *const commands[] = {&incr};
    return emq_effect_redis(l->c, job, commands, 1, NULL, err);
}

#ifdef EMQ_HAVE_REDIS
#include "engine/redis/ground.h"

emq_status lab_counter_count(const struct lab_ledger *l, int64_t *out, emq_error *err)
{
    struct rd_engine *e = rd_of(l->c->base);
    struct emq__arena mem = {0};
    const struct rd_reply *r = NULL;
    char name[LAB_PATH_MAX];
    struct rd_cmd cmd;

    lab_counter_name(l, name);
    rd_cmd_init(&cmd, &mem);
    rd_cmd_text(&cmd, "GET");
    rd_cmd_text(&cmd, name);
    emq_status s = rd_command(e, rd_nth_master(e, 0), &cmd, &mem, &r, err);
    if (s == EMQ_OK)
        *out = rd_i64(r);
    emq__arena_free(&mem);
    return s;
}

#else

static emq_status without(emq_error *err)
{
    return emq__fail(err, EMQ_E_INVALID, 0, "lab", "this emq was built without Redis");
}

emq_status lab_counter_count(const struct lab_ledger *l, int64_t *out, emq_error *err)
{
    (void)l, (void)out;
    return without(err);
}

#endif
