-- Taking: promotes what is due, then hands out `wait` in line order, then `prioritized`.
--@include lib/finish.lua
--@include lib/opts.lua

local TEXT_AT_MOST_ONCE = "at-most-once: the worker that took it died"
local TEXT_DAMAGED = "undecodable: the data of this record is missing or of no known kind"
local PASS_MAX, BYTES_MAX = 1000, 8388608

-- max(last + 1, now), below 2^53; a clock off by centuries is not followed.
local function next_fence(q)
  local last = math.min(math.max(q.fence, 0), 9007199254740990)
  q.fence = now_us > last and now_us < 4503599627370496 and now_us or last + 1
  return q.fence
end

-- The next `n` ids of a line, behind the first `skip`, in the order in which they are taken.
local LINES = {[WAITING] = "wait", [PRIORITIZED] = "prioritized"}
local function peek(q, line, skip, n)
  flush(q)
  if line == PRIORITIZED then
    return call("ZRANGE", q.b .. "prioritized", skip, skip + n - 1)
  end
  local ids, back = call("LRANGE", q.b .. "wait", -(skip + n), -(skip + 1)), {}
  for i = #ids, 1, -1 do
    back[#back + 1] = ids[i]
  end
  return back
end

-- Removes ids from a line; first: they are its first ones.
local function leave_line(q, line, ids, first)
  local key = q.b .. LINES[line]
  if #ids == 0 then
    return
  elseif line == PRIORITIZED then
    if first then
      call("ZREMRANGEBYRANK", key, 0, #ids - 1)
    else
      call_list(ids, "ZREM", key)
    end
  elseif first then
    call("LTRIM", key, 0, -#ids - 1)
  else
    for _, id in ipairs(ids) do
      call("LREM", key, -1, id)
    end
  end
end

-- The pending iteration of a scheduler of BullMQ: whoever takes it makes the next one, which is
-- left to BullMQ's workers.
local function is_iteration(q, id, h)
  if not h.rjk then
    return false
  end
  local at = call("ZSCORE", q.b .. "repeat", h.rjk)
  return at and id == "repeat:" .. h.rjk .. ":" .. num(tonumber(at))
end

-- The record of a job in line as flat list and table; nil: there is none, its id is dropped.
local function record(q, id)
  local flat = try("HGETALL", q.b .. id)
  if flat.err or #flat == 0 then
    return nil
  end
  local h, bytes = {}, 0
  for i = 1, #flat, 2 do
    h[flat[i]] = flat[i + 1]
    bytes = bytes + #flat[i + 1]
  end
  return flat, h, bytes
end

local function hand_out(q, t, id, flat, h)
  local token = t.worker .. ":" .. num(next_fence(q))
  local at = num(now_ms)
  local set = {"processedOn", at, "pb", t.worker, "ats", num((tonumber(h.ats or 0) or 0) + 1),
               "emq:tk", t.mode .. " " .. at .. " " .. token}
  if t.mode == AT_MOST_ONCE then
    set[9], set[10] = "defa", TEXT_AT_MOST_ONCE
  end
  count(q, "started")
  event(q, "active", "jobId", id, "prev", "waiting")
  if t.mode == FIRE_AND_FORGET then
    q.gone = q.gone or {}
    if h.deid then
      finish_flush(q)
      q.entered = dedup_end(q, id, h.deid) or q.entered
    end
    event(q, "removed", "jobId", id, "prev", "active")
    job_keys(q.gone, q, id)
    count(q, "removed")
  else
    call("SET", q.b .. id .. ":lock", token, "PX", span(t.lock_ms))
    call("HSET", q.b .. id, unpack(set))
  end
  for i = 1, #set do
    flat[#flat + 1] = set[i]
  end
  t.jobs[#t.jobs + 1] = {id, t.mode == FIRE_AND_FORGET and 0 or t.lock_ms, flat}
end

-- How many more jobs this take may get by count, concurrency and rate.
local function room(q, t)
  local n = t.count - #t.jobs
  if q.concurrency > 0 then
    n = math.min(n, q.concurrency - t.active)
  end
  if t.max > 0 then
    n = math.min(n, t.max - t.used)
  end
  return n
end

local function bring_out(q, t, line, id, r)
  if r.failure then
    t.deferred = t.deferred + 1
    finish(q, id, r.h, {state = FAILED, reason = r.failure, keep = own_opts(q, id).keep,
                        prev = STATE_NAME[line]})
  else
    hand_out(q, t, id, r.flat, r.h)
    t.used = t.used + 1
    if t.mode ~= FIRE_AND_FORGET then
      t.active = t.active + 1
    end
  end
end

-- Takes from one line. Ends early, with q.entered, when a job came into line that may go first.
local function take_line(q, t, line)
  local skip, n = 0, room(q, t)
  while n > 0 and t.passed < PASS_MAX and t.bytes < BYTES_MAX do
    local ids, out, leaving, active, skipped, read = peek(q, line, skip, n), {}, {}, {}, 0, 0
    for _, id in ipairs(ids) do
      read = read + 1
      local flat, h, bytes = record(q, id)
      if flat and (t.mode == FIRE_AND_FORGET and (h.parentKey or h.rjk) or is_iteration(q, id, h)) then
        skipped = skipped + 1
        t.passed = t.passed + 1
      else
        leaving[#leaving + 1] = id
        if flat then
          local failure = h.defa or not h.data and TEXT_DAMAGED
          out[#out + 1] = {id = id, flat = flat, h = h, failure = failure}
          if failure then
            t.passed = t.passed + 1
          elseif t.mode ~= FIRE_AND_FORGET then
            active[#active + 1] = id
          end
          t.bytes = t.bytes + bytes
          if t.bytes >= BYTES_MAX or h.deid and (failure or t.mode == FIRE_AND_FORGET) then
            break
          end
        end
      end
    end
    call_list(active, "LPUSH", q.b .. "active")
    leave_line(q, line, leaving, skip + skipped == 0)
    skip = skip + skipped
    for _, r in ipairs(out) do
      bring_out(q, t, line, r.id, r)
    end
    if q.entered then
      return
    end
    if read == #ids and read < n then
      t.empty = t.empty + (skip == 0 and 1 or 0)
      return
    end
    n = room(q, t)
  end
end

-- The window of the rate limit, docs/protocol.md section 5.5. A counter without an end is none.
local function limit_open(q, t)
  if q.max > 0 then
    t.max = q.max
  end
  if t.duration <= 0 then
    t.duration = q.duration
  end
  if t.max <= 0 or t.duration <= 0 then
    t.max = 0
    return
  end
  if q.limit ~= num(t.max) and q.exists then
    q.changed[#q.changed + 1] = "emq:limit"
    q.changed[#q.changed + 1] = num(t.max)
  end
  t.used = tonumber(call("GET", q.b .. "limiter") or 0) or 0
  if t.used > 0 then
    t.left = call("PTTL", q.b .. "limiter")
    if t.left <= 0 then
      call("DEL", q.b .. "limiter")
      t.used = 0
    end
  end
  t.before = t.used
end

local function limit_close(q, t)
  if t.max == 0 then
    return 0
  end
  if t.used > t.before then
    call("INCRBY", q.b .. "limiter", num(t.used - t.before))
    if t.before == 0 then
      t.left = tonumber(span(t.duration))
      call("PEXPIRE", q.b .. "limiter", span(t.duration))
    end
  end
  return t.used >= t.max and t.left or 0
end

-- The seven arguments of a take.
local function take_args(count, worker, lock_ms, max, duration, mode, index)
  return {count = tonumber(count), worker = worker, lock_ms = tonumber(lock_ms), max = tonumber(max),
          duration = tonumber(duration), mode = tonumber(mode), index = index}
end

-- What take() answered, for a receipt: records that stay in the store are read again.
local function taken_short(taken, mode)
  local out = {}
  for i, v in ipairs(taken) do
    out[i] = i > 5 and mode ~= FIRE_AND_FORGET and {v[1], 0, {}} or v
  end
  return out
end

local function taken_again(q, taken)
  local out = {}
  for i, v in ipairs(taken) do
    if i > 5 and #v[3] == 0 then
      v = {v[1], call("PTTL", q.b .. v[1] .. ":lock"), call("HGETALL", q.b .. v[1])}
    end
    if i <= 5 or #v[3] > 0 then
      out[#out + 1] = v
    end
  end
  return out
end

-- t: of take_args(). Answers {paused, maxed, limited_ms, next_due_ms, deferred, {id, lock_left_ms,
-- flat}, ...}; flat: the record as HGETALL gives it, later fields count.
local function take(q, t)
  t.jobs, t.passed, t.bytes, t.deferred, t.empty, t.used = {}, 0, 0, 0, 0, 0
  local _, due = promote_due(q, 1000)
  limit_open(q, t)
  if q.concurrency > 0 then
    t.active = call("LLEN", q.b .. "active")
  end
  t.active = t.active or 0
  if not q.paused then
    repeat
      q.entered, t.empty = false, 0
      take_line(q, t, WAITING)
      if not q.entered then
        take_line(q, t, PRIORITIZED)
      end
    until not q.entered
  end
  if #t.jobs > 0 then
    q.changed[#q.changed + 1] = "emq:fence"
    q.changed[#q.changed + 1] = num(q.fence)
    q.wake = q.wake or t.empty < 2 -- the woken one wakes the next
    if t.index ~= "" and t.mode ~= FIRE_AND_FORGET and
       call("SADD", t.index, string.match(q.b, "([^:]*):$")) == 1 then
      call("PEXPIRE", t.index, 604800000)
    end
  elseif t.empty == 2 and (call("GET", q.b .. "pc") or "2147483648") ~= "2147483648" then
    call("SET", q.b .. "pc", "2147483648") -- nothing is prioritized: it may start again
  end
  if q.delayed then
    due = floor(delayed_head(q))
  end
  local out = {q.paused and 1 or 0, q.concurrency > 0 and t.active >= q.concurrency and 1 or 0,
               limit_close(q, t), due, t.deferred}
  for _, job in ipairs(t.jobs) do
    out[#out + 1] = job
  end
  return out
end
