/* SPDX-License-Identifier: MIT
 *
 * Acts with a receipt. An act whose answer was lost is repeated with the same session and sequence;
 * the store then answers what it did the first time. Only when the store does not answer for
 * io_timeout_ms the caller gets EMQ_E_IN_DOUBT, and that lane is never used again.
 */
#include "client/client.h"

#include "base/error.h"

#include <time.h>

enum { PAUSE_FIRST_MS = 5, PAUSE_MAX_MS = 500 };

struct attempt {
    emq_client *c;
    struct emq__lane *lane; /* NULL: an act without a receipt */
    const char *where;
    struct emq__mono start;
    int64_t pause_ms;
    int tries;
    bool doubt;
    emq_error err; /* of the last try; the caller's is written once, at the end */
};

static struct emq__lane *lane_borrow(emq_client *c)
{
    (void)pthread_mutex_lock(&c->mu);
    struct emq__lane *lane = c->lanes;
    if (lane)
        c->lanes = lane->next;
    (void)pthread_mutex_unlock(&c->mu);
    if (lane)
        return lane;
    lane = calloc(1, sizeof *lane);
    if (lane)
        emq__random_id(lane->session);
    return lane;
}

static void lane_return(emq_client *c, struct emq__lane *lane)
{
    (void)pthread_mutex_lock(&c->mu);
    lane->next = c->lanes;
    c->lanes = lane;
    (void)pthread_mutex_unlock(&c->mu);
}

static emq_status attempt_begin(struct attempt *a, emq_client *c, struct emq__call *call,
                                const char *where, emq_error *err)
{
    *a = (struct attempt){.c = c, .where = where, .pause_ms = PAUSE_FIRST_MS};
    a->start = emq__mono_now();
    if (call) {
        a->lane = lane_borrow(c);
        if (!a->lane)
            return emq__no_memory(where, err);
        a->lane->seq++;
        *call = (struct emq__call){emq_cstr(a->lane->session), a->lane->seq};
    }
    return EMQ_OK;
}

static void pause_for(int64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

/* Answers that won't change by asking again; what happened at the first try is still unknown. */
static bool hopeless(emq_status s)
{
    return s == EMQ_E_INVALID || s == EMQ_E_VERSION || s == EMQ_E_REFUSED || s == EMQ_E_CORRUPT ||
           s == EMQ_E_CLOSED || s == EMQ_E_FORKED;
}

/* After a try that answered *s: try again? If not, *s is the answer. */
static bool attempt_again(struct attempt *a, emq_status *s)
{
    if (!emq__is_failure(*s))
        return false;
    a->tries++;
    if (*s == EMQ_E_IN_DOUBT)
        a->doubt = true;
    /* A failure of the first try means that nothing happened, as long as no earlier try is open. */
    if (!a->doubt)
        return false;

    int64_t spent = emq__mono_diff_ms(a->start, emq__mono_now());
    int64_t left = a->c->io_timeout_ms - spent;
    if (left <= 0 || hopeless(*s)) {
        *s = emq__fail(
            &a->err, EMQ_E_IN_DOUBT, a->err.native, a->where,
            "asked %d times in %lld ms, no answer: it may or may not have happened; last: "
            "%s",
            a->tries, (long long)spent, a->err.text);
        return false;
    }
    pause_for(a->pause_ms < left ? a->pause_ms : left);
    a->pause_ms = a->pause_ms * 2 < PAUSE_MAX_MS ? a->pause_ms * 2 : PAUSE_MAX_MS;
    return true;
}

static void attempt_end(struct attempt *a, emq_status s, emq_error *err)
{
    if (emq__is_failure(s) && err)
        *err = a->err;
    if (!a->lane)
        return;
    /* The store may still have the act of an open doubt on its way: its session must not go on. */
    if (s == EMQ_E_IN_DOUBT)
        free(a->lane);
    else
        lane_return(a->c, a->lane);
}

#define DO_DEFINE(act)                                                                             \
    emq_status emq__do_##act(emq_client *c, struct emq__##act##_req *req,                          \
                             struct emq__##act##_res *res, struct emq__arena *mem, emq_error *err) \
    {                                                                                              \
        struct attempt a;                                                                          \
        emq_status s = attempt_begin(&a, c, &req->call, #act, err);                                \
                                                                                                   \
        if (s != EMQ_OK)                                                                           \
            return s;                                                                              \
        do                                                                                         \
            s = c->e->ops->act(c->e, req, res, mem, &a.err);                                       \
        while (attempt_again(&a, &s));                                                             \
        attempt_end(&a, s, err);                                                                   \
        req->call = (struct emq__call){0};                                                         \
        return s;                                                                                  \
    }
EMQ__RECEIPT_ACTS(DO_DEFINE)

/* As the decorator of faults does with acts. */
static emq_status send_once(emq_client *c, const char *where, emq__send_fn send, void *user,
                            emq_error *err)
{
    if (__builtin_expect(c->fault == NULL, 1))
        return send(user, err);
    enum emq__fault plan = c->fault(c->fault_user, where);
    if (plan == EMQ__FAULT_UNAVAIL)
        return emq__fail(err, EMQ_E_UNAVAIL, 0, where, "fault injected: the request was not sent");
    emq_status s = plan == EMQ__FAULT_LOSE_REQUEST ? EMQ_OK : send(user, err);
    if (plan == EMQ__FAULT_LOSE_REQUEST || plan == EMQ__FAULT_LOSE_REPLY)
        s = emq__fail(err, EMQ_E_IN_DOUBT, 0, where, "fault injected: no answer came");
    return s;
}

emq_status emq__do_send(emq_client *c, struct emq__call *call, const char *where, emq__send_fn send,
                        void *user, emq_error *err)
{
    struct attempt a;
    emq_status s = attempt_begin(&a, c, call, where, err);

    if (s != EMQ_OK)
        return s;
    do
        s = send_once(c, where, send, user, &a.err);
    while (attempt_again(&a, &s));
    attempt_end(&a, s, err);
    return s;
}

emq_status emq__do_extend(emq_client *c, const struct emq__extend_req *req,
                          struct emq__extend_res *res, struct emq__arena *mem, emq_error *err)
{
    struct attempt a;
    emq_status s = attempt_begin(&a, c, NULL, "extend", err);

    if (s != EMQ_OK)
        return s;
    do
        s = c->e->ops->extend(c->e, req, res, mem, &a.err);
    while (attempt_again(&a, &s));
    attempt_end(&a, s, err);
    return s;
}
