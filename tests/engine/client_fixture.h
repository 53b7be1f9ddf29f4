/* SPDX-License-Identifier: MIT
 *
 * A client over a fresh store, with the invariants checked after each act and with faults by plan:
 * engine <- check <- fault <- client. CLIENT_ON_NAIVE chooses the model engine, EMQ_TEST_ENGINE=redis|valkey
 * such a server, else SQLite.
 */
#ifndef EMQ_TESTS_CLIENT_FIXTURE_H
#define EMQ_TESTS_CLIENT_FIXTURE_H

#include "client/client.h"
#include "lib/test.h"
#ifdef CLIENT_ON_NAIVE
#include "lib/naive.h"
#elif defined(EMQ_HAVE_REDIS)
#include "lib/server.h"
#endif

/* The next `times` calls of an act fail in this way. */
struct fault_plan {
    const char *act;
    enum emq__fault fault;
    int times, seen; /* seen: all calls of the act */
};

struct fixture {
    emq_client *c;
    struct emq__engine *store; /* without decorators: to move its clock */
    struct fault_plan plan;
};

static enum emq__fault fixture_fault(void *user, const char *act)
{
    struct fault_plan *p = user;

    if (!p->act || strcmp(p->act, act) != 0)
        return EMQ__FAULT_NONE;
    p->seen++;
    if (p->times == 0)
        return EMQ__FAULT_NONE;
    p->times--;
    return p->fault;
}

static inline struct emq__engine *fixture_store(void)
{
    struct emq__engine *e = NULL;
    emq_error err = {0};
#ifdef CLIENT_ON_NAIVE
    CHECK_STATUS_ERR(naive_open(&e, &err), EMQ_OK, &err);
#else
    struct emq__arena mem = {0};
    struct emq__engine_config cfg = {.io_timeout_ms = 10000};
    static int n; /* a test may open several */
    emq_str url = emq__arena_printf(&mem, "sqlite:%s/q%d.db?sync=off", test_temp_dir(), ++n);
    emq_status (*open)(struct emq__engine **, const struct emq__engine_config *,
                       struct emq__arena *, emq_error *) = emq__sqlite_open;

#ifdef EMQ_HAVE_REDIS
    const char *asked = server_asked();
    if (asked) {
        url = emq_cstr(asked);
        open = emq__redis_open;
    }
#endif
    CHECK_STATUS_ERR(emq__url_parse(url, &mem, &cfg.url, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(open(&e, &cfg, &mem, &err), EMQ_OK, &err);
    emq__arena_free(&mem);
#endif
    return e;
}

static inline void fixture_open_over(struct fixture *f, const emq_open_opts *opts, bool checked)
{
    struct emq__engine *e = fixture_store();
    emq_error err = {0};

    *f = (struct fixture){.store = e};
    if (checked)
        CHECK_STATUS_ERR(emq__check_wrap(&e, NULL, NULL, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq__fault_wrap(&e, fixture_fault, &f->plan, &err), EMQ_OK, &err);
    CHECK_STATUS_ERR(emq__client_wrap(&f->c, e, EMQ_STR_LIT("test:"), emq_strn("", 0), opts, &err),
                     EMQ_OK, &err);
}

static inline void fixture_open_opts(struct fixture *f, const emq_open_opts *opts)
{
    fixture_open_over(f, opts, true);
}

static inline void fixture_open(struct fixture *f)
{
    fixture_open_over(f, NULL, true);
}

/* For tests of memory, which checks need too, and of many jobs, all of which they read at each act. */
static inline void fixture_open_unchecked(struct fixture *f)
{
    fixture_open_over(f, NULL, false);
}

static inline void fixture_close(struct fixture *f)
{
    emq_close(f->c);
}

static inline void fixture_advance(struct fixture *f, int64_t ms)
{
    CHECK_STATUS(f->store->ops->advance(f->store, ms, NULL), EMQ_OK);
}

/* ---- short forms ------------------------------------------------------------------------- */

#define Q       EMQ_STR_LIT("q")
#define S(text) emq_cstr(text)
#define NONE    emq_strn("", 0)

static inline int64_t count_of_state(struct fixture *f, int state)
{
    emq_queue_stats st = {.size = sizeof st};

    CHECK_STATUS(emq_stats(f->c, Q, &st, NULL), EMQ_OK);
    return st.count[state];
}

static inline void add_id(struct fixture *f, const char *id)
{
    emq_add_opts o = {.size = sizeof o, .id = S(id)};
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_add(f->c, Q, S("{}"), &o, NULL, &err), EMQ_OK, &err);
}

static inline emq_job *take_one(struct fixture *f)
{
    emq_job *job = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_take(f->c, Q, NULL, &job, &err), EMQ_OK, &err);
    return job;
}

static inline emq_status settle(struct fixture *f, emq_job *job, int32_t kind, const char *value,
                                int64_t delay_ms)
{
    emq_settle_opts o = {.size = sizeof o, .kind = kind, .value = S(value), .delay_ms = delay_ms};

    return emq_settle(f->c, Q, emq_job_id(job), emq_job_token(job), &o, NULL);
}

static inline emq_job *get(struct fixture *f, const char *id)
{
    emq_job *job = NULL;
    emq_error err = {0};

    CHECK_STATUS_ERR(emq_get(f->c, Q, S(id), &job, &err), EMQ_OK, &err);
    return job;
}

#endif
