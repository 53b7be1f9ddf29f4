-- SPDX-License-Identifier: MIT
--
-- The statements of the worker's and producer's path, and of the row work that all acts share.
-- One invariant: each finds its rows through an index; no cost grows with the backlog.

-- name: schema_version
SELECT version FROM emq_schema WHERE one = 1;

-- name: schema_tables
SELECT count(*), count(*) FILTER (WHERE name = 'emq_schema') FROM sqlite_schema
WHERE type = 'table' AND name IN (
    'emq_schema', 'emq_boot', 'emq_queue', 'emq_meta', 'emq_job', 'emq_data', 'emq_result',
    'emq_log', 'emq_dependency', 'emq_dedup', 'emq_dedup_next', 'emq_event', 'emq_receipt',
    'emq_stage', 'emq_stage_queue', 'emq_history', 'emq_scheduler', 'emq_metric', 'emq_worker',
    'emq_marker');

-- name: schema_others
SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'emq!_%' ESCAPE '!';

-- name: schema_set_version
UPDATE emq_schema SET version = ?1 WHERE one = 1;

-- ---- queues

-- name: queue_get
SELECT qid, last_id, fence, front, back,
    n_waiting, n_active, n_delayed, n_prioritized, n_waiting_children, n_completed, n_failed,
    n_retry_delayed,
    t_added, t_started, t_completed, t_failed, t_retried, t_recovered, t_deduplicated, t_removed,
    limit_count, limit_until_ms, limit_max, event_ms, event_seq, event_count, publishing, visible
FROM emq_queue WHERE prefix = ?1 AND name = ?2;

-- name: queue_insert
INSERT INTO emq_queue (prefix, name, visible) VALUES (?1, ?2, ?3);

-- name: queue_save
UPDATE emq_queue SET last_id = ?2, fence = ?3, front = ?4, back = ?5,
    n_waiting = ?6, n_active = ?7, n_delayed = ?8, n_prioritized = ?9, n_waiting_children = ?10,
    n_completed = ?11, n_failed = ?12, n_retry_delayed = ?13,
    t_added = ?14, t_started = ?15, t_completed = ?16, t_failed = ?17, t_retried = ?18,
    t_recovered = ?19, t_deduplicated = ?20, t_removed = ?21,
    limit_count = ?22, limit_until_ms = ?23, limit_max = ?24,
    event_ms = ?25, event_seq = ?26, event_count = ?27, publishing = ?28, visible = ?29
WHERE qid = ?1;

-- name: queue_qid
SELECT qid FROM emq_queue WHERE prefix = ?1 AND name = ?2;

-- name: queue_name
SELECT name FROM emq_queue WHERE qid = ?1;

-- name: queue_of_prefix
SELECT qid, name FROM emq_queue WHERE prefix = ?1 ORDER BY name;

-- name: queue_meta
SELECT field, value FROM emq_meta WHERE qid = ?1;

-- ---- jobs: reading

-- name: job_by_id
SELECT jid, ord1, ord2, fence, lock_end, lock_boot, delay_ms, timestamp_at_ms, finished_at_ms,
    expires_at_ms, state, priority, attempts_made, attempts_started, stalled, mode, cancel, logs,
    side, id, worker, dedup_id, deferred, parent_key, scheduler
FROM emq_job WHERE qid = ?1 AND id = ?2;

-- name: job_by_jid
SELECT jid, ord1, ord2, fence, lock_end, lock_boot, delay_ms, timestamp_at_ms, finished_at_ms,
    expires_at_ms, state, priority, attempts_made, attempts_started, stalled, mode, cancel, logs,
    side, id, worker, dedup_id, deferred, parent_key, scheduler
FROM emq_job WHERE jid = ?1;

-- name: job_all_by_id
SELECT * FROM emq_job WHERE qid = ?1 AND id = ?2;

-- name: job_all_by_jid
SELECT * FROM emq_job WHERE jid = ?1;

-- name: job_exists
SELECT 1 FROM emq_job WHERE qid = ?1 AND id = ?2;

-- name: job_opts
SELECT opts FROM emq_job WHERE jid = ?1;

-- name: job_stack
SELECT stacktrace FROM emq_job WHERE jid = ?1;

-- name: job_data
SELECT bytes FROM emq_data WHERE jid = ?1;

-- name: job_result
SELECT bytes FROM emq_result WHERE jid = ?1;

-- Jobs of a line behind a place, at most ?6. ?5 bounds the position: jobs behind it wait for a stage
-- that is being put in its places.
-- name: job_line
SELECT * FROM emq_job
WHERE qid = ?1 AND state = ?2 AND (ord1, ord2) > (?3, ?4) AND ord2 < ?5
ORDER BY ord1, ord2 LIMIT ?6;

-- name: job_due
SELECT jid, ord1, ord2, fence, lock_end, lock_boot, delay_ms, timestamp_at_ms, finished_at_ms,
    expires_at_ms, state, priority, attempts_made, attempts_started, stalled, mode, cancel, logs,
    side, id, worker, dedup_id, deferred, parent_key, scheduler
FROM emq_job WHERE qid = ?1 AND state = 3 AND ord1 <= ?2 ORDER BY ord1, ord2 LIMIT ?3;

-- name: job_next_due
SELECT ord1 FROM emq_job WHERE qid = ?1 AND state = 3 ORDER BY ord1, ord2 LIMIT 1;

-- name: job_oldest
SELECT finished_at_ms, jid, side, logs, ord1, ord2 FROM emq_job
WHERE qid = ?1 AND state = ?2 ORDER BY ord1, ord2 LIMIT ?3;

-- name: job_expired
SELECT jid, state FROM
    (SELECT jid, state, expires_at_ms FROM emq_job WHERE qid = ?1 AND state = ?2
     ORDER BY ord1, ord2 LIMIT ?4)
WHERE expires_at_ms > 0 AND expires_at_ms <= ?3;

-- name: job_claims
SELECT * FROM emq_job WHERE qid = ?1 AND state = 2 AND worker = ?2 ORDER BY ord1, ord2;

-- name: job_lock
SELECT jid, state, fence, worker, cancel FROM emq_job WHERE qid = ?1 AND id = ?2;

-- name: job_lock_ended
SELECT jid, fence, CASE WHEN lock_boot = ?2 THEN lock_end ELSE 0 END FROM emq_job
WHERE qid = ?1 AND state = 2 AND (lock_boot <> ?2 OR lock_end <= ?3) ORDER BY ord1, ord2 LIMIT ?4;

-- ---- jobs: writing

-- name: job_insert
INSERT INTO emq_job (qid, id, state, ord1, ord2, priority, mode, side, data_kind, timestamp_at_ms,
    delay_ms, name, dedup_id, grp, scheduler, parent_key, parent, opts, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT (qid, id) DO NOTHING;

-- name: data_insert
INSERT INTO emq_data (jid, bytes) VALUES (?1, ?2);

-- name: result_insert
INSERT INTO emq_result (jid, bytes) VALUES (?1, ?2);

-- name: job_take
UPDATE emq_job SET state = 2, ord1 = ?2, ord2 = 0, attempts_started = ?3, fence = ?2,
    lock_end = ?4, lock_boot = ?5, mode = ?6, processed_at_ms = ?7, worker = ?8, deferred = ?9
WHERE jid = ?1;

-- name: job_place
UPDATE emq_job SET state = ?2, ord1 = ?3, ord2 = ?4, delay_ms = ?5, mode = 0, lock_end = 0,
    cancel = 0
WHERE jid = ?1;

-- name: job_promote
UPDATE emq_job SET state = ?2, ord1 = ?3, ord2 = ?4, delay_ms = 0 WHERE jid = ?1;

-- name: job_stage_dedup
UPDATE emq_job SET lock_end = ?2, cancel = ?3 WHERE jid = ?1;

-- name: job_requeue
UPDATE emq_job SET state = ?2, ord1 = ?3, ord2 = ?4, priority = ?5, attempts_made = ?6,
    attempts_started = ?7, stalled = ?8, delay_ms = ?9, lock_end = 0, lock_boot = 0, mode = 0,
    cancel = 0, processed_at_ms = coalesce(?10, processed_at_ms),
    failed_reason = coalesce(?11, failed_reason), stacktrace = coalesce(?12, stacktrace)
WHERE jid = ?1;

-- name: job_last_end
SELECT processed_at_ms, failed_reason FROM emq_job WHERE jid = ?1;

-- name: job_reprocess
UPDATE emq_job SET state = ?2, ord1 = ?3, ord2 = ?4, attempts_made = ?5, attempts_started = ?6,
    stalled = ?7, delay_ms = 0, processed_at_ms = 0, finished_at_ms = 0, expires_at_ms = 0,
    redo = redo + ?10, side = ?8, result_kind = CASE ?9 WHEN 6 THEN 0 ELSE result_kind END,
    result = CASE ?9 WHEN 6 THEN NULL ELSE result END,
    failed_reason = CASE ?9 WHEN 7 THEN NULL ELSE failed_reason END
WHERE jid = ?1;

-- name: job_complete
UPDATE emq_job SET state = 6, ord1 = ?2, ord2 = ?3, attempts_made = ?4, lock_end = 0,
    lock_boot = 0, mode = 0, cancel = 0, deferred = NULL, finished_at_ms = ?2, expires_at_ms = ?5,
    side = ?6, result_kind = ?7, result = ?8
WHERE jid = ?1;

-- The common end, in one statement: only while the job is active under this token, and has no dedup id.
-- name: job_complete_owned
UPDATE emq_job SET state = 6, ord1 = ?5, ord2 = ?6, attempts_made = attempts_made + 1,
    lock_end = 0, lock_boot = 0, mode = 0, cancel = 0, deferred = NULL, finished_at_ms = ?5,
    expires_at_ms = ?7, result_kind = ?8, result = ?9
WHERE qid = ?1 AND id = ?2 AND state = 2 AND fence = ?3 AND worker = ?4 AND dedup_id IS NULL;

-- The same when the record is not kept, and nothing stands in side tables.
-- name: job_delete_owned
DELETE FROM emq_job WHERE qid = ?1 AND id = ?2 AND state = 2 AND fence = ?3 AND worker = ?4
    AND dedup_id IS NULL AND side = 0 AND logs = 0;

-- name: job_fail
UPDATE emq_job SET state = 7, ord1 = ?2, ord2 = ?3, attempts_made = ?4, lock_end = 0,
    lock_boot = 0, mode = 0, cancel = 0, deferred = NULL, finished_at_ms = ?2, expires_at_ms = ?5,
    attempts_started = ?6, stalled = ?7, delay_ms = ?8, failed_reason = ?9,
    stacktrace = coalesce(?10, stacktrace)
WHERE jid = ?1;

-- name: job_extend
UPDATE emq_job SET lock_end = ?2, lock_boot = ?3 WHERE jid = ?1;

-- name: job_side
UPDATE emq_job SET side = ?2 WHERE jid = ?1;

-- name: job_delete
DELETE FROM emq_job WHERE jid = ?1;

-- name: job_delete_to
DELETE FROM emq_job WHERE qid = ?1 AND state = ?2 AND (ord1, ord2) <= (?3, ?4);

-- name: data_delete
DELETE FROM emq_data WHERE jid = ?1;

-- name: result_delete
DELETE FROM emq_result WHERE jid = ?1;

-- name: log_delete
DELETE FROM emq_log WHERE jid = ?1;

-- name: dependency_delete
DELETE FROM emq_dependency WHERE jid = ?1;

-- name: history_delete
DELETE FROM emq_history WHERE jid = ?1;

-- name: history_add
INSERT INTO emq_history (jid, n, at_ms, what, who, detail)
VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM emq_history WHERE jid = ?1), ?2, ?3, ?4, ?5);

-- name: history_trim
DELETE FROM emq_history
WHERE jid = ?1 AND n <= (SELECT max(n) - ?2 FROM emq_history WHERE jid = ?1);

-- ---- dedup ids

-- name: dedup_get
SELECT owner, expires_at_ms, has_next FROM emq_dedup WHERE qid = ?1 AND id = ?2;

-- name: dedup_put
INSERT INTO emq_dedup (qid, id, owner, expires_at_ms, has_next) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (qid, id) DO UPDATE SET owner = excluded.owner,
    expires_at_ms = excluded.expires_at_ms, has_next = excluded.has_next;

-- name: dedup_delete
DELETE FROM emq_dedup WHERE qid = ?1 AND id = ?2;

-- name: dedup_next_put
INSERT INTO emq_dedup_next (qid, id, job_id, name, priority, delay_ms, lifo, grp, scheduler,
    parent_key, parent, opts, data_kind, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (qid, id) DO UPDATE SET job_id = excluded.job_id, name = excluded.name,
    priority = excluded.priority, delay_ms = excluded.delay_ms, lifo = excluded.lifo,
    grp = excluded.grp, scheduler = excluded.scheduler, parent_key = excluded.parent_key,
    parent = excluded.parent, opts = excluded.opts, data_kind = excluded.data_kind,
    data = excluded.data;

-- name: dedup_next_get
SELECT job_id, name, priority, delay_ms, lifo, grp, scheduler, parent_key, parent, opts, data_kind,
    data
FROM emq_dedup_next WHERE qid = ?1 AND id = ?2;

-- name: dedup_next_delete
DELETE FROM emq_dedup_next WHERE qid = ?1 AND id = ?2;

-- ---- events

-- name: event_insert
INSERT INTO emq_event (qid, ms, seq, n, body) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: event_oldest
SELECT ms, seq, n FROM emq_event WHERE qid = ?1 ORDER BY ms, seq LIMIT ?2;

-- name: event_delete_to
DELETE FROM emq_event WHERE qid = ?1 AND (ms, seq) <= (?2, ?3);

-- ---- receipts

-- name: receipt_get
SELECT seq, body FROM emq_receipt WHERE session = ?1;

-- name: receipt_put
INSERT INTO emq_receipt (session, seq, body, at_ms) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, at_ms = excluded.at_ms,
    body = excluded.body;

-- name: receipt_set
UPDATE emq_receipt SET seq = ?2, body = ?3 WHERE session = ?1 AND at_ms > ?4;

-- name: receipt_expire
DELETE FROM emq_receipt WHERE session IN
    (SELECT session FROM emq_receipt WHERE at_ms < ?1 ORDER BY at_ms LIMIT ?2);

-- ---- stages

-- name: stage_get
SELECT sid, touched_at_ms, jobs, eager FROM emq_stage WHERE prefix = ?1 AND name = ?2;

-- name: stage_get_sid
SELECT touched_at_ms FROM emq_stage WHERE sid = ?1;

-- name: stage_insert
INSERT INTO emq_stage (prefix, name, touched_at_ms) VALUES (?1, ?2, ?3);

-- name: stage_touch
UPDATE emq_stage SET touched_at_ms = ?2, jobs = ?3, eager = ?4 WHERE sid = ?1;

-- The name becomes free; sweep removes what is left. Job names hold no control bytes.
-- name: stage_rename
UPDATE emq_stage SET name = char(1) || sid WHERE sid = ?1;

-- It has ended: as if it had expired.
-- name: stage_drop
UPDATE emq_stage SET name = char(1) || sid, touched_at_ms = ?2 WHERE sid = ?1;

-- name: stage_delete
DELETE FROM emq_stage WHERE sid = ?1;

-- name: stage_expired
SELECT sid FROM emq_stage WHERE touched_at_ms <= ?1 LIMIT 1;

-- name: stage_queue_add
INSERT INTO emq_stage_queue (qid, sid, last, n_waiting, n_delayed, n_prioritized)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (qid, sid) DO UPDATE SET last = excluded.last,
    n_waiting = n_waiting + excluded.n_waiting, n_delayed = n_delayed + excluded.n_delayed,
    n_prioritized = n_prioritized + excluded.n_prioritized;

-- name: stage_queue_of
SELECT qid, last, n_waiting, n_delayed, n_prioritized FROM emq_stage_queue
WHERE sid = ?1 AND published = 0 LIMIT ?2;

-- Jobs of a stage that are still there, and which.
-- name: stage_left
SELECT coalesce(sum(n_waiting + n_delayed + n_prioritized), 0) FROM emq_stage_queue WHERE sid = ?1;

-- name: stage_ranks
SELECT j.ord2 FROM emq_stage_queue AS p JOIN emq_job AS j ON j.qid = p.qid AND j.state = 8 AND j.ord1 = p.sid
WHERE p.sid = ?1;

-- name: stage_queue_publish
UPDATE emq_stage_queue SET base = ?3, published = 1 WHERE qid = ?1 AND sid = ?2;

-- name: stage_queue_is_published
SELECT published FROM emq_stage_queue WHERE qid = ?1 AND sid = ?2;

-- name: stage_queue_oldest
SELECT sid, base, next FROM emq_stage_queue WHERE qid = ?1 AND published = 1 ORDER BY sid LIMIT 1;

-- name: stage_queue_next
UPDATE emq_stage_queue SET next = ?3 WHERE qid = ?1 AND sid = ?2;

-- name: stage_queue_delete
DELETE FROM emq_stage_queue WHERE qid = ?1 AND sid = ?2;

-- name: stage_jobs
SELECT jid, ord2, id, name, priority, delay_ms, timestamp_at_ms, mode, dedup_id,
    lock_end, cancel
FROM emq_job
WHERE qid = ?1 AND state = 8 AND ord1 = ?2 AND ord2 >= ?3 ORDER BY ord2 LIMIT ?4;

-- ---- boots

-- name: boot_note
INSERT INTO emq_boot (boot_id, seen_at_ms) VALUES (?1, ?2) ON CONFLICT (boot_id) DO NOTHING;

-- name: boot_get
SELECT boot FROM emq_boot WHERE boot_id = ?1;

-- name: dedup_expired
SELECT qid, id FROM emq_dedup WHERE expires_at_ms > 0 AND expires_at_ms <= ?1 LIMIT ?2;
