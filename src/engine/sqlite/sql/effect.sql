-- SPDX-License-Identifier: MIT
--
-- What is known of the effects of jobs (acts mark and markers, effect.c).

-- name: marker_get
SELECT state, token, fingerprint, claimed_at_ms, done_at_ms, expires_at_ms, result_kind, result
FROM emq_marker WHERE qid = ?1 AND job_id = ?2 AND timestamp_at_ms = ?3 AND step = ?4;

-- name: marker_put
INSERT INTO emq_marker (qid, job_id, timestamp_at_ms, step, state, token, fingerprint, claimed_at_ms,
    done_at_ms, expires_at_ms, result_kind, result)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (qid, job_id, timestamp_at_ms, step) DO UPDATE SET state = excluded.state,
    token = excluded.token, fingerprint = excluded.fingerprint,
    claimed_at_ms = excluded.claimed_at_ms, done_at_ms = excluded.done_at_ms,
    expires_at_ms = excluded.expires_at_ms, result_kind = excluded.result_kind,
    result = excluded.result;

-- name: marker_drop
DELETE FROM emq_marker WHERE qid = ?1 AND job_id = ?2 AND timestamp_at_ms = ?3 AND step = ?4;

-- name: marker_drop_job
DELETE FROM emq_marker WHERE qid = ?1 AND job_id = ?2 AND timestamp_at_ms = ?3;

-- At least as long as they were to be known, anew from ?4 on, at most ?5.
-- name: marker_prolong_job
UPDATE emq_marker SET expires_at_ms =
    max(expires_at_ms, ?4 + min(?5, expires_at_ms - max(claimed_at_ms, done_at_ms)))
WHERE qid = ?1 AND job_id = ?2 AND timestamp_at_ms = ?3 AND expires_at_ms > ?4;

-- Is any effect of the job known to be done?
-- name: marker_done
SELECT 1 FROM emq_marker
WHERE qid = ?1 AND job_id = ?2 AND timestamp_at_ms = ?3 AND state = 2 AND expires_at_ms > ?4 LIMIT 1;

-- name: marker_expire
DELETE FROM emq_marker WHERE (qid, job_id, timestamp_at_ms, step) IN
    (SELECT qid, job_id, timestamp_at_ms, step FROM emq_marker
     WHERE expires_at_ms <= ?1 ORDER BY expires_at_ms LIMIT ?2);

-- The job beside each, to see whether the hand-out that claimed it lives.
-- name: marker_list
SELECT m.job_id, m.timestamp_at_ms, m.step, m.state, m.token, m.fingerprint, m.claimed_at_ms, m.done_at_ms,
    m.expires_at_ms, m.result_kind, m.result, j.worker, j.fence
FROM emq_marker AS m LEFT JOIN emq_job AS j ON j.qid = m.qid AND j.id = m.job_id
    AND j.timestamp_at_ms = m.timestamp_at_ms AND j.state = 2
WHERE m.qid = ?1 AND (m.job_id, m.timestamp_at_ms, m.step) > (?2, ?3, ?4) AND m.expires_at_ms > ?5
ORDER BY m.job_id, m.timestamp_at_ms, m.step LIMIT ?6;

-- name: marker_list_job
SELECT m.job_id, m.timestamp_at_ms, m.step, m.state, m.token, m.fingerprint, m.claimed_at_ms, m.done_at_ms,
    m.expires_at_ms, m.result_kind, m.result, j.worker, j.fence
FROM emq_marker AS m LEFT JOIN emq_job AS j ON j.qid = m.qid AND j.id = m.job_id
    AND j.timestamp_at_ms = m.timestamp_at_ms AND j.state = 2
WHERE m.qid = ?1 AND m.job_id = ?2 AND (m.timestamp_at_ms, m.step) > (?3, ?4) AND m.expires_at_ms > ?5
ORDER BY m.timestamp_at_ms, m.step LIMIT ?6;

-- name: obliterate_markers
DELETE FROM emq_marker WHERE qid = ?1 AND (job_id, timestamp_at_ms, step) IN
    (SELECT job_id, timestamp_at_ms, step FROM emq_marker WHERE qid = ?1 LIMIT ?2);

-- name: schema_ours
SELECT count(*) FROM sqlite_schema WHERE name LIKE 'emq!_%' ESCAPE '!';
