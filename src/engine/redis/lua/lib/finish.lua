-- Into completed or failed: dedup, parent, record, event, retention.
-- Places, retention and deletions are collected and done by finish_flush().
--@include lib/dedup.lua
--@include lib/parent.lua

local FINISHED = {[COMPLETED] = "completed", [FAILED] = "failed"}

-- What is kept of a state: the newest `count` (-1 = all, 0 = none) of the last `age` ms (0 = of any).
local function new_keep(count, age)
  return {count = count, age = age, exp = age > 0 and num(now_ms + age), old = age > 0 and "(" .. num(now_ms - age + 1)}
end

-- The score is the instant. In one millisecond the order of finishing is kept in the fraction, in
-- 4096 steps, which four digits name.
local function finish_score(q, state)
  local step = q.top[state]
  if not step then
    local top = call("ZREVRANGEBYSCORE", q.b .. FINISHED[state], "(" .. num(now_ms + 1), now_text,
                     "WITHSCORES", "LIMIT", "0", "1")
    step = top[2] and floor((tonumber(top[2]) - now_ms) * 4096 + 1.5) or 0
  end
  step = math.min(step, 4095)
  q.top[state] = step + 1
  return step == 0 and now_text or now_text .. format(".%04d", floor(step * 10000 / 4096 + 0.5))
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
  if keep.old then
    excess = call("ZCOUNT", key, "-inf", keep.old)
  end
  if keep.count > 0 then
    excess = math.max(excess, call("ZCARD", key) - keep.count)
  end
  if excess <= 0 then
    return
  end
  local ids = call("ZRANGE", key, "0", num(math.min(excess, 1000) - 1))
  call("ZREMRANGEBYRANK", key, "0", num(#ids - 1))
  dropped(q, state, ids)
end

local function finish_flush(q)
  for state, list in pairs(q.done or {}) do
    call_list(list, "ZADD", q.b .. FINISHED[state])
    retain(q, state, q.keep[state])
  end
  call_list(q.gone or {}, "DEL")
  q.done, q.gone, q.keep, q.top = {}, {}, {}, q.top or {}
end

-- Collects the job's place under this rule, or its deletion. What waits under another rule comes first.
local function finish_place(q, id, state, keep)
  local rule = q.keep and q.keep[state]
  if rule ~= keep and not (rule and rule.count == keep.count and rule.age == keep.age) then
    finish_flush(q)
  end
  count(q, FINISHED[state])
  if keep.count == 0 then
    job_keys(q.gone, q, id)
    count(q, "removed")
    return
  end
  q.keep[state] = keep
  local list = q.done[state]
  if not list then
    list = {}
    q.done[state] = list
  end
  local n = #list
  list[n + 1] = finish_score(q, state)
  list[n + 2] = id
end

-- The usual end: completed, without parent, dedup id or failure in its record. value: JSON.
local function complete(q, id, key, made, value, keep)
  finish_place(q, id, COMPLETED, keep)
  if keep.exp then
    call("HSET", key, "atm", made, "finishedOn", now_text, "returnvalue", value, "emq:exp", keep.exp)
  elseif keep.count ~= 0 then
    call("HSET", key, "atm", made, "finishedOn", now_text, "returnvalue", value)
  end
  event(q, "completed", "jobId", id, "returnvalue", value, "prev", "active")
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
