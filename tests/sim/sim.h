/* SPDX-License-Identifier: MIT
 *
 * Simulation: many workers, one producer and one administrator step over one engine under a virtual
 * clock, with crashes, pauses longer than the lock, lost requests and lost replies. Everything
 * follows from the seed; on the model engine a run repeats exactly.
 *
 * After each step the whole queue is looked at (sim.c); the worker's behaviour is in sim_worker.c.
 */
#ifndef EMQ_TESTS_SIM_H
#define EMQ_TESTS_SIM_H

#include "lib/engine_fixture.h"

enum { SIM_WORKERS = 6, SIM_SLOTS = 3, SIM_JOBS = 120, SIM_LOCK_MS = 30000, SIM_MAX_STALLED = 3 };

struct sim_held {
    char id[24];
    char token[EMQ_TOKEN_MAX + 1];
    int64_t deadline_ms; /* of the lock, counted from when the request was sent */
    int work_left;       /* steps until the effect */
    bool at_most_once;
    bool settling; /* sent, answer unknown: no longer worked on */
};

enum sim_doubt { SIM_CLEAR, SIM_DOUBT_TAKE, SIM_DOUBT_SETTLE, SIM_DOUBT_MARK };

struct sim_worker {
    char name[16];
    char session[24];
    uint64_t seq;
    int incarnation;
    bool dead;
    int64_t frozen_until_ms;
    struct sim_held held[SIM_SLOTS];
    size_t n_held;
    /* The call whose answer did not come; it is repeated with the same sequence until it does. */
    enum sim_doubt doubt;
    int64_t sent_ms;
    struct emq__take take;
    struct emq__settle_entry settle;
    enum emq__mark_kind mark; /* of the job of the settlement */
    char settle_id[24], settle_token[EMQ_TOKEN_MAX + 1];
};

/* What the world knows of a job, apart from the store. */
struct sim_job {
    char id[24];
    bool accepted; /* the producer was told so */
    int effects;
    int completions;   /* acknowledgements that were accepted */
    int64_t fence;     /* of the last hand-out seen */
    bool at_most_once; /* was handed out in that mode */
};

struct sim {
    struct emq__engine *e;     /* with faults */
    struct emq__engine *under; /* without, under the check decorator */
    uint64_t seed, random;
    int step;
    int64_t safe_ms; /* so long before its end a worker stops believing in a lock */
    bool faults;
    struct sim_worker workers[SIM_WORKERS];
    struct sim_job jobs[SIM_JOBS];
    size_t n_jobs;
    uint64_t producer_seq;
    bool producer_doubt;
    int64_t now_ms, last_fence;
    struct emq__arena mem;        /* of the picture */
    struct emq__dump_res picture; /* after the last step */
    uint64_t hash;                /* of the whole run */
    char what[120];               /* the step, for the report */
    char log[24][120];
};

uint64_t sim_pick(struct sim *s, uint64_t n);
bool sim_chance(struct sim *s, unsigned percent);
__attribute__((format(printf, 2, 3))) void sim_note(struct sim *s, const char *fmt, ...);
__attribute__((format(printf, 2, 3), noreturn)) void sim_broken(struct sim *s, const char *fmt,
                                                                ...);
struct sim_job *sim_job_of(struct sim *s, const char *id);
const struct emq__job *sim_stored(const struct sim *s, const char *id); /* of the picture */

void sim_worker_start(struct sim *s, int index);
void sim_worker_step(struct sim *s, struct sim_worker *w);
/* Is the doubt over? "Not sent" says nothing about an earlier sending of the same call. */
bool sim_doubt_stays(emq_status st, bool first);
/* Sends the settlement that w->settle holds; or gives it up, the job with it when it is lost. */
void sim_worker_settle(struct sim *s, struct sim_worker *w);
void sim_worker_forget(struct sim_worker *w, bool lost);

/* sim_effect.c: is the effect of this job behind a marker? Claims it, makes it, records it, and then settles. */
bool sim_is_marked(const char *id);
void sim_effect(struct sim *s, struct sim_worker *w);
/* The same call again, whose answer did not come. */
void sim_effect_again(struct sim *s, struct sim_worker *w);

/* A whole run; returns the hash of everything that happened. */
uint64_t sim_run(enum fx_kind kind, uint64_t seed, int steps);

#endif
