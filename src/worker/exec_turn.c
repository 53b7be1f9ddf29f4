/* SPDX-License-Identifier: MIT
 *
 * The loop that one-shot programs and kept ones share: waiting for pipes, bells and the end, and
 * stopping a process: TERM to its group, KILL a little later, KILL at once at the safe point.
 */
#include "worker/exec_internal.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <echomq/worker.h>

enum { NO_PIDFD_MS = 10 };

void emq__turn_init(struct emq__turn *t, struct emq__exec *x, struct emq__slot *s,
                    struct emq__child *c)
{
    *t = (struct emq__turn){.x = x, .s = s, .c = c, .kill_at_us = INT64_MAX};
}

static void look(struct emq__turn *t)
{
    int reason = emq__slot_cancelled(t->s);
    int64_t now = emq__mono_now().us;
    int64_t safe = emq__slot_safe_until(t->s).us;

    if (t->killed || (reason == EMQ_GO_ON && now < safe))
        return;
    /* An end of its own that is there already is what counts. */
    if (!t->asked && emq__child_ended(t->c))
        return;
    if (reason == EMQ_CANCEL_LOCK_LOST || now >= safe || now >= t->kill_at_us) {
        emq__child_signal(t->c, SIGKILL);
        t->killed = true;
    } else if (!t->asked) {
        emq__child_signal(t->c, SIGTERM);
        emq__child_signal(t->c, SIGCONT); /* one that is stopped gets it too */
        t->asked = true;
        t->kill_at_us = now + EMQ__EXEC_TERM_MS * INT64_C(1000);
    }
}

/* Until us, as milliseconds that are not too early. */
static int64_t ms_until(int64_t us)
{
    int64_t left = us == INT64_MAX ? INT64_MAX : us - emq__mono_now().us;

    return left <= 0 ? 0 : left == INT64_MAX ? INT64_MAX : (left + 999) / 1000;
}

static int wait_ms(const struct emq__turn *t, int64_t due_us)
{
    int64_t ms = t->c->pidfd >= 0 ? EMQ__EXEC_LOOK_MS : NO_PIDFD_MS;
    int64_t others[] = {ms_until(due_us), t->killed ? ms : ms_until(t->kill_at_us),
                        t->killed ? ms : ms_until(emq__slot_safe_until(t->s).us),
                        emq__turn_stopping(t) ? ms : emq__slot_next_look_ms(t->s)};

    for (size_t i = 0; i < EMQ_ARRAY_LEN(others); i++)
        ms = others[i] < ms ? others[i] : ms;
    return (int)ms;
}

static void bells(struct emq__turn *t)
{
    uint64_t count;

    if (t->ready[EMQ__TURN_SLOT])
        (void)!read(emq__slot_fd(t->s), &count, sizeof count);
    /* A dead supervisor is replaced while the program runs: it is guarded again from then on. */
    if (t->ready[EMQ__TURN_SUPERVISOR] && emq__supervisor_check(t->x->supervisor, NULL) != EMQ_OK)
        t->no_supervisor_until_us = emq__mono_now().us + EMQ__EXEC_LOOK_MS * INT64_C(1000);
}

void emq__turn_wait(struct emq__turn *t, bool writing, int64_t due_us)
{
    const struct emq__child *c = t->c;

    look(t);
    bool guard = emq__mono_now().us >= t->no_supervisor_until_us;
    struct pollfd fds[EMQ__TURN_FDS] = {
        [EMQ__TURN_IN] = {writing ? c->in : -1, POLLOUT, 0},
        [EMQ__TURN_OUT] = {c->out, POLLIN, 0},
        [EMQ__TURN_ERR] = {c->err, POLLIN, 0},
        [EMQ__TURN_CTL] = {c->ctl, POLLIN, 0},
        [EMQ__TURN_SLOT] = {emq__slot_fd(t->s), POLLIN, 0},
        [EMQ__TURN_SUPERVISOR] = {guard ? t->x->supervisor->fd : -1, 0, 0},
        [EMQ__TURN_PID] = {c->pidfd, POLLIN, 0},
    };
    if (poll(fds, EMQ__TURN_FDS, wait_ms(t, due_us)) < 0)
        for (size_t i = 0; i < EMQ__TURN_FDS; i++)
            fds[i].revents = 0; /* interrupted: nothing is known to be ready */
    for (size_t i = 0; i < EMQ__TURN_FDS; i++)
        t->ready[i] = fds[i].revents;
    bells(t);
}
