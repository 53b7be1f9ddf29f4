/* SPDX-License-Identifier: MIT
 *
 * The worker's state as text, for a stuck worker: who holds what, since when, for how long its lock is
 * safe, and whether the store answers. Takes `mu` only to copy; writes without it.
 */
#include "worker/runtime.h"

#include "base/buf.h"
#include "model/duration.h"

#include <errno.h>
#include <unistd.h>

enum { DUMP_MAX = 4 * 1024 * 1024 };

static const char *cancel_name(int reason)
{
    switch ((emq_cancel_reason)reason) {
    case EMQ_GO_ON: return "";
    case EMQ_CANCEL_LOCK_LOST: return ", told: lock lost";
    case EMQ_CANCEL_TIMEOUT: return ", told: timeout";
    case EMQ_CANCEL_SHUTDOWN: return ", told: shutdown";
    case EMQ_CANCEL_USER: return ", told: cancelled";
    }
    return "";
}

static void dump_span(struct emq__buf *b, const char *what, int64_t from_us, int64_t to_us)
{
    char text[40];

    if (from_us == 0 || to_us == INT64_MAX)
        return;
    int64_t ms = (to_us - from_us) / 1000;
    emq__buf_printf(b, ", %s %s%s", what, ms < 0 ? "-" : "",
                    emq__duration_format(ms < 0 ? -ms : ms, text));
}

/* mu held. */
static void dump_slot(struct emq__buf *b, struct emq__slot *s, int64_t now)
{
    emq__buf_printf(b, "queue %.*s, job %.*s, attempt %d, fence %lld", EMQ_STR_ARG(s->q->name),
                    EMQ_STR_ARG(s->job->rec.id), (int)s->job->rec.attempts_made + 1,
                    (long long)s->job->rec.fence);
    dump_span(b, "taken since", s->taken_us, now);
    dump_span(b, "running since", s->started_us, now);
    dump_span(b, "lock safe for", now, atomic_load(&s->safe_until_us));
    dump_span(b, "time left", now, atomic_load(&s->run_until_us));
    emq__buf_text(b, cancel_name(atomic_load(&s->cancel)));
    if (s->lost)
        emq__buf_text(b, ", the store says: lost");
    emq__buf_char(b, '\n');
}

static void dump_lists(struct emq__buf *b, emq_worker *w, int64_t now)
{
    int waiting_for = 0;

    for (int32_t i = 0; i < w->cfg.concurrency; i++) {
        struct emq__slot *s = w->threads[i].slot;
        emq__buf_printf(b, "  slot %d: ", (int)i);
        if (s)
            dump_slot(b, s, now);
        else
            emq__buf_text(b, "free\n");
        if (s && atomic_load(&s->cancel) != EMQ_GO_ON)
            waiting_for++;
    }
    for (struct emq__slot *s = w->ready; s; s = s->next) {
        emq__buf_text(b, "  in hand, not begun: ");
        dump_slot(b, s, now);
    }
    for (struct emq__slot *s = w->ended; s; s = s->next) {
        emq__buf_text(b, "  ended, not settled: ");
        dump_slot(b, s, now);
    }
    if (waiting_for > 0 && w->cfg.handler)
        emq__buf_printf(
            b,
            "  %d C handlers were told to stop and have not returned: a function can't be "
            "killed, the worker waits for them\n",
            waiting_for);
}

static void dump_head(struct emq__buf *b, emq_worker *w, int64_t now)
{
    static const char *const stops[] = {"working", "stopping: finishing what runs", "stopping now"};
    int level = atomic_load(&w->stop_level);
    int64_t since = atomic_load(&w->beat_since_us);

    emq__buf_printf(b, "worker %.*s: %s%s", EMQ_STR_ARG(w->cfg.name),
                    stops[level < 0 || level > 2 ? 0 : level],
                    atomic_load(&w->paused) ? ", paused" : "");
    if (level > 0)
        dump_span(b, "cancelling in", now, atomic_load(&w->cancel_at_us));
    emq__buf_printf(b, "\n  running %d, ready %d, in hand %d; threads alive %d\n",
                    (int)w->n_running, (int)w->n_ready, (int)w->n_in_hand, atomic_load(&w->alive));
    emq__buf_printf(b, "  keeper: %s", atomic_load(&w->keeper_sick) ? "renewing fails" : "well");
    if (since)
        dump_span(b, "in an act since", since, now);
    emq__buf_printf(
        b,
        "\n  started %lld, completed %lld, failed %lld, retried %lld, given back %lld, "
        "lost %lld, recovered %lld, errors %lld\n",
        (long long)atomic_load(&w->count.started), (long long)atomic_load(&w->count.completed),
        (long long)atomic_load(&w->count.failed), (long long)atomic_load(&w->count.retried),
        (long long)atomic_load(&w->count.given_back), (long long)atomic_load(&w->count.lost),
        (long long)atomic_load(&w->count.recovered), (long long)atomic_load(&w->count.errors));
}

void emq_worker_dump(emq_worker *w, int fd)
{
    struct emq__buf b;
    size_t done = 0;

    if (!w || emq__client_check(w->c, "emq_worker_dump", NULL) != EMQ_OK)
        return;
    emq__buf_init(&b, DUMP_MAX);
    int64_t now = emq__mono_now().us;
    pthread_mutex_lock(&w->mu);
    dump_head(&b, w, now);
    dump_lists(&b, w, now);
    pthread_mutex_unlock(&w->mu);
    /* A dump that was cut at its ceiling is still worth printing. */
    while (done < b.len) {
        ssize_t n = write(fd, b.ptr + done, b.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    emq__buf_free(&b);
}
