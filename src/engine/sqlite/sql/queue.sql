-- SPDX-License-Identifier: MIT
--
-- Statements of the acts on whole queues: bulk, obliterate, meta.

-- name: bulk_scan
SELECT jid, id, lock_end, lock_boot, timestamp_at_ms, finished_at_ms FROM emq_job
WHERE qid = ?1 AND state = ?2 AND (ord1, ord2) > (?3, ?4) ORDER BY ord1, ord2;

-- name: obliterate_page
SELECT jid, ord1, ord2, fence, lock_end, lock_boot, delay_ms, timestamp_at_ms, finished_at_ms,
    expires_at_ms, state, priority, attempts_made, attempts_started, stalled, mode, cancel, logs,
    side, id, worker, dedup_id, deferred, parent_key, scheduler
FROM emq_job WHERE qid = ?1 AND state = ?2 LIMIT ?3;

-- name: obliterate_stages
DELETE FROM emq_stage_queue WHERE qid = ?1;

-- name: obliterate_dedup_next
DELETE FROM emq_dedup_next WHERE qid = ?1 AND id IN
    (SELECT id FROM emq_dedup_next WHERE qid = ?1 LIMIT ?2);

-- name: obliterate_dedup
DELETE FROM emq_dedup WHERE qid = ?1 AND id IN
    (SELECT id FROM emq_dedup WHERE qid = ?1 LIMIT ?2);

-- name: obliterate_events
DELETE FROM emq_event WHERE qid = ?1 AND ms <=
    (SELECT max(ms) FROM (SELECT ms FROM emq_event WHERE qid = ?1 ORDER BY ms, seq LIMIT ?2));

-- name: obliterate_events_left
SELECT coalesce(sum(n), 0) FROM emq_event WHERE qid = ?1;

-- name: obliterate_metrics
DELETE FROM emq_metric WHERE qid = ?1 AND (target, minute) IN
    (SELECT target, minute FROM emq_metric WHERE qid = ?1 LIMIT ?2);

-- name: obliterate_schedulers
DELETE FROM emq_scheduler WHERE qid = ?1 AND id IN
    (SELECT id FROM emq_scheduler WHERE qid = ?1 LIMIT ?2);

-- name: obliterate_meta
DELETE FROM emq_meta WHERE qid = ?1;

-- name: obliterate_queue
DELETE FROM emq_queue WHERE qid = ?1;

-- name: meta_put
INSERT INTO emq_meta (qid, field, value) VALUES (?1, ?2, ?3)
ON CONFLICT (qid, field) DO UPDATE SET value = excluded.value;

-- name: meta_drop
DELETE FROM emq_meta WHERE qid = ?1 AND field = ?2;

-- name: meta_list
SELECT field, value FROM emq_meta WHERE qid = ?1 ORDER BY field;

-- name: meta_no_events
DELETE FROM emq_event WHERE qid = ?1;
