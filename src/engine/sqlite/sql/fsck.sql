-- SPDX-License-Identifier: MIT
--
-- Statements of fsck: what contradicts the schema. Each answers one row a violation and nothing of a sound
-- store. They read whole queues, slice by slice where there are many rows.

-- The last job of a slice that begins behind ?1.
-- name: fsck_slice
SELECT jid FROM emq_job WHERE jid > ?1 ORDER BY jid LIMIT 1 OFFSET ?2;

-- Jobs ?2..?3 of a queue: jid, id, the first flaw of each. ?4 lock clock, ?5 boot, ?6 beyond any lock's end.
-- name: fsck_jobs
SELECT * FROM (SELECT j.jid, j.id, CASE
    WHEN j.state NOT BETWEEN 1 AND 8 THEN 'state'
    WHEN j.state = 8 THEN CASE WHEN NOT EXISTS
        (SELECT 1 FROM emq_stage_queue AS s WHERE s.qid = j.qid AND s.sid = j.ord1) THEN 'staged' END
    WHEN j.id = '' OR j.name = '' OR j.timestamp_at_ms <= 0 OR NOT json_valid(coalesce(j.parent, '{}')) OR
        CASE WHEN json_valid(j.opts) THEN json_type(j.opts) <> 'object' ELSE 1 END THEN 'record'
    WHEN j.data_kind NOT BETWEEN 1 AND 3 OR
        (j.data IS NULL AND NOT EXISTS (SELECT 1 FROM emq_data AS d WHERE d.jid = j.jid)) THEN 'data'
    WHEN (j.side & 1 <> 0) <> EXISTS (SELECT 1 FROM emq_data AS d WHERE d.jid = j.jid) OR
        (j.side & 2 <> 0) <> EXISTS (SELECT 1 FROM emq_result AS r WHERE r.jid = j.jid) OR
        (j.side & 4 <> 0) <> EXISTS (SELECT 1 FROM emq_dependency AS c WHERE c.jid = j.jid) OR
        (j.side & 8 <> 0) <> EXISTS (SELECT 1 FROM emq_history AS h WHERE h.jid = j.jid) OR
        j.logs <> (SELECT count(*) FROM emq_log AS l WHERE l.jid = j.jid) THEN 'side'
    WHEN (j.state = 1 AND j.priority <> 0) OR (j.state = 4 AND j.priority < 1) THEN 'line'
    WHEN j.state = 2 AND (j.fence <= 0 OR coalesce(j.worker, '') = '' OR j.mode NOT IN (0, 1)) THEN 'owner'
    WHEN (j.finished_at_ms > 0) <> (j.state IN (6, 7)) THEN 'finished'
    WHEN j.ord1 <> CASE j.state WHEN 1 THEN 0 WHEN 2 THEN j.fence WHEN 4 THEN j.priority
            WHEN 6 THEN j.finished_at_ms WHEN 7 THEN j.finished_at_ms ELSE j.ord1 END OR
        (j.state = 3 AND j.ord1 <= 0) THEN 'place'
    WHEN EXISTS (SELECT 1 FROM emq_job AS t WHERE t.qid = j.qid AND t.state = j.state AND
        t.ord1 = j.ord1 AND t.ord2 = j.ord2 AND t.jid < j.jid) THEN 'twin'
    WHEN j.state = 2 AND j.lock_boot = ?5 AND j.lock_end > ?6 THEN 'lock'
    WHEN j.state = 2 AND j.mode = 1 AND
        coalesce(j.deferred, '') <> 'at-most-once: the worker that took it died' THEN 'once'
    WHEN j.state <> 2 AND (j.mode <> 0 OR j.cancel <> 0) THEN 'held'
    WHEN j.state = 7 AND j.failed_reason IS NULL THEN 'reason'
    WHEN j.result_kind NOT BETWEEN 0 AND 3 THEN 'result'
    WHEN j.state IN (6, 7) AND coalesce(j.deferred, '') <> '' THEN 'deferred'
    WHEN j.attempts_made < 0 OR j.stalled < 0 OR j.attempts_made > j.attempts_started OR
        (j.state = 2 AND (j.attempts_started < 1 OR j.processed_at_ms <= 0)) THEN 'attempts'
    WHEN j.state = 2 AND (j.lock_boot <> ?5 OR j.lock_end <= ?4) THEN 'stalled'
    WHEN j.state = 5 AND NOT EXISTS
        (SELECT 1 FROM emq_dependency AS c WHERE c.jid = j.jid AND c.kind = 1) THEN 'parent'
    WHEN j.state = 5 AND EXISTS (SELECT 1 FROM emq_dependency AS c WHERE c.jid = j.jid AND c.kind = 1
        AND NOT EXISTS (SELECT 1 FROM emq_queue AS q JOIN emq_job AS k ON k.qid = q.qid AND
            k.id = substr(c.child, length(q.prefix || q.name) + 3)
            WHERE c.child = q.prefix || ':' || q.name || ':' || k.id)) THEN 'child'
    END AS flaw
FROM emq_job AS j WHERE j.jid BETWEEN ?2 AND ?3 AND j.qid = ?1) WHERE flaw IS NOT NULL;

-- Columns of the queue's row that contradict its rows: column, what it says, what it should.
-- name: fsck_counters
WITH
    there (state, n) AS (
        SELECT CASE WHEN j.state < 8 THEN j.state WHEN j.delay_ms > 0 THEN 3 WHEN j.priority > 0 THEN 4
            ELSE 1 END, count(*)
        FROM emq_job AS j WHERE j.qid = ?1 AND (j.state BETWEEN 1 AND 7 OR (j.state = 8 AND EXISTS
            (SELECT 1 FROM emq_stage_queue AS s WHERE s.qid = ?1 AND s.sid = j.ord1 AND s.published = 1)))
        GROUP BY 1),
    says (name, n, due) AS (
        SELECT 'n_waiting', n_waiting, (SELECT n FROM there WHERE state = 1) FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_active', n_active, (SELECT n FROM there WHERE state = 2)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_delayed', n_delayed, (SELECT n FROM there WHERE state = 3)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_prioritized', n_prioritized, (SELECT n FROM there WHERE state = 4)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_waiting_children', n_waiting_children, (SELECT n FROM there WHERE state = 5)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_completed', n_completed, (SELECT n FROM there WHERE state = 6)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_failed', n_failed, (SELECT n FROM there WHERE state = 7)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'n_retry_delayed', n_retry_delayed,
            (SELECT count(*) FROM emq_job WHERE qid = ?1 AND state = 3 AND fence > 0)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 't_added', t_added, t_removed + coalesce((SELECT sum(n) FROM there), 0)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'event_count', event_count, (SELECT sum(n) FROM emq_event WHERE qid = ?1)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'publishing', publishing,
            (SELECT count(*) FROM emq_stage_queue WHERE qid = ?1 AND published = 1)
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'fence', fence,
            max(fence, coalesce((SELECT max(fence) FROM emq_job WHERE qid = ?1), 0))
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'last_id', last_id, max(last_id, coalesce((SELECT max(CAST(id AS INTEGER))
            FROM emq_job WHERE qid = ?1 AND id NOT GLOB '*[^0-9]*' AND length(id) < 16), 0))
            FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'back', back, max(back, coalesce((SELECT max(ord2) FROM emq_job
            WHERE qid = ?1 AND state IN (1, 3, 4, 5, 6, 7)), 0)) FROM emq_queue WHERE qid = ?1
        UNION ALL SELECT 'front', front, min(front, coalesce((SELECT min(ord2) FROM emq_job
            WHERE qid = ?1 AND state IN (1, 4)), 0)) FROM emq_queue WHERE qid = ?1)
SELECT name, n, coalesce(due, 0) FROM says WHERE n <> coalesce(due, 0);

-- Dedup ids ?2..?3: id, owner, flaw.
-- name: fsck_dedup
SELECT * FROM (SELECT d.id, d.owner, CASE
    WHEN d.expires_at_ms = 0 AND NOT EXISTS
        (SELECT 1 FROM emq_job AS j WHERE j.qid = ?1 AND j.id = d.owner AND j.state < 6) THEN 'dedup-owner'
    WHEN d.has_next <> EXISTS
        (SELECT 1 FROM emq_dedup_next AS x WHERE x.qid = ?1 AND x.id = d.id) THEN 'dedup-flag'
    END AS flaw
    FROM emq_dedup AS d WHERE d.qid = ?1 AND d.id BETWEEN ?2 AND ?3
    UNION ALL SELECT x.id, x.job_id, 'dedup-next' FROM emq_dedup_next AS x
        WHERE x.qid = ?1 AND x.id BETWEEN ?2 AND ?3 AND NOT EXISTS
            (SELECT 1 FROM emq_dedup AS d WHERE d.qid = ?1 AND d.id = x.id)) WHERE flaw IS NOT NULL LIMIT 1000;

-- Unpublished parts of stages that are gone: sid, jobs.
-- name: fsck_stages
SELECT p.sid, p.last FROM emq_stage_queue AS p WHERE p.qid = ?1 AND p.published = 0 AND p.sid BETWEEN ?2 AND ?3
    AND NOT EXISTS (SELECT 1 FROM emq_stage AS s WHERE s.sid = p.sid);

-- What else is known of a queue, and can't be so: flaw, key, job, what it is about.
-- name: fsck_queue
SELECT 'hidden', 'hidden', '', '' FROM emq_queue WHERE qid = ?1 AND visible = 0 AND EXISTS
    (SELECT 1 FROM emq_job WHERE qid = ?1 AND state <> 8)
UNION ALL SELECT 'setting', 'setting ' || field, '', field FROM emq_meta WHERE qid = ?1 AND
    field IN ('concurrency', 'max', 'duration', 'opts.maxLenEvents') AND (value = '' OR value GLOB '*[^0-9]*')
UNION ALL SELECT 'effect', 'effect ' || timestamp_at_ms || ' ' || step || ' ' || job_id, job_id, step
    FROM emq_marker WHERE qid = ?1 AND (state NOT IN (1, 2) OR result_kind NOT BETWEEN 0 AND 3)
UNION ALL SELECT 'event', 'event ' || ms || ' ' || seq, '', ''
    FROM (SELECT ms, seq, n, '[' || replace(rtrim(body, char(10)), char(10), ',') || ']' AS lines
        FROM emq_event WHERE qid = ?1)
    WHERE CASE WHEN json_valid(lines) THEN json_array_length(lines) <> n OR EXISTS
        (SELECT 1 FROM json_each(lines) WHERE type <> 'object') ELSE 1 END
LIMIT 1000;

-- Triggers on our tables: name, table.
-- name: fsck_triggers
SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name LIKE 'emq!_%' ESCAPE '!';

-- Indexes and views of a sound schema: name, what made it. Is one there?
-- name: fsck_model
SELECT name, sql FROM sqlite_schema WHERE type IN ('index', 'view') AND sql IS NOT NULL;

-- name: fsck_has
SELECT 1 FROM sqlite_schema WHERE name = ?1;

-- Rows of nothing: table, number, how many. Jobs of no queue last.
-- name: fsck_orphans
SELECT 'emq_data', jid, 1 FROM emq_data WHERE jid NOT IN (SELECT jid FROM emq_job)
UNION ALL SELECT 'emq_result', jid, 1 FROM emq_result WHERE jid NOT IN (SELECT jid FROM emq_job)
UNION ALL SELECT 'emq_log', jid, count(*) FROM emq_log WHERE jid NOT IN (SELECT jid FROM emq_job) GROUP BY jid
UNION ALL SELECT 'emq_dependency', jid, count(*) FROM emq_dependency
    WHERE jid NOT IN (SELECT jid FROM emq_job) GROUP BY jid
UNION ALL SELECT 'emq_history', jid, count(*) FROM emq_history
    WHERE jid NOT IN (SELECT jid FROM emq_job) GROUP BY jid
UNION ALL SELECT 'emq_meta', qid, count(*) FROM emq_meta
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_event', qid, count(*) FROM emq_event
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_dedup', qid, count(*) FROM emq_dedup
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_stage_queue', qid, count(*) FROM emq_stage_queue
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_metric', qid, count(*) FROM emq_metric
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_scheduler', qid, count(*) FROM emq_scheduler
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_marker', qid, count(*) FROM emq_marker
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
UNION ALL SELECT 'emq_job', qid, count(*) FROM emq_job
    WHERE qid NOT IN (SELECT qid FROM emq_queue) GROUP BY qid
LIMIT 1000;

-- Stages that should have been removed long ago: touched before ?1.
-- name: fsck_old_stages
SELECT sid, name, jobs FROM emq_stage WHERE touched_at_ms < ?1 AND NOT EXISTS
    (SELECT 1 FROM emq_stage_queue AS p WHERE p.sid = emq_stage.sid AND p.published = 1) LIMIT 1000;

-- name: fsck_file
PRAGMA quick_check(20);

-- Repairs of the job ?1.

-- Into its line: what it would be if it were added now. ?2 its position there.
-- name: mend_state
UPDATE emq_job SET
    ord1 = CASE WHEN finished_at_ms > 0 THEN finished_at_ms WHEN delay_ms > 0 THEN timestamp_at_ms + delay_ms
        WHEN priority > 0 THEN priority ELSE 0 END,
    state = CASE WHEN finished_at_ms > 0 THEN CASE WHEN failed_reason IS NULL THEN 6 ELSE 7 END
        WHEN delay_ms > 0 THEN 3 WHEN priority > 0 THEN 4 ELSE 1 END,
    ord2 = ?2, mode = 0, cancel = 0, lock_end = 0, lock_boot = 0
WHERE jid = ?1 RETURNING state;

-- name: mend_side
UPDATE emq_job SET
    side = EXISTS (SELECT 1 FROM emq_data AS d WHERE d.jid = ?1) |
        2 * EXISTS (SELECT 1 FROM emq_result AS r WHERE r.jid = ?1) |
        4 * EXISTS (SELECT 1 FROM emq_dependency AS c WHERE c.jid = ?1) |
        8 * EXISTS (SELECT 1 FROM emq_history AS h WHERE h.jid = ?1),
    result_kind = CASE WHEN side & 2 AND NOT EXISTS (SELECT 1 FROM emq_result AS r WHERE r.jid = ?1)
        THEN 0 ELSE result_kind END,
    logs = (SELECT count(*) FROM emq_log AS l WHERE l.jid = ?1)
WHERE jid = ?1;

-- name: mend_line
UPDATE emq_job SET state = CASE WHEN priority > 0 THEN 4 ELSE 1 END,
    ord1 = max(priority, 0), priority = max(priority, 0)
WHERE jid = ?1 RETURNING state;

-- name: mend_finished
UPDATE emq_job SET
    finished_at_ms = CASE WHEN state NOT IN (6, 7) THEN 0 WHEN ord1 > 0 THEN ord1 ELSE ?2 END,
    ord1 = CASE WHEN state IN (6, 7) AND ord1 <= 0 THEN ?2 ELSE ord1 END
WHERE jid = ?1;

-- name: mend_place
UPDATE emq_job SET ord1 = CASE state WHEN 1 THEN 0 WHEN 2 THEN fence WHEN 3 THEN timestamp_at_ms + delay_ms
    WHEN 4 THEN priority WHEN 6 THEN finished_at_ms WHEN 7 THEN finished_at_ms ELSE ord1 END
WHERE jid = ?1;

-- name: mend_twin
UPDATE emq_job SET ord2 = ?2 WHERE jid = ?1;

-- name: mend_lock
UPDATE emq_job SET lock_end = 0 WHERE jid = ?1;

-- name: mend_once
UPDATE emq_job SET deferred = 'at-most-once: the worker that took it died' WHERE jid = ?1;

-- name: mend_held
UPDATE emq_job SET mode = 0, cancel = 0 WHERE jid = ?1;

-- name: mend_reason
UPDATE emq_job SET failed_reason = 'unknown: the reason was lost' WHERE jid = ?1;

-- name: mend_deferred
UPDATE emq_job SET deferred = NULL WHERE jid = ?1;

-- name: mend_attempts
UPDATE emq_job SET attempts_made = max(attempts_made, 0), stalled = max(stalled, 0),
    attempts_started = max(attempts_started, attempts_made, state = 2),
    processed_at_ms = CASE WHEN state = 2 AND processed_at_ms <= 0 THEN fence / 1000 ELSE processed_at_ms END
WHERE jid = ?1;

-- Children that are gone.
-- name: fsck_forget_children
DELETE FROM emq_dependency WHERE jid = ?1 AND kind = 1 AND NOT EXISTS
    (SELECT 1 FROM emq_queue AS q JOIN emq_job AS k ON k.qid = q.qid AND
        k.id = substr(emq_dependency.child, length(q.prefix || q.name) + 3)
    WHERE emq_dependency.child = q.prefix || ':' || q.name || ':' || k.id);

-- Repairs of events, dedup ids and stages.

-- name: mend_event
DELETE FROM emq_event WHERE qid = ?1 AND ms = ?2 AND seq = ?3;

-- name: mend_dedup_flag
UPDATE emq_dedup SET has_next = EXISTS
    (SELECT 1 FROM emq_dedup_next AS x WHERE x.qid = ?1 AND x.id = ?2) WHERE qid = ?1 AND id = ?2;

-- Ended by ?2, so that the next sweeps remove it.
-- name: mend_stage
INSERT INTO emq_stage (sid, prefix, name, touched_at_ms) VALUES (?1, '', 'lost ' || ?1, ?2);

-- Jobs of no queue get one.
-- name: mend_queue
INSERT INTO emq_queue (qid, prefix, name) VALUES (?1, ?2, ?3);
