-- Into completed or failed: dedup, parent, record, event, retention.
-- Places, retention and deletions are collected and done by finish_flush().
--@include lib/dedup.lua
--@include lib/parent.lua

local FINISHED = {[COMPLETED] = "completed", [FAILED] = "failed"}

-- The score is the instant. In one millisecond the order of finishing is kept in the fraction.
local function finish_score(q, state)
  q.top = q.top or {}
  local last = q.top[state]
  if not last then
    local top = call("ZREVRANGEBYSCORE", q.b .. FINISHED[state], "(" .. num(now_ms + 1), num(now_ms),
                     "WITHSCORES", "LIMIT", 0, 1)
    last = top[2] and tonumber(top[2]) or now_ms - 1 / 4096
  end
  last = math.min(last + 1 / 4096, now_ms + 4095 / 4096)
  q.top[state] = last
  return last
end

-- The records of jobs that have left completed or failed.
local function dropped(q, state, ids)
  for _, id in ipairs(ids) do
    if state == FAILED then
      local h = call("HMGET", q.b .. id, "parentKey", "parent")
      child_removed(q.b .. id, {parentKey = h[1], parent = h[2]})
    end
    job_keys(q.gone, q, id)
  end
  count(q, "removed", #ids)
end

-- Drops the oldest of a state: those past the age, and beyond the count. At most 1,000 a time.
local function retain(q, state, keep)
  local key, excess = q.b .. FINISHED[state], 0
  if keep.age > 0 then
    excess = call("ZCOUNT", key, "-inf", "(" .. num(now_ms - keep.age + 1))
  end
  if keep.count > 0 then
    excess = math.max(excess, call("ZCARD", key) - keep.count)
  end
  if excess <= 0 then
    return
  end
  local ids = call("ZRANGE", key, 0, math.min(excess, 1000) - 1)
  call("ZREMRANGEBYRANK", key, 0, #ids - 1)
  dropped(q, state, ids)
end

local function finish_flush(q)
  for state, list in pairs(q.done or {}) do
    call_list(list, "ZADD", q.b .. FINISHED[state])
    retain(q, state, q.keep[state])
  end
  call_list(q.gone or {}, "DEL")
  q.done, q.gone, q.keep = {}, {}, {}
end

-- f: state, value (completed: JSON) or reason (failed), renc, keep {count, age}, set (pairs to write
-- beside), prev, attempts (made, for retries-exhausted; nil = no such event).
-- The job has left its place and its lock. h: its parentKey, parent, deid, emq:cancel, defa.
-- Answers the state after it, 0 = gone.
local function finish(q, id, h, f)
  local key, keep, completed = q.b .. id, f.keep, f.state == COMPLETED
  local rule = q.keep and q.keep[f.state]
  if not rule or rule.count ~= keep.count or rule.age ~= keep.age then
    finish_flush(q)
  end
  if h.deid then
    if call("EXISTS", q.b .. "dn:" .. h.deid) == 1 then
      finish_flush(q) -- an id that is on its way out is free for the next job
    end
    q.entered = dedup_end(q, id, h.deid) or q.entered
  end
  if h.parentKey then
    if completed then
      child_completed(key, h, f.value)
    else
      child_failed(key, h, f.reason)
    end
  end
  count(q, FINISHED[f.state])
  if keep.count == 0 then
    job_keys(q.gone, q, id)
    count(q, "removed")
    if h.parentKey then
      child_removed(key, h)
    end
  else
    q.keep[f.state] = keep
    local set, list = f.set or {}, q.done[f.state] or {}
    q.done[f.state] = list
    list[#list + 1] = finish_score(q, f.state)
    list[#list + 1] = id
    set[#set + 1] = "finishedOn"
    set[#set + 1] = num(now_ms)
    set[#set + 1] = completed and "returnvalue" or "failedReason"
    set[#set + 1] = f.value or f.reason
    if f.renc then
      set[#set + 1] = "emq:renc"
      set[#set + 1] = f.renc
    end
    if keep.age > 0 then
      set[#set + 1] = "emq:exp"
      set[#set + 1] = num(now_ms + keep.age)
    end
    call("HSET", key, unpack(set))
    if h.defa or h["emq:cancel"] then
      call("HDEL", key, "defa", "emq:cancel")
    end
  end
  if completed then
    event(q, "completed", "jobId", id, "returnvalue", f.value, "prev", f.prev)
  else
    event(q, "failed", "jobId", id, "failedReason", f.reason, "prev", f.prev)
    if f.made then
      event(q, "retries-exhausted", "jobId", id, "attemptsMade", num(f.made))
    end
  end
  return keep.count == 0 and 0 or f.state
end
