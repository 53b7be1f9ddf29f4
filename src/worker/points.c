/* SPDX-License-Identifier: MIT
 *
 * Crash and freeze points: the process kills or stops itself, so that nothing runs after the point
 * that would not run after a real crash.
 */
#include "worker/points.h"

#include "base/error.h"
#include "base/str.h"

#include <pthread.h>
#include <signal.h>

enum { PASSES_MAX = 1000000 };

/* "P3" or "P3:17". */
static bool trap_parse(const char *text, struct emq__point_trap *out)
{
    int64_t passes = 1;

    if (text[0] != 'P' || text[1] < '0' || text[1] >= '0' + EMQ__POINT_COUNT)
        return false;
    if (text[2] && (text[2] != ':' || !emq__str_to_i64(emq_cstr(text + 3), &passes)))
        return false;
    if (passes < 1 || passes > PASSES_MAX)
        return false;
    out->at = text[1] - '0';
    atomic_store(&out->left, (int)passes);
    return true;
}

static emq_status trap_read(const char *variable, struct emq__point_trap *out, emq_error *err)
{
    const char *text = getenv(variable);

    out->at = -1;
    if (!text || !*text || trap_parse(text, out))
        return EMQ_OK;
    return emq__fail(err, EMQ_E_INVALID, 0, "emq_worker_start",
                     "%s is \"%.32s\": use P0 to P5, or P3:2 for the second time (1 to %d)",
                     variable, text, PASSES_MAX);
}

emq_status emq__points_read(struct emq__points *p, emq_error *err)
{
    emq_status s = trap_read("EMQ_CRASH_AT", &p->crash, err);

    if (s == EMQ_OK)
        s = trap_read("EMQ_STOP_AT", &p->stop, err);
    p->armed = s == EMQ_OK && (p->crash.at >= 0 || p->stop.at >= 0);
    return s;
}

static void trap_pass(struct emq__point_trap *t, enum emq__point at, int sig)
{
    if (t->at == (int)at && atomic_fetch_sub(&t->left, 1) == 1)
        (void)pthread_kill(pthread_self(),
                           sig); /* sent to the process, this thread might go on a while */
}

void emq__point_hit(struct emq__points *p, enum emq__point at)
{
    trap_pass(&p->crash, at, SIGKILL);
    trap_pass(&p->stop, at, SIGSTOP);
}
