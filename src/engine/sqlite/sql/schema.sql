-- SPDX-License-Identifier: MIT
--
-- The schema, step 1. One invariant: a job is one row of emq_job, its state and its place are
-- columns of that row, so that it is in exactly one place at any moment.
--
-- Every table is STRICT and readable in the sqlite3 shell; the view emq_jobs shows names instead of
-- numbers. A later step only adds: columns at the end (readers go by column order), tables, indexes.
--
-- state: 1 waiting, 2 active, 3 delayed, 4 prioritized, 5 waiting-children, 6 completed, 7 failed,
-- 8 staged (invisible until its stage is published).
--
-- ord1, ord2: the place within the state. ONE index serves all states, so that a move costs one
-- index entry:
--   waiting           0            position in the line (grows at the back, falls at the front)
--   prioritized       priority     position in the line
--   delayed           due ms       sequence
--   active            fence        0
--   waiting-children  timestamp    sequence
--   completed, failed finished ms  sequence
--   staged            stage        sequence within the stage
-- Positions and sequences come from two counters of the queue: `back` grows, `front` falls.
--
-- Instants are Unix milliseconds (at_ms); lock ends are CLOCK_BOOTTIME milliseconds of the boot
-- whose row number stands beside them. Payload kinds: 1 JSON, 2 other UTF-8 text, 3 bytes, 0 none.
-- Payloads over 1 KiB live in emq_data and emq_result, so that a move does not rewrite them.

-- name: schema_create
CREATE TABLE emq_schema (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL -- of the last step; user_version is the application's
) STRICT;
INSERT INTO emq_schema VALUES (1, 0);

CREATE TABLE emq_boot (
    boot       INTEGER PRIMARY KEY,
    boot_id    TEXT NOT NULL UNIQUE, -- the kernel's
    seen_at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE emq_queue (
    qid     INTEGER PRIMARY KEY,
    prefix  TEXT NOT NULL,
    name    TEXT NOT NULL,
    last_id INTEGER NOT NULL DEFAULT 0, -- counter of automatic job ids
    fence   INTEGER NOT NULL DEFAULT 0, -- of the last hand-out
    front   INTEGER NOT NULL DEFAULT 0, -- last position given at the front of the line
    back    INTEGER NOT NULL DEFAULT 0, -- last position or sequence given at the back
    n_waiting          INTEGER NOT NULL DEFAULT 0,
    n_active           INTEGER NOT NULL DEFAULT 0,
    n_delayed          INTEGER NOT NULL DEFAULT 0,
    n_prioritized      INTEGER NOT NULL DEFAULT 0,
    n_waiting_children INTEGER NOT NULL DEFAULT 0,
    n_completed        INTEGER NOT NULL DEFAULT 0,
    n_failed           INTEGER NOT NULL DEFAULT 0,
    n_retry_delayed    INTEGER NOT NULL DEFAULT 0, -- delayed jobs that have been handed out before
    t_added        INTEGER NOT NULL DEFAULT 0, -- totals since the queue was made
    t_started      INTEGER NOT NULL DEFAULT 0,
    t_completed    INTEGER NOT NULL DEFAULT 0,
    t_failed       INTEGER NOT NULL DEFAULT 0,
    t_retried      INTEGER NOT NULL DEFAULT 0,
    t_recovered    INTEGER NOT NULL DEFAULT 0,
    t_deduplicated INTEGER NOT NULL DEFAULT 0,
    t_removed      INTEGER NOT NULL DEFAULT 0,
    limit_count    INTEGER NOT NULL DEFAULT 0, -- rate limit: taken in the window that ends at
    limit_until_ms INTEGER NOT NULL DEFAULT 0,
    limit_max      INTEGER NOT NULL DEFAULT 0, -- of the last take that was under a limit
    event_ms       INTEGER NOT NULL DEFAULT 0, -- id of the last event
    event_seq      INTEGER NOT NULL DEFAULT 0,
    event_count    INTEGER NOT NULL DEFAULT 0, -- events now stored
    publishing     INTEGER NOT NULL DEFAULT 0, -- published stages with jobs not yet in their places
    visible        INTEGER NOT NULL DEFAULT 1, -- 0 = only unpublished stages so far: no such queue
    UNIQUE (prefix, name)
) STRICT;

CREATE TABLE emq_meta (
    qid   INTEGER NOT NULL,
    field TEXT NOT NULL, -- paused, concurrency, max, duration, opts.maxLenEvents, ...
    value TEXT NOT NULL,
    PRIMARY KEY (qid, field)
) STRICT, WITHOUT ROWID;

CREATE TABLE emq_job (
    jid         INTEGER PRIMARY KEY,
    qid         INTEGER NOT NULL,
    id          TEXT NOT NULL,
    state       INTEGER NOT NULL,
    ord1        INTEGER NOT NULL,
    ord2        INTEGER NOT NULL,
    priority    INTEGER NOT NULL DEFAULT 0,
    attempts_made    INTEGER NOT NULL DEFAULT 0, -- BullMQ's atm
    attempts_started INTEGER NOT NULL DEFAULT 0, -- ats
    stalled     INTEGER NOT NULL DEFAULT 0, -- stc
    fence       INTEGER NOT NULL DEFAULT 0, -- of the last hand-out; the token is worker:fence
    lock_end    INTEGER NOT NULL DEFAULT 0, -- active: CLOCK_BOOTTIME ms; staged: dedup TTL
    lock_boot   INTEGER NOT NULL DEFAULT 0, -- emq_boot of lock_end
    mode        INTEGER NOT NULL DEFAULT 0, -- active: 0 at-least-once, 1 at-most-once; staged: 1 lifo
    cancel      INTEGER NOT NULL DEFAULT 0, -- 1 = the owner was asked to stop; staged: dedup flags
    logs        INTEGER NOT NULL DEFAULT 0, -- lines in emq_log
    side        INTEGER NOT NULL DEFAULT 0, -- 1: row in emq_data, 2: emq_result, 4: emq_dependency, 8: emq_history
    data_kind   INTEGER NOT NULL DEFAULT 0,
    result_kind INTEGER NOT NULL DEFAULT 0,
    timestamp_at_ms INTEGER NOT NULL,
    delay_ms        INTEGER NOT NULL DEFAULT 0,
    processed_at_ms INTEGER NOT NULL DEFAULT 0,
    finished_at_ms  INTEGER NOT NULL DEFAULT 0,
    expires_at_ms   INTEGER NOT NULL DEFAULT 0, -- finished: absent for an add from then on; 0 = never
    worker      TEXT, -- processedBy, and the first part of the token
    name        TEXT NOT NULL,
    dedup_id    TEXT,
    deferred    TEXT, -- defa: fail with this text instead of running
    grp         TEXT,
    scheduler   TEXT,
    parent_key  TEXT,
    parent      TEXT, -- JSON
    opts        TEXT NOT NULL, -- JSON, as it was given
    data        ANY, -- NULL when in emq_data
    result      ANY,
    progress    TEXT,
    failed_reason TEXT,
    stacktrace  TEXT, -- JSON array of strings
    redo        INTEGER NOT NULL DEFAULT 0, -- how often its effects were asked for anew
    UNIQUE (qid, id)
) STRICT;
CREATE INDEX emq_job_place ON emq_job (qid, state, ord1, ord2);

CREATE TABLE emq_data (
    jid   INTEGER PRIMARY KEY,
    bytes ANY NOT NULL
) STRICT;
CREATE TABLE emq_result (
    jid   INTEGER PRIMARY KEY,
    bytes ANY NOT NULL
) STRICT;

CREATE TABLE emq_log (
    jid  INTEGER NOT NULL,
    n    INTEGER NOT NULL, -- grows; the lines of a job have no holes
    line TEXT NOT NULL,
    PRIMARY KEY (jid, n)
) STRICT, WITHOUT ROWID;

-- Children as their parent sees them. kind: 1 pending, 2 processed, 3 ignored failure, 4 failed.
CREATE TABLE emq_dependency (
    jid   INTEGER NOT NULL, -- the parent
    child TEXT NOT NULL,    -- job key, prefix:queue:id
    kind  INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    value ANY,              -- processed: the result; ignored: the reason
    PRIMARY KEY (jid, child)
) STRICT, WITHOUT ROWID;

CREATE TABLE emq_dedup (
    qid   INTEGER NOT NULL,
    id    TEXT NOT NULL,
    owner TEXT NOT NULL,           -- job id
    expires_at_ms INTEGER NOT NULL DEFAULT 0, -- 0 = until the owner is finished
    has_next      INTEGER NOT NULL DEFAULT 0, -- 1 = a row in emq_dedup_next
    PRIMARY KEY (qid, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX emq_dedup_end ON emq_dedup (expires_at_ms) WHERE expires_at_ms > 0;

-- keep-last: the last duplicate that came while the owner was active; added when that finishes.
CREATE TABLE emq_dedup_next (
    qid   INTEGER NOT NULL,
    id    TEXT NOT NULL, -- dedup id
    job_id TEXT NOT NULL,
    name  TEXT NOT NULL,
    priority  INTEGER NOT NULL,
    delay_ms  INTEGER NOT NULL,
    lifo      INTEGER NOT NULL,
    grp   TEXT,
    scheduler  TEXT,
    parent_key TEXT,
    parent     TEXT,
    opts  TEXT NOT NULL,
    data_kind INTEGER NOT NULL,
    data  ANY,
    PRIMARY KEY (qid, id)
) STRICT;

-- Events of one act share a row: body has n lines, one JSON object each, without the id. Their ids
-- are ms-seq, ms-(seq+1), ...
CREATE TABLE emq_event (
    qid  INTEGER NOT NULL,
    ms   INTEGER NOT NULL,
    seq  INTEGER NOT NULL,
    n    INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (qid, ms, seq)
) STRICT, WITHOUT ROWID;

-- What was stored for a session's last act, to answer the same call again.
CREATE TABLE emq_receipt (
    session TEXT PRIMARY KEY,
    seq     INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    body    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX emq_receipt_age ON emq_receipt (at_ms);

CREATE TABLE emq_stage (
    sid    INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: jobs of a published stage still carry it
    prefix TEXT NOT NULL,
    name   TEXT NOT NULL,
    touched_at_ms INTEGER NOT NULL, -- last add; it expires an hour later
    jobs   INTEGER NOT NULL DEFAULT 0, -- the last sequence
    eager  INTEGER NOT NULL DEFAULT 0, -- 1 = some jobs have dedup ids or lifo: placed by the publication itself
    UNIQUE (prefix, name)
) STRICT;

-- What a stage holds of one queue. After the publication the jobs count as what they
-- will be, and are put in their places in slices; the first job not yet placed has the sequence next.
CREATE TABLE emq_stage_queue (
    qid    INTEGER NOT NULL,
    sid    INTEGER NOT NULL,
    base   INTEGER NOT NULL DEFAULT 0, -- position of sequence 0
    published INTEGER NOT NULL DEFAULT 0,
    next   INTEGER NOT NULL DEFAULT 1,
    last   INTEGER NOT NULL DEFAULT 0,
    n_waiting     INTEGER NOT NULL DEFAULT 0,
    n_delayed     INTEGER NOT NULL DEFAULT 0,
    n_prioritized INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (qid, sid)
) STRICT, WITHOUT ROWID;
CREATE INDEX emq_stage_queue_sid ON emq_stage_queue (sid);

-- Exceptional entries of a job's life: at most 100, they go with the job.
CREATE TABLE emq_history (
    jid    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    what   TEXT NOT NULL, -- refused, recovered, retried, released, admin, note
    who    TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (jid, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE emq_scheduler (
    qid   INTEGER NOT NULL,
    id    TEXT NOT NULL,
    next_at_ms INTEGER NOT NULL,
    name  TEXT NOT NULL,
    every_ms    INTEGER NOT NULL DEFAULT 0,
    offset_ms   INTEGER NOT NULL DEFAULT 0,
    start_at_ms INTEGER NOT NULL DEFAULT 0,
    end_at_ms   INTEGER NOT NULL DEFAULT 0,
    max_runs    INTEGER NOT NULL DEFAULT 0,
    iterations  INTEGER NOT NULL DEFAULT 0,
    pattern TEXT,
    tz      TEXT,
    opts    TEXT NOT NULL,
    data_kind INTEGER NOT NULL,
    data    ANY,
    PRIMARY KEY (qid, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX emq_scheduler_next ON emq_scheduler (qid, next_at_ms);

-- Finished jobs a minute.
CREATE TABLE emq_metric (
    qid    INTEGER NOT NULL,
    target INTEGER NOT NULL, -- state: 6 completed, 7 failed
    minute INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (qid, target, minute)
) STRICT, WITHOUT ROWID;

CREATE TABLE emq_worker (
    prefix TEXT NOT NULL,
    name   TEXT NOT NULL,
    started_at_ms INTEGER NOT NULL,
    seen_at_ms    INTEGER NOT NULL,
    info   TEXT NOT NULL, -- JSON
    PRIMARY KEY (prefix, name)
) STRICT, WITHOUT ROWID;

-- Consumer idempotency: effects by the identity of their job, and a step.
CREATE TABLE emq_marker (
    qid    INTEGER NOT NULL,
    job_id TEXT NOT NULL,
    timestamp_at_ms INTEGER NOT NULL, -- of the job: an id used again is another job
    step   TEXT NOT NULL,
    state  INTEGER NOT NULL, -- 1 claimed, 2 done
    token  TEXT NOT NULL,    -- of the hand-out that claimed it last
    fingerprint   TEXT NOT NULL,
    claimed_at_ms INTEGER NOT NULL,
    done_at_ms    INTEGER NOT NULL DEFAULT 0,
    expires_at_ms INTEGER NOT NULL,
    result_kind   INTEGER NOT NULL DEFAULT 0,
    result ANY,
    PRIMARY KEY (qid, job_id, timestamp_at_ms, step)
) STRICT, WITHOUT ROWID;
CREATE INDEX emq_marker_expiry ON emq_marker (expires_at_ms);

CREATE VIEW emq_jobs AS
SELECT q.prefix, q.name AS queue, j.id,
    CASE j.state WHEN 1 THEN 'waiting' WHEN 2 THEN 'active' WHEN 3 THEN 'delayed'
        WHEN 4 THEN 'prioritized' WHEN 5 THEN 'waiting-children' WHEN 6 THEN 'completed'
        WHEN 7 THEN 'failed' ELSE 'staged' END AS state,
    j.name, coalesce(j.data, d.bytes) AS data, coalesce(j.result, r.bytes) AS result,
    j.failed_reason, j.priority, j.attempts_made, j.attempts_started, j.stalled, j.worker, j.fence,
    j.timestamp_at_ms, j.processed_at_ms, j.finished_at_ms,
    CASE j.state WHEN 3 THEN j.ord1 END AS due_at_ms, j.opts
FROM emq_job AS j JOIN emq_queue AS q USING (qid)
    LEFT JOIN emq_data AS d USING (jid) LEFT JOIN emq_result AS r USING (jid);
