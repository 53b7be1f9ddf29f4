/* SPDX-License-Identifier: MIT
 *
 * The housekeeping thread: sweep and promote, at once at the start and then every interval, slice by
 * slice; and notes, when there are some. The invariant: no error ends it; it is told once a change and tried again.
 */
#include "worker/runtime.h"

#include "base/error.h"

enum { PROMOTE_ONLY_MS = 5000 };

typedef emq_status (*duty_fn)(emq_worker *w, emq_str queue, bool *more, emq_error *err);

struct duty {
    duty_fn once;
    const char *doing;
    int32_t told;
};

static bool over(emq_worker *w)
{
    pthread_mutex_lock(&w->mu);
    bool yes = w->over;
    pthread_mutex_unlock(&w->mu);
    return yes;
}

static void duty_do(emq_worker *w, struct duty *d)
{
    for (size_t i = 0; i < w->n_queues; i++) {
        bool more = true;
        while (more && !over(w)) {
            emq_error err = {0};
            emq_status s = d->once(w, w->names[i], &more, &err);
            if (!emq__is_failure(s)) {
                d->told = 0;
            } else {
                more = false;
                if (d->told != s)
                    emq__event_error(w, w->names[i], d->doing, &err);
                d->told = s;
            }
        }
    }
}

void *emq__house_main(void *thread)
{
    struct emq__thread *t = thread;
    emq_worker *w = t->w;
    bool sweeps = w->cfg.stalled_interval_ms > 0;
    int64_t interval_ms = sweeps ? w->cfg.stalled_interval_ms : PROMOTE_ONLY_MS;
    struct duty sweep = {emq__sweep_once, "recovering stalled jobs", 0};
    struct duty promote = {emq__promote_once, "promoting due jobs", 0};

    if (!sweeps)
        emq__log_write(&w->c->log, EMQ_LOG_WARN,
                       "worker %.*s does not sweep: jobs of workers that die come back only if "
                       "another worker, or emq sweep, does",
                       EMQ_STR_ARG(w->cfg.name));
    while (!over(w)) {
        struct emq__mono next = emq__mono_add_ms(emq__mono_now(), interval_ms);
        /* Renewals before sweeps: a store that held both up must not cost the jobs of this worker. */
        if (sweeps && emq__keeper_can_beat(w, emq__mono_now().us))
            duty_do(w, &sweep);
        duty_do(w, &promote);
        for (;;) {
            int seen = emq__wake_read(&w->house_wake);
            emq__notes_write(w);
            int64_t left = emq__mono_diff_ms(emq__mono_now(), next) + 1;
            if (over(w) || left <= 1)
                break;
            emq__wake_wait(&w->house_wake, seen, left);
        }
    }
    emq__notes_write(w);
    emq__thread_end(w);
    return NULL;
}
