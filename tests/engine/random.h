/* SPDX-License-Identifier: MIT
 *
 * Random comparison: the same operations on the model engine and on a real one, in lockstep, with
 * results and whole pictures compared after each. What cannot be equal is normalised: instants (a
 * real engine's clock runs a little by itself), fences and tokens (paired at each hand-out).
 *
 * All spans of the operations are multiples of RANDOM_STEP_MS, so that the little that the real clock
 * runs by itself never decides anything.
 */
#ifndef EMQ_TESTS_RANDOM_H
#define EMQ_TESTS_RANDOM_H

#include "lib/engine_fixture.h"

enum { RANDOM_STEP_MS = 60000, RANDOM_QUEUES = 2, RANDOM_LOG = 30, RANDOM_HANDOUTS = 400 };

/* One hand-out as both engines named it. */
struct handout {
    int queue;
    char id[64];
    char token[2][EMQ_TOKEN_MAX + 1];
    int64_t fence[2];
};

struct lockstep {
    struct emq__engine *e[2]; /* 0 the model, 1 the real engine */
    uint64_t seed, random;
    int64_t t0[2];    /* the engines' time at the start */
    int64_t now[2];   /* of the last act */
    int64_t real0_ms; /* of the test's own clock at the start */
    int op;           /* index of the operation */
    char log[RANDOM_LOG][200];
    struct handout handouts[RANDOM_HANDOUTS]; /* a ring */
    size_t n_handouts;
    struct emq__arena mem[2]; /* pictures before and after, by turns */
    int turn;
    struct emq__dump_res before[RANDOM_QUEUES], after[RANDOM_QUEUES]; /* the model's */
    char cursor[2][RANDOM_QUEUES][64];                                /* of the events */
    uint64_t seq;                                                     /* of the session */
    unsigned moves; /* bits of emq__move that this operation may make */
};

emq_str random_queue(int queue);
uint64_t pick(struct lockstep *l, uint64_t n); /* 0..n-1 */
bool chance(struct lockstep *l, unsigned percent);

/* Notes what the operation is, for the report. */
__attribute__((format(printf, 2, 3))) void note(struct lockstep *l, const char *fmt, ...);
/* Ends the test with seed, operation and the last operations. */
__attribute__((format(printf, 2, 3), noreturn)) void differ(struct lockstep *l, const char *fmt,
                                                            ...);

void same_i64(struct lockstep *l, const char *what, int64_t model, int64_t real);
void same_str(struct lockstep *l, const char *what, emq_str model, emq_str real);
/* An instant as both clocks show it; 0 must be 0 on both sides. */
void same_instant(struct lockstep *l, const char *what, int64_t model, int64_t real);
void same_job(struct lockstep *l, const struct emq__job *model, const struct emq__job *real);
void same_jobs(struct lockstep *l, const char *what, struct emq__job *const *model, size_t n_model,
               struct emq__job *const *real, size_t n_real);
/* Pictures, events and legal moves of all queues after an operation. */
void same_picture(struct lockstep *l);
void note_handout(struct lockstep *l, int queue, const struct emq__job *model,
                  const struct emq__job *real);

/* One random operation on both engines. */
void random_operation(struct lockstep *l);
/* The administrator's part of them. */
void random_admin(struct lockstep *l);
void random_effect(struct lockstep *l);
/* A job of the picture, preferably in this state (0 = any); NULL when there is none. */
const struct emq__job *any_job(struct lockstep *l, int queue, int state);

#define CALL2(l, act, reqs, ress) call2_##act(l, reqs, ress)
#define DECLARE_CALL2(act, mutating)                                               \
    emq_status call2_##act(struct lockstep *l, const struct emq__##act##_req *req, \
                           struct emq__##act##_res *res);
EMQ__ACTS(DECLARE_CALL2)
#undef DECLARE_CALL2

#endif
