/* SPDX-License-Identifier: MIT
 *
 * Staged adds: jobs of one big add that become visible together. A stage is published by one act
 * whose cost does not depend on its size: the jobs' positions are reserved and counted there, the
 * rows follow in slices (a take places the next slice before it takes; reading what is in its place places
 * nothing; other acts finish all first).
 *
 * The one invariant: no job behind the reserved positions is handed out before the rows in front
 * of it are in their places.
 */
#ifndef EMQ_ENGINE_SQLITE_STAGE_H
#define EMQ_ENGINE_SQLITE_STAGE_H

#include "engine/sqlite/row.h"

enum { SQ_STAGE_LIFE_MS = 60 * 60 * 1000 };
/* Dedup options of a staged job, in its row until the publication. */
enum { SQ_DEDUP_EXTEND = 1, SQ_DEDUP_REPLACE = 2, SQ_DEDUP_KEEP_LAST = 4 };

/* A new record. Strings are borrowed. */
struct sq_new {
    emq_str id, name;
    struct emq__payload data;
    emq_str opts, group, parent_key, parent, scheduler, dedup_id;
    int64_t timestamp_at_ms, delay_ms;
    int32_t priority;
    bool lifo;
};
/* Inserts the row in its place and counts it, with its events (act_add.c). The id must be free:
 * otherwise *exists, and nothing changed. *state: where it is now. */
emq_status sq_insert_job(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j, bool *exists,
                         int32_t *state, emq_error *err);
/* The row only, at a given place; *jid = 0 when the id is taken. */
emq_status sq_insert_row(struct sq_tx *tx, const struct sq_queue *q, const struct sq_new *j,
                         int32_t state, int64_t ord1, int64_t ord2, int64_t *jid, emq_error *err);

/* Like sq_queue_open() with create, but the queue is visible from its first job only. */
emq_status sq_queue_open_for_add(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_queue *q,
                                 emq_error *err);

struct sq_stage {
    int64_t sid, jobs;
    bool eager;
};
/* The stage of this name, made if absent or expired; touched. */
emq_status sq_stage_open(struct sq_tx *tx, emq_str prefix, emq_str name, bool goes_on,
                         struct sq_stage *out, emq_error *err);
/* After the act's jobs were inserted. */
emq_status sq_stage_save(struct sq_tx *tx, const struct sq_stage *stage, emq_error *err);
/* What the act added of one queue; by[] counts the states that they will have. */
emq_status sq_stage_count(struct sq_tx *tx, const struct sq_stage *stage, const struct sq_queue *q,
                          const int64_t by[SQ_STATES], emq_error *err);
/* What the state of a staged job is to others: 0 while its stage is not published. *gone: the stage has
 * ended, and what was left of the job is removed here. */
emq_status sq_stage_state(struct sq_tx *tx, const struct sq_queue *q, const struct sq_row *row,
                          int32_t *state, bool *gone, emq_error *err);

/* Puts the next jobs of published stages in their places, the oldest stage first, with their events: a
 * slice, at most SQ_SLICE jobs. Nothing when there is none. */
emq_status sq_stage_place(struct sq_tx *tx, struct sq_queue *q, emq_error *err);
/* Positions from here on wait for a stage; INT64_MAX = none does. */
emq_status sq_stage_barrier(struct sq_tx *tx, const struct sq_queue *q, int64_t *pos,
                            emq_error *err);
/* It has ended: its ids are free, expiry removes what it held. EMQ_NOT_FOUND: no such stage, expired, or
 * published. */
emq_status sq_stage_drop(struct sq_tx *tx, emq_str prefix, emq_str name, emq_error *err);
/* Is there an expired stage? (reading) */
emq_status sq_stage_any_expired(struct sq_tx *tx, bool *any, emq_error *err);
/* Removes a slice of one expired stage, and the stage when nothing is left of it. *more: there may be
 * more to remove, of this one or another. */
emq_status sq_stage_expire(struct sq_tx *tx, bool *more, emq_error *err);

/* ---- for the publication (act_publish.c) ------------------------------------------------------- */

enum {
    SQ_PARTS = 64,      /* queues of one stage that are read in one go */
    SQ_STAGE_PAGE = 100 /* jobs that are read in one go */
};

/* What a stage holds of one queue. */
struct sq_part {
    int64_t qid, last, by[SQ_STATES];
};
struct sq_staged {
    int64_t jid, seq, delay_ms, timestamp_at_ms, dedup_ttl_ms;
    int32_t priority, dedup_flags;
    bool lifo;
    emq_str id, name, dedup_id;
};

/* A statement with numbers only; one number of its one row, if *found. */
emq_status sq_stage_run(struct sq_tx *tx, enum sq_sql sql, const int64_t *v, int n, emq_error *err);
emq_status sq_stage_look(struct sq_tx *tx, enum sq_sql sql, const int64_t *v, int n, int64_t *out,
                         bool *found, emq_error *err);
/* out->sid = 0: no such stage. */
emq_status sq_stage_find(struct sq_tx *tx, emq_str prefix, emq_str name, struct sq_stage *out,
                         bool *expired, emq_error *err);
/* The parts of a stage that are not published yet. */
emq_status sq_stage_parts(struct sq_tx *tx, int64_t sid, struct sq_part list[SQ_PARTS], size_t *n,
                          emq_error *err);
/* Its jobs of a queue in their order, from the sequence `from` on. */
emq_status sq_staged_read(struct sq_tx *tx, const struct sq_queue *q, int64_t sid, int64_t from,
                          int64_t limit, struct emq__arena *mem, struct sq_staged **out, size_t *n,
                          emq_error *err);
int32_t sq_state_to_be(int64_t delay_ms, int64_t priority);
/* Writes the place and the events. */
emq_status sq_stage_put(struct sq_tx *tx, struct sq_queue *q, const struct sq_staged *j,
                        int64_t position, emq_error *err);

/* ---- the neighbours --------------------------------------------------------------------------- */

/* Dedup at the add of a job (dedup.c): may it be added? EMQ_OK: yes, and it holds the id now.
 * EMQ_DEDUPLICATED: *owner and *owner_state say which job stands in the way. */
emq_status sq_dedup_admit(struct sq_tx *tx, struct sq_queue *q, const struct sq_new *j,
                          const struct emq__dedup *d, emq_str *owner, int32_t *owner_state,
                          struct emq__arena *mem, emq_error *err);
/* The owner has finished for good: its id ends, or the kept last duplicate takes it over. */
emq_status sq_dedup_finished(struct sq_tx *tx, struct sq_queue *q, const struct sq_row *row,
                             struct emq__arena *mem, emq_error *err);

/* Adds the kept duplicate, which holds the dedup id then: under the id it was given, or the counter's if that is
 * taken by now. Without one the dedup id ends. */
emq_status sq_dedup_next_add(struct sq_tx *tx, struct sq_queue *q, emq_str dedup_id,
                             struct emq__arena *mem, emq_error *err);

/* Deletes a row and its side rows; no counter (row.c). */
emq_status sq_delete_rows(struct sq_tx *tx, int64_t jid, int32_t side, int32_t logs,
                          emq_error *err);

#endif
