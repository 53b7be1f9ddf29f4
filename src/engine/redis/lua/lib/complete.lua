-- The usual end of a job, and what all ends share. Places, retention and deletions are collected and done
-- by finish_flush().
--@include lib/line.lua

local FINISHED = {[COMPLETED] = "completed", [FAILED] = "failed"}

-- What is kept of a state: the newest `count` (-1 = all, 0 = none) of the last `age` ms (0 = of any).
local function new_keep(count, age)
  return {count = count, age = age, exp = age > 0 and num(now_ms + age)}
end

-- Adds the keys that a job may have to a list for DEL; all but its lock. childless: it was completed, which
-- no job is while others of :dependencies or :unsuccessful are there.
local function job_keys(list, q, id, childless)
  local key, n = q.b .. id, #list
  list[n + 1] = key
  list[n + 2] = key .. ":logs"
  list[n + 3] = key .. ":processed"
  list[n + 4] = key .. ":failed"
  n = n + 5
  if not childless then
    list[n], list[n + 1] = key .. ":dependencies", key .. ":unsuccessful"
    n = n + 2
  end
  if q.histories then
    list[n] = q.x .. "hist:" .. id
  end
end

local function finish_begin(q)
  if not q.done then
    q.done, q.gone, q.keep, q.top = {}, {}, {}, {}
  end
end

-- The next step of this millisecond, see finish_score(). Called before a job leaves its place: the key may belong
-- to something else.
local function finish_top(q, state)
  finish_begin(q)
  local step = q.top[state]
  if not step then
    local top = call("ZREVRANGEBYSCORE", q.b .. FINISHED[state], "(" .. num(now_ms + 1), now_text,
                     "WITHSCORES", "LIMIT", "0", "1")[2]
    step = top and floor((tonumber(top) - now_ms) * 4096 + 1.5) or 0
    q.top[state] = step
  end
  return step
end

-- The score is the instant. In one millisecond the order of finishing is kept in the fraction, in
-- 4096 steps, which four digits name.
local function finish_score(q, state)
  local step = math.min(finish_top(q, state), 4095)
  q.top[state] = step + 1
  return step == 0 and now_text or now_text .. format(".%04d", floor(step * 10000 / 4096 + 0.5))
end

-- Answers the score of what was dropped, if it was one; scores are dear to print.
local function drop_oldest(q, state, n)
  local key, ids, score = q.b .. FINISHED[state], nil, 0
  if n == 1 then
    ids = call("ZPOPMIN", key)
    score, ids[2] = tonumber(ids[2]), nil
  else
    ids = call("ZRANGE", key, "0", num(n - 1))
    call("ZREMRANGEBYRANK", key, "0", num(n - 1))
  end
  for i = 1, #ids do
    if state == FAILED then
      q.leaves(q, ids[i])
    end
    job_keys(q.gone, q, ids[i], state == COMPLETED)
  end
  count(q, "removed", #ids)
  return score
end

-- Drops the oldest of a state: beyond the count, and those past the age. At most 1,000 a time for each.
local function retain(q, state, keep)
  local key, oldest = q.b .. FINISHED[state], 0
  if keep.count > 0 then
    local excess = call("ZCARD", key) - keep.count
    if excess > 0 then
      oldest = drop_oldest(q, state, math.min(excess, 1000))
    end
  end
  if keep.age > 0 and oldest < now_ms - keep.age + 1 then -- else what is left is younger
    local old = call("ZCOUNT", key, "-inf", "(" .. num(now_ms - keep.age + 1))
    if old > 0 then
      drop_oldest(q, state, math.min(old, 1000))
    end
  end
end

local function finish_flush(q)
  finish_begin(q)
  for state, list in pairs(q.done) do
    call_list(list, "ZADD", q.b .. FINISHED[state])
    retain(q, state, q.keep[state])
  end
  call_list(q.gone, "DEL")
  q.done, q.gone, q.keep = {}, {}, {}
end

-- Collects the job's place under this rule, or its deletion. What waits under another rule comes first.
local function finish_place(q, id, state, keep)
  finish_begin(q)
  local rule = q.keep[state]
  if rule and rule ~= keep and not (rule.count == keep.count and rule.age == keep.age) then
    finish_flush(q)
  end
  count(q, FINISHED[state])
  if keep.count == 0 then
    job_keys(q.gone, q, id, state == COMPLETED)
    count(q, "removed")
    return
  end
  q.keep[state] = keep
  local list = q.done[state] or {}
  q.done[state] = list
  local n = #list
  list[n + 1] = finish_score(q, state)
  list[n + 2] = id
end

-- Completed, without parent, dedup id or failure in its record. value: JSON.
local function complete(q, id, key, made, value, keep)
  finish_place(q, id, COMPLETED, keep)
  if keep.exp then
    call("HSET", key, "atm", made, "finishedOn", now_text, "returnvalue", value, "emq:exp", keep.exp)
  elseif keep.count ~= 0 then
    call("HSET", key, "atm", made, "finishedOn", now_text, "returnvalue", value)
  end
  event(q, "completed", "jobId", id, "returnvalue", value, "prev", "active")
end
