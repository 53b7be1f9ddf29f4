-- Every end of a job: dedup, parent, record, event, retention.
--@include lib/complete.lua
--@include lib/dedup.lua
--@include lib/parent.lua

-- A failed job whose record ends: its parent need not wait for it. A parent in whose queue a key belongs to
-- something else is left to fsck: another job's end is not refused for it.
local function failed_leaves(q, id)
  local h = try_record("HMGET", q.b .. id, "parentKey", "parent")
  h = {parentKey = h[1], parent = h[2]}
  if where_sound(sound_parent, h) then
    child_removed(q.b .. id, h)
  end
end

local function finish_record(key, h, f, keep)
  local set = f.set or {}
  local n = #set
  set[n + 1], set[n + 2] = "finishedOn", now_text
  set[n + 3] = f.state == COMPLETED and "returnvalue" or "failedReason"
  set[n + 4] = f.value or f.reason
  if keep.exp then
    set[#set + 1] = "emq:exp"
    set[#set + 1] = keep.exp
  end
  if f.renc then
    set[#set + 1] = "emq:renc"
    set[#set + 1] = f.renc
  end
  call("HSET", key, unpack(set))
  if h.defa or h["emq:cancel"] then
    call("HDEL", key, "defa", "emq:cancel")
  end
end

-- f: state, value (completed: JSON) or reason (failed), renc, keep, set (pairs to write beside), prev,
-- made (attempts, for retries-exhausted; nil = no such event).
-- The job has left its place and its lock. h: its parentKey, parent, deid, emq:cancel, defa.
-- Answers the state after it, 0 = gone.
local function finish(q, id, h, f)
  local key, completed = q.b .. id, f.state == COMPLETED
  if h.deid then
    finish_flush(q) -- an id that is on its way out is free for the kept next job
    q.entered = dedup_end(q, id, h.deid) or q.entered
  end
  if h.parentKey then
    if completed then
      child_completed(key, h, f.value)
    else
      child_failed(key, h, f.reason)
    end
  end
  q.leaves = failed_leaves
  finish_place(q, id, f.state, f.keep)
  if f.keep.count ~= 0 then
    finish_record(key, h, f, f.keep)
  elseif h.parentKey then
    child_removed(key, h)
  end
  if completed then
    event(q, "completed", "jobId", id, "returnvalue", f.value, "prev", f.prev)
  else
    event(q, "failed", "jobId", id, "failedReason", f.reason, "prev", f.prev)
    if f.made then
      event(q, "retries-exhausted", "jobId", id, "attemptsMade", f.made)
    end
  end
  return f.keep.count == 0 and 0 or f.state
end
