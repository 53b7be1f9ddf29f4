-- SPDX-License-Identifier: MIT
--
-- Statements of the reading acts. Those of `dump_stray_*` look at everything in the file: a row
-- without a job has no queue. They are for small stores, tests and fsck.

-- name: stats_first
SELECT ord1, timestamp_at_ms FROM emq_job WHERE qid = ?1 AND state = ?2
ORDER BY ord1, ord2 LIMIT 1;

-- name: stats_takeable
-- A job that fire-and-forget may take, among the first ?3 of a line.
SELECT 1 FROM (SELECT parent_key, scheduler FROM emq_job WHERE qid = ?1 AND state = ?2
    ORDER BY ord1, ord2 LIMIT ?3)
WHERE parent_key IS NULL AND scheduler IS NULL LIMIT 1;

-- ?7 bounds the position, as in job_line.
-- name: find_asc
SELECT * FROM emq_job WHERE qid = ?1 AND state = ?2 AND (ord1, ord2) > (?3, ?4) AND ord2 < ?7
ORDER BY ord1, ord2 LIMIT ?5 OFFSET ?6;

-- name: find_desc
SELECT * FROM emq_job WHERE qid = ?1 AND state = ?2 AND (ord1, ord2) < (?3, ?4)
ORDER BY ord1 DESC, ord2 DESC LIMIT ?5 OFFSET ?6;

-- name: queues_list
SELECT name FROM emq_queue AS q WHERE prefix = ?1 AND (visible <> 0 OR (?2 AND EXISTS
    (SELECT 1 FROM emq_job AS j WHERE j.qid = q.qid AND (j.state <> 8 OR NOT EXISTS
        (SELECT 1 FROM emq_stage_queue AS s WHERE s.qid = j.qid AND s.sid = j.ord1))))) ORDER BY name;

-- The lines of a job have no holes, so that line ?2 is found by its number.
-- name: logs_list
SELECT line FROM emq_log
WHERE jid = ?1 AND n >= (SELECT min(n) + ?2 FROM emq_log WHERE jid = ?1) ORDER BY n LIMIT ?3;

-- name: events_at
SELECT seq FROM emq_event WHERE qid = ?1 AND ms = ?2 AND seq <= ?3 ORDER BY seq DESC LIMIT 1;

-- name: events_from
SELECT ms, seq, body FROM emq_event WHERE qid = ?1 AND (ms, seq) >= (?2, ?3) ORDER BY ms, seq;

-- name: history_list
SELECT at_ms, what, who, detail FROM emq_history WHERE jid = ?1 ORDER BY n;

-- name: dump_dedup
SELECT id, owner, expires_at_ms, has_next FROM emq_dedup WHERE qid = ?1 ORDER BY id;

-- Rows of this queue that contradict each other: dedup ids without an owner that lives, kept
-- duplicates without their id, jobs that count side rows which are not there, or do not count
-- those that are.
-- name: dump_stray_queue
SELECT
    (SELECT count(*) FROM emq_dedup AS d WHERE d.qid = ?1 AND d.expires_at_ms = 0 AND NOT EXISTS
        (SELECT 1 FROM emq_job AS j WHERE j.qid = ?1 AND j.id = d.owner AND j.state < 6)) +
    (SELECT count(*) FROM emq_dedup AS d WHERE d.qid = ?1 AND d.has_next <> EXISTS
        (SELECT 1 FROM emq_dedup_next AS x WHERE x.qid = ?1 AND x.id = d.id)) +
    (SELECT count(*) FROM emq_dedup_next AS x WHERE x.qid = ?1 AND NOT EXISTS
        (SELECT 1 FROM emq_dedup AS d WHERE d.qid = ?1 AND d.id = x.id)) +
    (SELECT count(*) FROM emq_job AS j WHERE j.qid = ?1 AND (
        j.logs <> (SELECT count(*) FROM emq_log AS l WHERE l.jid = j.jid) OR
        (j.side & 1 <> 0) <> EXISTS (SELECT 1 FROM emq_data AS d WHERE d.jid = j.jid) OR
        (j.side & 2 <> 0) <> EXISTS (SELECT 1 FROM emq_result AS r WHERE r.jid = j.jid) OR
        (j.side & 4 <> 0) <> EXISTS (SELECT 1 FROM emq_dependency AS c WHERE c.jid = j.jid) OR
        (j.side & 8 <> 0) <> EXISTS (SELECT 1 FROM emq_history AS h WHERE h.jid = j.jid)));

-- Events and counters that do not agree with the queue's row.
-- name: dump_stray_counters
SELECT
    (q.event_count <> (SELECT coalesce(sum(n), 0) FROM emq_event AS e WHERE e.qid = q.qid)) +
    (q.n_retry_delayed <> (SELECT count(*) FROM emq_job AS j
        WHERE j.qid = q.qid AND j.state = 3 AND j.fence > 0))
FROM emq_queue AS q WHERE q.qid = ?1;

-- name: dump_stray_store
SELECT
    (SELECT count(*) FROM emq_data WHERE jid NOT IN (SELECT jid FROM emq_job)) +
    (SELECT count(*) FROM emq_result WHERE jid NOT IN (SELECT jid FROM emq_job)) +
    (SELECT count(*) FROM emq_log WHERE jid NOT IN (SELECT jid FROM emq_job)) +
    (SELECT count(*) FROM emq_dependency WHERE jid NOT IN (SELECT jid FROM emq_job)) +
    (SELECT count(*) FROM emq_history WHERE jid NOT IN (SELECT jid FROM emq_job)) +
    (SELECT count(*) FROM emq_job WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_meta WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_event WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_dedup WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_dedup_next WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_stage_queue WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_metric WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_scheduler WHERE qid NOT IN (SELECT qid FROM emq_queue)) +
    (SELECT count(*) FROM emq_job WHERE state NOT BETWEEN 1 AND 8);
