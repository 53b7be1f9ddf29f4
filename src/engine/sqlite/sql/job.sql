-- SPDX-License-Identifier: MIT
--
-- Statements of the acts write and change on one job.

-- name: write_progress
UPDATE emq_job SET progress = ?2 WHERE jid = ?1;

-- name: write_data
UPDATE emq_job SET data_kind = ?2, data = ?3, side = ?4 WHERE jid = ?1;

-- name: write_data_side
INSERT INTO emq_data (jid, bytes) VALUES (?1, ?2)
ON CONFLICT (jid) DO UPDATE SET bytes = excluded.bytes;

-- name: write_data_unside
DELETE FROM emq_data WHERE jid = ?1;

-- name: write_log_last
SELECT n FROM emq_log WHERE jid = ?1 ORDER BY n DESC LIMIT 1;

-- name: write_log_add
INSERT INTO emq_log (jid, n, line) VALUES (?1, ?2, ?3);

-- name: write_log_trim
DELETE FROM emq_log WHERE jid = ?1 AND n <= ?2;

-- name: write_logs
UPDATE emq_job SET logs = ?2 WHERE jid = ?1;

-- name: change_delay
UPDATE emq_job SET ord1 = ?2, ord2 = ?3, delay_ms = ?4 WHERE jid = ?1;

-- name: change_priority
UPDATE emq_job SET priority = ?2 WHERE jid = ?1;

-- name: change_cancel
UPDATE emq_job SET cancel = 1 WHERE jid = ?1;
