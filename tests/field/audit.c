/* SPDX-License-Identifier: MIT */
#include "audit.h"

#include "base/map.h"
#include "client/client.h"

#define S(text) emq_cstr(text)

enum { PAGE = 1000, DUMP_MAX = 3000 };

emq_queue_stats field_stats(emq_client *c, const char *queue)
{
    emq_queue_stats st = {.size = sizeof st};

    FIELD_OK(emq_stats(c, S(queue), &st, err));
    return st;
}

/* Lists one state to its end; the number of jobs. */
static int64_t audit_state(emq_client *c, const char *queue, int state, struct emq__map *seen)
{
    char after[EMQ_ID_MAX + 1] = "";
    int64_t n = 0;

    for (size_t len = 1; len > 0;) {
        emq_find_opts o = {
            .size = sizeof o, .state = state, .limit = PAGE, .after_id = emq_cstr(after)};
        emq_list *page = NULL;
        FIELD_OK(emq_find(c, S(queue), &o, &page, err));
        len = emq_list_len(page);
        for (size_t i = 0; i < len; i++, n++) {
            const emq_job *j = emq_list_job(page, i);
            emq_str id = emq_job_id(j);
            CHECK_INT(emq_job_state(j), state);
            if (emq__map_get(seen, id))
                fail_msg("job %.*s stands in two places", EMQ_STR_ARG(id));
            CHECK(emq__map_put(seen, id, seen));
            (void)snprintf(after, sizeof after, "%.*s", EMQ_STR_ARG(id));
        }
        emq_list_free(page);
    }
    return n;
}

static void on_broken(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "broken: %s\n", line);
}

static void audit_records(emq_client *c, const char *queue)
{
    struct emq__arena mem = {0};
    struct emq__dump_req req = {.prefix = c->prefix, .queue = S(queue)};
    struct emq__dump_res res;

    FIELD_OK(c->e->ops->dump(c->e, &req, &res, &mem, err));
    CHECK_INT(emq__check_dump(&res, on_broken, NULL), 0);
    emq__arena_free(&mem);
}

void field_audit(emq_client *c, const char *queue)
{
    emq_queue_stats st = field_stats(c, queue);
    struct emq__map seen = {0};
    int64_t present = 0;

    for (int state = 1; state <= EMQ_STATE_COUNT; state++) {
        int64_t n = audit_state(c, queue, state, &seen);
        if (n != st.count[state])
            fail_msg("%lld jobs are listed as %s, %lld are counted", (long long)n,
                     emq_state_name(state), (long long)st.count[state]);
        present += n;
    }
    emq__map_free(&seen);
    if (st.total_added != present + st.total_removed)
        fail_msg("the sum rule is broken: %lld added, %lld present, %lld removed",
                 (long long)st.total_added, (long long)present, (long long)st.total_removed);
    if (present <= DUMP_MAX)
        audit_records(c, queue);
}
