-- SPDX-License-Identifier: MIT
--
-- What transactions are made of (tx.c, read.c).

-- name: begin_read
BEGIN;

-- name: begin_write
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- name: rollback
ROLLBACK;

-- name: savepoint
SAVEPOINT op;

-- name: savepoint_keep
RELEASE op;

-- name: savepoint_undo
ROLLBACK TO op;

-- Changes when another connection has committed.
-- name: data_version
PRAGMA data_version;
