/* SPDX-License-Identifier: MIT
 *
 * Inside of the worker: what its files share.
 *
 *   worker.c   start, stop, join, free, stats, pause: the public face and the life of the threads
 *   options.c  checking and defaults of emq_worker_opts
 *   queues.c   which queue to look at next, and how many to take from it (no store access)
 *   pump.c     the only thread that takes and settles: one act per queue and turn
 *   round.c    one such act: building it, reading its answer, doubts
 *   refused.c  outcomes that the store refuses
 *   pump_idle.c  what the pump does when there is nothing to do: waiting, ending, prefetch limits
 *   verdict.c  what a verdict means for the job: one settle entry
 *   slots.c    the threads that run handlers
 *   lend.c     emq_job_* for handlers
 *   keeper.c   renews locks; never waits for a handler
 *   house.c    the housekeeping thread: sweep.c and promote.c in bounded slices
 *   adopt.c    jobs that are ours in the store and nobody's here
 *   events.c   callbacks and counters
 *   effect.c   effects of handlers: those that end their job, and marked ones
 *   notes.c    what the worker knows, for the history of its jobs
 *   points.c   crash points;  wake.c  wake-up words;  dump.c  state as text
 *
 * Threads: emq-pump, emq-keeper, emq-house, emq-slot (concurrency of them). Locks: `mu` guards what
 * says so; `event_mu` is only held around the user's callback and never together with `mu`. No lock is
 * held during an act of the store or in a handler.
 */
#ifndef EMQ_WORKER_RUNTIME_H
#define EMQ_WORKER_RUNTIME_H

#include "worker/exec.h"
#include "worker/points.h"
#include "worker/wake.h"

#include "base/map.h"

#include <echomq/worker.h>

/* Renewals are due at a third of the lock and at least this often, so that a cancel is seen soon. */
enum {
    EMQ__RENEW_MAX_MS = 2000,
    EMQ__RENEW_SLICE = 500,
    EMQ__POLL_MS = 1000,      /* no wait for work is longer */
    EMQ__BACKOFF_MIN_MS = 20, /* between attempts while the store fails */
    EMQ__BACKOFF_MAX_MS = 1000,
    EMQ__LAST_TRIES_MS = 1000, /* for outcomes, after the grace period, while the store fails */
    EMQ__REFUSED_MAX_MS =
        30000, /* a store that refuses all writes for so long is not waited for at an end */
    EMQ__GIVE_BACK_MAX = 100, /* hand-outs of a job that this worker gives back */
    EMQ__QUEUES_MAX = 256
};

/* ---- a job in hand ----------------------------------------------------------------------- */

enum emq__phase {
    EMQ__READY = 1, /* taken, not begun */
    EMQ__RUNNING,   /* a handler has it */
    EMQ__ENDED      /* the pump has its outcome to settle */
};

/* What became of a run, before policy. */
enum emq__ending {
    EMQ__END_DONE = 1,
    EMQ__END_RETRY,
    EMQ__END_FAIL,
    EMQ__END_GIVE_BACK, /* asked for by the handler: by backoff, not for ever */
    EMQ__END_RELEASE,   /* our own wish: at once, to the front */
    EMQ__END_STALLED,
    EMQ__END_STOPPED /* ended by us: the cancel reason decides */
};

struct emq__text {
    emq_str s; /* ptr NULL = none */
    char *own; /* malloc'ed; NULL: it lies in the outcome's mem */
};
struct emq__outcome {
    enum emq__ending ending;
    struct emq__text result, reason, stack;
    struct emq__arena mem;  /* a program's texts */
    int64_t retry_after_ms; /* -1 = by backoff */
};
/* own: malloc'ed, the text's from now on. */
static inline void emq__text_own(struct emq__text *t, char *own, size_t len)
{
    free(t->own);
    *t = (struct emq__text){emq_strn(own, len), own};
}

struct emq__wqueue;
struct emq__thread;

struct emq__slot {
    emq_worker *w;
    struct emq__wqueue *q;
    emq_job *job;
    struct emq__thread *thread;       /* that runs it; guarded by mu, steady while RUNNING */
    atomic_int refs;                  /* the worker's path, the keeper */
    struct emq__slot *next;           /* in `ready` or `ended` (mu), then in the pump's list */
    struct emq__slot *sooner, *later; /* in the renewal list, by due time; mu */
    bool renewed;                     /* is in the renewal list; mu */
    enum emq__phase phase;            /* mu */
    bool lost;                        /* the store said so; mu */
    int64_t lost_us;                  /* when the renewal that said so was sent; mu */
    int64_t renew_at_us;              /* mu */
    atomic_int cancel;                /* emq_cancel_reason; the first one sticks */
    _Atomic int64_t safe_until_us, run_until_us; /* boottime; INT64_MAX = none */
    int settled; /* an effect has ended the job: an emq_state; the slot's thread, then the pump */
    bool begun;  /* a handler has seen it; the slot's thread, then the pump */
    int64_t taken_us;     /* boottime */
    int64_t started_us;   /* mu */
    int64_t store_now_ms; /* the store's clock at taken_us */
    int64_t timeout_ms;
    struct emq__outcome out; /* the slot's thread, then the pump */
    int64_t not_before_us;   /* pump: this entry waits until then */
    int32_t tries;           /* pump: failed acts */
    uint64_t refused_for;    /* pump: why the store refused it, alone; 0 = it did not */
    bool converted;          /* pump: its outcome was none that the store takes, once */
};

/* ---- queues ------------------------------------------------------------------------------ */

struct emq__wqueue { /* the pump's alone, but name */
    emq_str name;
    int32_t weight;
    bool hungry;             /* the last take was full: there may be more */
    bool plain;              /* no limit, rate, priority, pause, group seen: prefetch allowed */
    bool grouped;            /* the last jobs taken had a group among them */
    uint64_t ticket;         /* before the last look */
    int64_t look_at_us;      /* look then, whatever the ticket says */
    int64_t hold_until_us;   /* do not look before: rate limit, or its take fails */
    int64_t plain_at_us;     /* when `plain` was asked of the store */
    int64_t single_until_us; /* settle without taking until then */
    uint64_t pass;           /* weighted shares: the smallest goes next */
    int32_t cap;             /* entries a settle; halved while acts fail */
    int32_t n_refused;       /* of its outcomes that were refused alone */
    uint64_t kept_for;       /* the cause that was told last; 0 = none is kept */
};

/* ---- threads ----------------------------------------------------------------------------- */

struct emq__thread {
    emq_worker *w;
    pthread_t id;
    bool started;
    int index, fd;
    struct emq__slot *slot; /* mu */
};

struct emq__config { /* of emq_worker_opts, defaults filled in; strings owned by `mem` */
    struct emq__arena mem;
    emq_handler handler;
    void *user;
    emq_event_fn on_event;
    emq_str name;
    int64_t lock_ms, stalled_interval_ms, timeout_ms, grace_ms, max_jobs;
    int64_t max_stalled; /* 0 = none allowed */
    int32_t concurrency, mode, prefetch;
    bool argv, exit_when_empty, start_paused, weighted;
    int64_t renew_ms, margin_ms; /* computed */
};

/* One act that is not known to be done yet. */
struct emq__round {
    struct emq__wqueue *q;   /* NULL = none under way */
    struct emq__slot *slots; /* its entries, in order */
    int32_t n, want;
    bool doubt;
    int32_t tries, refused;
    int64_t sent_us;     /* first time */
    int64_t began_at_ms; /* store clock before it */
};

struct emq__pump {
    char session[EMQ__RANDOM_ID_LEN + 1];
    uint64_t seq;
    struct emq__round round;
    struct emq__slot *pending, **pending_tail; /* outcomes to settle, in order */
    int32_t n_refused;                         /* of them that were refused alone */
    bool full;                                 /* they leave no place: that was told */
    int64_t retry_at_us;                       /* the store fails: nothing before then */
    int32_t failures;                          /* in a row */
    int32_t told;                              /* status of the last ERROR event; 0 = all is well */
    int64_t refused_since_us;                  /* the store refuses what writes; 0 = it does not */
    emq_error refused_with;                    /* the last such failure */
    int64_t now_ms;                            /* the store's clock at its last answer */
    int64_t handed;                            /* jobs taken and not released, for max_jobs */
    int64_t empty_at_us;                       /* exit_when_empty: look again then */
    uint64_t pass_now;                         /* of the queue that was served last */
    double act_us;                             /* moving average, for prefetch */
    struct emq__map given_back;                /* identity -> count */
    bool drained;                              /* FINISHED was said */
};

struct emq_worker {
    emq_client *c;
    struct emq__engine *e;
    struct emq__config cfg;
    struct emq__wqueue *queues;
    emq_str *names; /* of the queues, for wait and ticket */
    size_t n_queues;
    struct emq__exec *exec;
    struct emq__points points;

    pthread_mutex_t mu; /* guards the lists and counts below, and phases */
    pthread_cond_t ready_cv;
    struct emq__slot *ready, **ready_tail;
    struct emq__slot *ended, **ended_tail;
    struct emq__slot *renew_first, *renew_last;
    struct emq__note *notes, **notes_tail;
    int32_t n_notes;
    int32_t n_ready, n_running, n_in_hand; /* n_in_hand: all slots that exist */
    double run_us;                         /* moving average of handler times */
    bool over;                             /* the pump has ended: everyone goes */

    atomic_int stop_level;        /* 0, 1 graceful, 2 now */
    _Atomic int64_t cancel_at_us; /* end of the grace period; INT64_MAX */
    atomic_int paused;
    atomic_int poke;       /* 1: the pump has something to look at */
    atomic_int pump_waits; /* 1: in the store's wait, 2: on pump_wake */
    struct emq__wake pump_wake, keeper_wake, house_wake, end_wake;
    atomic_int keeper_asleep;      /* nothing to renew: ring keeper_wake when there is */
    atomic_int keeper_sick;        /* the last renewal failed */
    _Atomic int64_t beat_since_us; /* a renewal is under way since; 0 = none */
    atomic_int alive;              /* threads */
    atomic_int unstartable, exit_status, gave_up;

    struct {
        _Atomic int64_t started, completed, failed, retried, given_back, lost, recovered, errors,
            takes, takes_failed;
    } count;

    pthread_mutex_t event_mu; /* one callback at a time */
    pthread_mutex_t join_mu;  /* guards joined */
    bool joined;
    struct emq__pump pump; /* the pump's thread only */
    struct emq__thread pump_thread, keeper_thread, house_thread;
    struct emq__thread *threads; /* concurrency slots */
};

/* ---- functions by file ------------------------------------------------------------------- */

/* options.c */
emq_status emq__worker_options(emq_worker *w, const emq_worker_opts *opts, emq_error *err);

/* queues.c: the pump's thread */
void emq__queues_init(emq_worker *w, int64_t now_us);
/* How many to ask each queue for. Strict order: every queue that is worth a look wants all free places,
 * and the caller goes through them in order, with what is left. Weighted: the places are shared out. */
void emq__queues_want(emq_worker *w, int32_t free_places, int64_t now_us, int32_t *want);
/* A take was answered: got of want jobs. ticket: read before it was sent. */
void emq__queue_took(emq_worker *w, struct emq__wqueue *q, int32_t want, uint64_t ticket,
                     const struct emq__taken *t, int64_t store_now_ms, int64_t now_us);
/* When the next queue is to be looked at; INT64_MAX = never without a bell. */
int64_t emq__queues_next_us(const emq_worker *w);

/* pump.c: the pump's thread */
/* Nothing more will come: the other threads end. */
void emq__worker_over(emq_worker *w);
void *emq__pump_main(void *thread);
bool emq__stopping(const emq_worker *w); /* any thread */
/* May new jobs be taken? */
bool emq__pump_may_take(emq_worker *w, int64_t now_us);
int32_t emq__pump_capacity(emq_worker *w); /* places at all, prefetch included */
int32_t emq__pump_places(emq_worker *w);   /* free ones, prefetch included; may be negative */

/* round.c: the pump's thread */
/* Sets up the next act on q: what it can settle, and `want` jobs. false: there is nothing to do. */
bool emq__round_fill(emq_worker *w, struct emq__wqueue *q, int32_t want, int64_t now_us);
/* Sends it and applies the answer; returns how many jobs came. Afterwards round.q is NULL unless the
 * act is in doubt: then it must be sent again, unchanged, before any other. */
int32_t emq__round_run(emq_worker *w);
/* The end of the worker while in doubt: its entries are given up. */
void emq__round_abandon(emq_worker *w);
/* The fate of an outcome is known. */
void emq__outcome_over(emq_worker *w, struct emq__slot *s, emq_event_kind kind, emq_str text);
void emq__pump_trouble(emq_worker *w, emq_str queue, const char *doing, const emq_error *err);
int64_t emq__backoff_jitter_ms(int32_t failures); /* any thread */

/* refused.c: the pump's thread */
/* Is what was asked for to blame, or is something else in its place in the store? */
bool emq__outcome_blamed(const emq_error *err);
/* Alone, and the store can't digest it: it waits for its next try. */
void emq__outcome_refused(emq_worker *w, struct emq__slot *s, const emq_error *err);
/* One that was refused is over. */
void emq__outcome_taken(emq_worker *w, const struct emq__slot *s);

/* pump_idle.c */
void emq__pump_poke(emq_worker *w);                     /* any thread; async-signal-safe */
void emq__pump_wait(emq_worker *w, uint64_t ticket);    /* the pump's thread, as all below */
bool emq__pump_is_empty(emq_worker *w, int64_t now_us); /* exit_when_empty: reads the store */
void emq__pump_plain(emq_worker *w, struct emq__wqueue *q,
                     int64_t now_us); /* may it be prefetched? */

/* verdict.c: what `s` should be settled as. Strings live in mem or in the slot. */
void emq__verdict_entry(emq_worker *w, struct emq__slot *s, struct emq__arena *mem,
                        struct emq__settle_entry *out);

/* worker.c: the last thing a thread does. */
void emq__thread_end(emq_worker *w);

/* slots.c */
void *emq__slot_main(void *thread);
struct emq__slot *emq__slot_new(emq_worker *w, struct emq__wqueue *q);
/* Puts a taken job in hand: renewed, and ready for a thread. */
void emq__slot_arm(struct emq__slot *s, emq_job *job, int64_t sent_us, int64_t store_now_ms);
void emq__slots_ready(emq_worker *w, struct emq__slot *first, int32_t n);
void emq__slot_ref(struct emq__slot *s);
void emq__slot_unref(struct emq__slot *s);
/* The settlement is known: out of all lists. */
void emq__slot_done(struct emq__slot *s);
void emq__slot_cancel(struct emq__slot *s, int reason); /* mu held */
bool emq__slot_held(const struct emq__slot *s);         /* under a lock: not fire-and-forget */

/* keeper.c */
void *emq__keeper_main(void *thread);
bool emq__keeper_can_beat(emq_worker *w, int64_t now_us);
void emq__keeper_add(struct emq__slot *s, int64_t sent_us); /* mu held */
void emq__keeper_remove(struct emq__slot *s);               /* mu held */

/* effect.c */
extern const struct emq__lender emq__slot_lender;
/* What a program that ended well asked for. EMQ_OK: it has ended the job (slot.settled), or *res says why not;
 * a failure gives the job back. */
emq_status emq__slot_exec_effect(struct emq__slot *s, struct emq__exec_result *res, emq_error *err);

/* notes.c */
/* Any thread; mu not held. */
void emq__note(const struct emq__slot *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void emq__notes_write(emq_worker *w); /* the housekeeping thread */
void emq__notes_free(emq_worker *w);

/* house.c, sweep.c, promote.c */
void *emq__house_main(void *thread);
emq_status emq__sweep_once(emq_worker *w, emq_str queue, bool *more, emq_error *err);
emq_status emq__promote_once(emq_worker *w, emq_str queue, bool *more, emq_error *err);

/* adopt.c */
/* Says (log) whether jobs are held under our name already. */
void emq__adopt_at_start(emq_worker *w);
/* A take's answer was in doubt: releases, uncharged, what it gave us without our knowing. */
void emq__adopt_after_doubt(emq_worker *w, int64_t since_at_ms);
/* Gives back, uncharged, a job that was taken and has no slot. */
emq_status emq__untake(emq_worker *w, const struct emq__job *j, const char *why, emq_error *err);

/* events.c */
void emq__event(emq_worker *w, emq_event_kind kind, struct emq__slot *s, emq_str text);
void emq__event_queue(emq_worker *w, emq_event_kind kind, emq_str queue, emq_str id, emq_str text);
void emq__event_error(emq_worker *w, emq_str queue, const char *doing, const emq_error *err);

#endif
