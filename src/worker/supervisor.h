/* SPDX-License-Identifier: MIT
 *
 * The supervisor: a small process that ends the programs of jobs when this process can't do it any more,
 * because it was killed or is frozen.
 *
 * The invariant: a ward that is LIVE is ended by SIGKILL to its process group when its deadline passes
 * or when this process dies, whatever this process does. The table of wards is memory that both share,
 * so entering, moving a deadline and leaving cost no round trip and can't be lost when either of them
 * dies; a socket only wakes the supervisor and tells each side that the other is gone.
 *
 * Not ended: a process that left its process group (setsid, setpgid), or that runs as another user.
 */
#ifndef EMQ_WORKER_SUPERVISOR_H
#define EMQ_WORKER_SUPERVISOR_H

#include "base/clock.h"
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum emq__ward_state {
    EMQ__WARD_FREE = 0,
    EMQ__WARD_LIVE,
    EMQ__WARD_KILLING, /* the supervisor is sending its signal: the pid must not be reaped now */
    EMQ__WARD_KILLED   /* it has been sent */
};

struct emq__ward {
    _Atomic int32_t state; /* an emq__ward_state */
    _Atomic int32_t pgid;
    _Atomic int64_t deadline_us; /* boottime; INT64_MAX = only with this process */
    _Atomic int32_t start_error; /* errno of a start that failed, written by the child */
    int32_t reserved;
};
/* Shared with the supervisor and inherited by its successors. */
struct emq__wards {
    _Atomic int64_t sleeps_until_us; /* the supervisor needs no poke for later deadlines */
    int64_t n;
    struct emq__ward at[];
};

struct emq__supervisor {
    struct emq__wards *wards;
    size_t size; /* bytes of wards */
    int fd;      /* POLLHUP: the supervisor has died. The number never changes */
    struct emq__log log;
    pthread_mutex_t mu; /* guards pid */
    pid_t pid;          /* 0 = none */
};

/* Starts the process. E_NOMEM, E_SYSTEM. */
emq_status emq__supervisor_open(struct emq__supervisor **out, int32_t wards,
                                const struct emq__log *log, emq_error *err);
/* Kills what is LIVE, ends the process, frees. NULL is allowed. */
void emq__supervisor_close(struct emq__supervisor *v);
/* In a forked child: frees and closes, touches no process. */
void emq__supervisor_drop(struct emq__supervisor *v);
/* Starts another one if it has died; the wards stay as they are. EMQ_OK, E_SYSTEM: there is none. */
emq_status emq__supervisor_check(struct emq__supervisor *v, emq_error *err);

static inline struct emq__ward *emq__supervisor_ward(struct emq__supervisor *v, int index)
{
    return &v->wards->at[index];
}

/* Before the start. The deadline is set already. */
void emq__ward_prepare(struct emq__supervisor *v, int index);
/* In the new process, once it leads its group; async-signal-safe. */
void emq__ward_enter(struct emq__supervisor *v, int index, pid_t pgid);
/* Sets the deadline, or moves it forward only. Do not block. */
void emq__ward_until(struct emq__supervisor *v, int index, int64_t deadline_us);
void emq__ward_extend(struct emq__supervisor *v, int index, int64_t deadline_us);
/* Call between the end of the process and its reaping. true: the supervisor had killed it. */
bool emq__ward_leave(struct emq__supervisor *v, int index);

/* supervisor_main.c: the process. Async-signal-safe throughout; does not return. */
struct emq__supervisor_seat {
    struct emq__wards *wards;
    int sock, timer, worker; /* worker: a pidfd; -1 = none */
};
_Noreturn void emq__supervisor_main(const struct emq__supervisor_seat *seat);
/* Moves a descriptor above the standard ones and 3, which programs get. false and errno. */
bool emq__fd_move_up(int *fd);
/* Closes every descriptor but the n that are kept, which are sorted; async-signal-safe. */
void emq__close_others(const int *kept, size_t n);

#endif
