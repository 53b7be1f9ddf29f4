/* SPDX-License-Identifier: MIT
 *
 * Inside of the model engine: records and the helpers its files share. Everything here runs under
 * the engine's one mutex. Out of memory aborts: the model is only used by tests.
 */
#ifndef EMQ_TESTS_NAIVE_INTERNAL_H
#define EMQ_TESTS_NAIVE_INTERNAL_H

#include "base/str.h"
#include "lib/naive.h"

#include <pthread.h>

enum { NV_STAGED = EMQ_STATE_COUNT + 1, NV_STAGE_TTL_MS = 3600 * 1000 };

/* A growing array of byte strings, each its own copy. */
struct nv_lines {
    emq_str *v;
    size_t n;
};

struct nv_job {
    struct emq__job j; /* lock_left_ms is computed when it is read */
    struct emq__arena mem;
    struct nv_lines logs, history;
    struct nv_stage *stage;  /* state NV_STAGED */
    int64_t rank;            /* in it */
    struct emq__dedup dedup; /* as added; used at publish */
    int64_t lock_end_at_ms;
    int64_t expires_at_ms; /* finished: absent for add from then on; 0 = never */
    int64_t ord1, ord2;    /* the place inside its state: smaller first */
    bool lifo;
};

struct nv_dedup {
    emq_str id, owner;     /* malloc'ed */
    int64_t expires_at_ms; /* 0 = no TTL */
    struct nv_job *next;   /* keep-last: the entry that runs next; not in the queue's jobs */
};

struct nv_event {
    int64_t ms, seq;
    emq_str json;
};

struct nv_stage {
    emq_str prefix, name;
    int64_t expires_at_ms, jobs; /* jobs: that it took */
};

struct nv_queue {
    emq_str prefix, name;
    bool exists; /* false: it only holds staged jobs */
    struct nv_job **jobs;
    size_t n_jobs;
    struct nv_dedup *dedup;
    size_t n_dedup;
    struct nv_event *events;
    size_t n_events;
    /* their strings are malloc'ed; done_at_ms says whether they are done */
    struct emq__marker *markers;
    size_t n_markers;
    struct emq__meta_field *meta;
    size_t n_meta;
    int64_t last_event_ms, last_event_seq;
    int64_t id_counter, last_fence;
    int64_t front, back;                             /* places: front falls, back grows */
    int64_t limit_count, limit_end_at_ms, limit_max; /* rate window; limit_max of the last take */
    struct emq__totals totals;
};

struct nv_receipt {
    char *session;
    size_t session_len;
    uint64_t seq;
    const char *act;
    bool done;
    emq_status status;
    void *res;
    struct emq__arena mem;
    struct nv_receipt *older; /* results of older acts may still be in use */
};

struct naive {
    struct emq__engine e;
    pthread_mutex_t mu; /* guards everything below, but ticket */
    int64_t now_ms;
    _Atomic uint64_t ticket;
    struct nv_queue **queues;
    size_t n_queues;
    struct nv_stage **stages;
    size_t n_stages;
    struct nv_receipt **receipts; /* one a session, the newest */
    size_t n_receipts;
};

/* ---- memory: abort instead of failing */
void *nv_alloc(size_t n); /* cleared */
void *nv_grow(void *array, size_t n,
              size_t elem); /* room for n + 1 elements, the new one cleared */
emq_str nv_dup(emq_str s);  /* malloc'ed copy; free((char *)ptr) through nv_free_str */
void nv_free_str(emq_str s);
emq_str nv_put(struct emq__arena *mem, emq_str s);
void nv_lines_add(struct nv_lines *l, emq_str s);
void nv_lines_keep(struct nv_lines *l, int64_t keep); /* the newest; -1 = all */

/* ---- queues and jobs */
struct nv_queue *nv_queue_find(struct naive *n, emq_str prefix, emq_str name); /* NULL: no such */
struct nv_queue *nv_queue_make(struct naive *n, emq_str prefix, emq_str name);
void nv_queue_free(struct nv_queue *q);
struct nv_job *nv_job_find(struct nv_queue *q, emq_str id);    /* staged ones too; q may be NULL */
struct nv_job *nv_job_visible(struct nv_queue *q, emq_str id); /* NULL for staged ones */
struct nv_job *nv_job_new(void);
void nv_job_free(struct nv_job *job);
void nv_job_link(struct nv_queue *q, struct nv_job *job);
void nv_job_unlink(struct nv_queue *q, struct nv_job *job);
/* The jobs of a state in order, malloc'ed; *count 0 and NULL when none. */
struct nv_job **nv_sorted(const struct nv_queue *q, int state, size_t *count);
int64_t nv_count(const struct nv_queue *q, int state);
struct emq__job *nv_job_copy(struct naive *n, const struct nv_job *job, struct emq__arena *mem);
bool nv_locked(const struct naive *n, const struct nv_job *job); /* under a live lock */
void nv_history_at(struct nv_job *job, int64_t at_ms, const char *what, emq_str who,
                   emq_str detail);
void nv_history(struct naive *n, struct nv_job *job, const char *what, emq_str who, emq_str detail);

/* ---- settings */
const emq_str *nv_meta(const struct nv_queue *q, const char *field);
int64_t nv_meta_i64(const struct nv_queue *q, const char *field); /* 0 = absent or no number */
bool nv_paused(const struct nv_queue *q);
bool nv_maxed(const struct nv_queue *q);

/* ---- events: build, then emit */
void nv_event_begin(struct emq__buf *b, const char *event, emq_str job_id);
void nv_event_str(struct emq__buf *b, const char *key, emq_str value);
void nv_event_i64(struct emq__buf *b, const char *key, int64_t value);
void nv_event_emit(struct naive *n, struct nv_queue *q, struct emq__buf *b);
void nv_event(struct naive *n, struct nv_queue *q, const char *event, emq_str job_id,
              const char *prev); /* prev NULL = none */

/* ---- moves (naive_core.c). None of them checks whether it is allowed. */
void nv_place_line(struct naive *n, struct nv_queue *q, struct nv_job *job, bool front);
void nv_place_delayed(struct naive *n, struct nv_queue *q, struct nv_job *job, int64_t due_at_ms);
void nv_place_new(struct naive *n, struct nv_queue *q, struct nv_job *job); /* line or delayed */
void nv_unlock(struct nv_job *job); /* forgets lock, mode and cancel */
/* Ends the record: dedup key released when `release`, totals.removed + 1. Frees the job. */
void nv_remove(struct naive *n, struct nv_queue *q, struct nv_job *job, bool release_key);
/* Into completed or failed: event, dedup end of life, retention. They may free the job and return its
 * state afterwards (0 = gone). */
int nv_complete(struct naive *n, struct nv_queue *q, struct nv_job *job, struct emq__payload result,
                const struct emq__keep *keep);
int nv_fail(struct naive *n, struct nv_queue *q, struct nv_job *job, emq_str reason,
            const struct emq__keep *keep); /* keep NULL = of its opts */
struct emq__keep nv_keep_failed(const struct nv_job *job);
/* stc + 1, back to the front of its line or failed. Returns the state after (0 = gone). */
int nv_stall(struct naive *n, struct nv_queue *q, struct nv_job *job, int64_t max_stalled,
             emq_str reason, const struct emq__keep *keep);
int64_t nv_promote_due(struct naive *n, struct nv_queue *q, int64_t limit);
/* NULL: none that a take of this mode would not leave to others. */
struct nv_job *nv_next_in_line(const struct nv_queue *q, int32_t mode);
int64_t nv_next_due(const struct nv_queue *q);
int64_t nv_limited_ms(struct naive *n, const struct nv_queue *q, int64_t max);
void nv_trim_expired(struct naive *n, struct nv_queue *q);
void nv_trim_stages(struct naive *n);
void nv_ring(struct naive *n);

/* ---- dedup */
struct nv_dedup *nv_dedup_find(struct naive *n, struct nv_queue *q,
                               emq_str id); /* live keys only */
void nv_dedup_drop(struct nv_queue *q, struct nv_dedup *d);
/* What dedup says to a new job: EMQ_OK (go on; the key is taken) or EMQ_DEDUPLICATED, then *owner is
 * the owner's id (in mem) and *state its state. With keep-last `job` may have been consumed: then
 * *kept is true and the caller forgets it. */
emq_status nv_dedup_apply(struct naive *n, struct nv_queue *q, struct nv_job *job, emq_str *owner,
                          int *state, bool *kept, struct emq__arena *mem);

/* The owner has ended: its key ends too, or the kept next job takes it over. */
void nv_key_end(struct naive *n, struct nv_queue *q, const struct nv_job *job);

/* ---- effects */
void nv_marker_drop(struct nv_queue *q, struct emq__marker *m);
/* Is any effect of the job known to be done? */
bool nv_effect_done(struct naive *n, struct nv_queue *q, const struct nv_job *job);
void nv_effects_prolong(struct naive *n, struct nv_queue *q, const struct nv_job *job);
void nv_effects_forget(struct nv_queue *q, const struct nv_job *job);

/* ---- receipts. EMQ_OK with *r NULL: none wanted; (*r)->done: answer with it. */
emq_status nv_receipt(struct naive *n, const struct emq__call *call, const char *act,
                      size_t res_size, struct nv_receipt **r, emq_error *err);
void nv_receipt_drop(struct naive *n, struct nv_receipt *r);

/* Wraps do_<act>() with the mutex, a cleared result and now_ms; the second also with the receipt. */
#define NV_ACT(act)                                                                               \
    emq_status nv_act_##act(struct emq__engine *e, const struct emq__##act##_req *req,            \
                            struct emq__##act##_res *res, struct emq__arena *mem, emq_error *err) \
    {                                                                                             \
        struct naive *n = (struct naive *)e;                                                      \
        pthread_mutex_lock(&n->mu);                                                               \
        memset(res, 0, sizeof *res);                                                              \
        emq_status s = do_##act(n, req, res, mem, err);                                           \
        res->now_ms = n->now_ms;                                                                  \
        pthread_mutex_unlock(&n->mu);                                                             \
        return s;                                                                                 \
    }
#define NV_ACT_ONCE(act)                                                                          \
    emq_status nv_act_##act(struct emq__engine *e, const struct emq__##act##_req *req,            \
                            struct emq__##act##_res *res, struct emq__arena *mem, emq_error *err) \
    {                                                                                             \
        struct naive *n = (struct naive *)e;                                                      \
        pthread_mutex_lock(&n->mu);                                                               \
        struct nv_receipt *r = NULL;                                                              \
        emq_status s = nv_receipt(n, &req->call, #act, sizeof *res, &r, err);                     \
        if (s == EMQ_OK && r && r->done) {                                                        \
            memcpy(res, r->res, sizeof *res);                                                     \
            s = r->status;                                                                        \
        } else if (s == EMQ_OK) {                                                                 \
            memset(res, 0, sizeof *res);                                                          \
            s = do_##act(n, req, res, r ? &r->mem : mem, err);                                    \
            if (r && s < 0) {                                                                     \
                nv_receipt_drop(n, r);                                                            \
            } else if (r) {                                                                       \
                memcpy(r->res, res, sizeof *res);                                                 \
                r->status = s;                                                                    \
                r->done = true;                                                                   \
            }                                                                                     \
        }                                                                                         \
        res->now_ms = n->now_ms;                                                                  \
        pthread_mutex_unlock(&n->mu);                                                             \
        return s;                                                                                 \
    }

#define NV_DECL(act, mutating)                                                     \
    emq_status nv_act_##act(struct emq__engine *, const struct emq__##act##_req *, \
                            struct emq__##act##_res *, struct emq__arena *, emq_error *);
EMQ__ACTS(NV_DECL)
#undef NV_DECL

#endif
