/* SPDX-License-Identifier: MIT
 *
 * The model engine: the seam of engine/engine.h over plain arrays in memory, O(n) everywhere, one
 * mutex. It is the reference that real engines are compared with, so it must be obviously right and
 * need not be fast. Its clock is virtual: it starts at NAIVE_EPOCH_MS and only advance() moves it.
 *
 * Decisions where engine.h and docs/protocol.md leave a choice. They bind every engine.
 *
 * Places
 *  R1  "Its line" of a job: priority 0 -> waiting, else its priority inside prioritized. "Front" is
 *      before everything in that line (of the same priority), "end" behind it. `lifo` means front
 *      wherever it occurs (add, retry, change of priority, manual retry). Promotion goes to the end.
 *      Release and recovery go to the front.
 *  R2  Order of `find` and `dump`: waiting and prioritized as taken; delayed by due instant, then in
 *      order of insertion; active by fence; completed and failed by finished instant, then in the
 *      order in which they finished.
 *  R3  A job keeps token and fence of its last hand-out after it left active; lock_left_ms, mode and
 *      cancel are 0 then. `processed_at_ms` and `processed_by` stay too (manual retry clears the
 *      former).
 * Totals
 *  R4  totals.added = jobs present in all states + totals.removed, always. `removed` counts every
 *      record that ceased to exist: remove, clean, drain, obliterate, retention, keep none,
 *      fire-and-forget, replaced by dedup, expired. `added` counts new records, also a requeued
 *      keep-last one; staged jobs count when they are published. `started` counts hand-outs,
 *      `completed` and `failed` moves into those states, `retried` RETRY settlements and manual
 *      retries, `recovered` jobs put back by sweep or STALLED, `deduplicated` outcomes
 *      EMQ_DEDUPLICATED.
 * Add
 *  R5  Every entry increments the id counter, whatever becomes of it. Custom id first, then dedup.
 *      DUPLICATE: `id` and `state` of the job in the way; event `duplicated`.
 *  R6  A finished record whose own retention age (of the settlement that finished it) has passed is
 *      absent for add: it is removed first, without an event. sweep() removes such records too, at
 *      most EMQ__BATCH_MAX a call. Until one of them does, it is read and counted as before.
 *  R7  delay_ms > 0 -> delayed, due = timestamp + delay_ms, even if that is past already.
 *  R8  Dedup as in protocol 5.2. Without keep_last, extend with TTL: the window is renewed for the
 *      owner that stands in the way (not while it has a next: R9). An owner whose record is gone: key without TTL -> stale, the
 *      add goes on as new; key with TTL -> still a duplicate (a window outlives its job), state 0.
 *      DEDUPLICATED: `id` names the owner, `state` is its state; event `deduplicated`, except with
 *      replace when the owner is not delayed and nothing is kept.
 *  R9  keep_last while the owner is active: the whole entry is kept as "next" (the last one wins)
 *      with the id it would have got; the key loses its TTL. When the owner finishes for good the
 *      next is added with timestamp = finish time (its delay, priority and lifo honoured) and takes
 *      the key. The id counter grows by one; an id that exists by then is replaced by it.
 *  R10 End of life of a key: owner finished (or taken fire-and-forget): a kept next takes it over;
 *      else no TTL -> released, TTL -> stays until it ends. Owner removed by remove, bulk remove, obliterate, replace: key and next go,
 *      whatever the TTL. Retention leaves keys alone. dedup release drops the next as well.
 *  R11 A stage reserves ids but nothing else: an add of the same id by others meanwhile is E_BUSY, in the
 *      same stage DUPLICATE, state 0. `outcome` of a staged entry is OK or DUPLICATE. Dedup is decided at publish: a deduplicated
 *      entry vanishes there and is not in `count`. Timestamps are those of the staging. A stage ends
 *      one hour after the last add to it. publish counts added jobs and names all others; a second publish: NOT_FOUND.
 *      A stage that is dropped is as one that was never there.
 * Take
 *  R12 Order: promote, rate limit, pause and concurrency, then hand out. Effective max = meta max,
 *      else the worker's; duration = the worker's, else meta duration; without both no limit. A
 *      window starts with its first hand-out; every hand-out counts. limited_ms > 0 whenever the
 *      window is full when the act ends. stats.limited_ms: full by meta max, else by the max of the
 *      last take with a limit.
 *  R13 paused, maxed and next_due_at_ms describe the queue when the act ends.
 *  R14 A job with a deferred failure that is met in the line is failed with that reason (retention
 *      of its own opts, ats and atm unchanged), counted in `deferred`, not in the rate limit.
 *  R15 At-most-once: the take sets deferred_failure to EMQ__TEXT_AT_MOST_ONCE; completing or failing
 *      clears it.
 *  R16 Fire-and-forget passes over jobs with a parent or a scheduler; they stay in line for others.
 *      ats + 1, started + 1, removed + 1, events `active` and `removed` (prev active).
 *  R17 Concurrency bounds active jobs; a take gets at most what is left.
 * Settle, write, extend
 *  R18 Owner: the job must be active under exactly this token, else LOST (also when it is finished);
 *      whether the lock's time has ended does not matter as long as nobody recovered it. Admin: not
 *      active -> WRONG_STATE (settle); any state (write). No such job: NOT_FOUND.
 *  R19 FAILED, RETRY: failed_reason is replaced; a non-empty stack is appended. RELEASE: ats - 1;
 *      front of its line or delayed. STALLED and sweep: stc + 1, ats and atm stay; over max_stalled
 *      (stc > max_stalled) or at-most-once: failed, reason = `reason` of the entry if not empty, else
 *      EMQ__TEXT_AT_MOST_ONCE or EMQ__TEXT_STALLED; stalled counts in that case too. STALLED with a
 *      reason that goes back to its line stores the reason.
 * R19a A job that was asked to stop (cancel) does not go back: RETRY, RELEASE, STALLED and sweep end it
 *      failed, EMQ__TEXT_CANCELLED, whatever reason and limit they bring. Counters as if it went back:
 *      RETRY atm + 1 and its stack, RELEASE ats - 1, STALLED and sweep stc + 1. Keep: STALLED its own,
 *      else keep_failed of its opts.
 *  R20 Retention at the end of each finishing: keep.age of the finishing job drops records of that
 *      state finished that long ago or longer, keep.count keeps the newest n; count 0 keeps nothing.
 *      Sweep, deferred and cancelled jobs use keep_failed of their opts.
 *  R21 sweep takes the `limit` earliest ended locks (end <= now); treated from the
 *      highest fence to the lowest, so that the lowest ends first in line; the ids come back by fence.
 *  R22 `drained` is emitted by a settle act that finished at least one job and leaves waiting,
 *      prioritized and active empty.
 *  R23 History: {"at","what","who","detail"}; what = "refused" (LOST settle or write; who = token),
 *      "recovered" (who = token), "admin" (who = admin; settle, write, change). It goes with the job.
 * Change and bulk
 *  R24 DELAY: due = now + delay_ms. PRIORITY re-inserts waiting and prioritized jobs even when the
 *      number stays the same; else only the number changes. RETRY clears finished_at, processed_at,
 *      result or failed_reason, delay; keeps the stack; reset_attempts sets atm, ats and stc to 0.
 *      REMOVE: event `removed`. CANCEL: atm stays.
 *  R25 bulk: `limit` counts changed jobs; more = another job behind them that the change would allow.
 *      REMOVE emits no `removed`; with `event` one `cleaned` if count > 0. after_id not in the state:
 *      NOT_FOUND.
 *  R26 obliterate of an unknown queue: OK, 0. Staged jobs of the queue go too.
 * Reading and the rest
 *  R27 A queue exists from the first add (published) or setting until obliterated.
 *  R28 Events are JSON objects {"id","event",…}: jobId, name, prev, failedReason, deduplicationId,
 *      deduplicatedJobId strings; delay, count, attemptsMade numbers; data (progress) the JSON value;
 *      returnvalue the JSON value of the result, text as a string, bytes as base64 string, null when
 *      absent or longer than 1024 bytes as written. prev of `removed` is BullMQ's raw name ("wait").
 *      opts.maxLenEvents: default 10000, 0 = none kept.
 *  R29 Every entry `paused` of a meta set emits `paused` or `resumed`.
 *  R30 Receipts: the same (session, seq) gives the same outcome, ids, tokens and payloads; a lower seq
 *      than the last, or the same for another act: E_INVALID. Failures store nothing; an act that
 *      changed nothing need not store a receipt: repeated, it may be answered by the present.
 *  R31 logs of an unknown job: NOT_FOUND. dedup read with owner gone and no TTL: NOT_FOUND.
 *  R32 Events `waiting` on recovery: `waiting` prev active, then `stalled`; over the limit: `stalled`,
 *      then `failed`. RETRY and FAILED of the last attempt: FAILED emits `failed`, then
 *      `retries-exhausted` when atm >= attempts of its opts.
 */
#ifndef EMQ_TESTS_NAIVE_H
#define EMQ_TESTS_NAIVE_H

#include "engine/engine.h"

#define NAIVE_EPOCH_MS INT64_C(1800000000000)

emq_status naive_open(struct emq__engine **out, emq_error *err);

#endif
