-- Taking: promotes what is due, then hands out `wait` in line order, then `prioritized`.
--@include lib/complete.lua
--@include lib/rare.lua

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
    return call("ZRANGE", q.b .. "prioritized", num(skip), num(skip + n - 1))
  end
  local ids, back = call("LRANGE", q.b .. "wait", num(-skip - n), num(-skip - 1)), {}
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
      call("ZREMRANGEBYRANK", key, "0", num(#ids - 1))
    else
      call_list(ids, "ZREM", key)
    end
  elseif first then
    call("LTRIM", key, "0", num(-#ids - 1))
  else
    for _, id in ipairs(ids) do
      call("LREM", key, "-1", id)
    end
  end
end

-- Fields of a record that matter to a take.
local TELLING = {ats = true, data = true, defa = true, deid = true, parentKey = true, parent = true, rjk = true,
                 ["emq:cancel"] = true}

-- Reads the record of a job in line into r.flat and r.h, the telling fields; false: there is none.
local function read_record(r)
  local flat = try("HGETALL", r.key)
  local n, h, bytes = #flat, r.h, 0
  if n == 0 then
    return false
  end
  for i = 1, n, 2 do
    local field, value = flat[i], flat[i + 1]
    bytes = bytes + #value
    if TELLING[field] then
      h[field] = value
    end
  end
  r.flat, r.bytes = flat, bytes
  return true
end

local function hand_out(q, t, r)
  local token = t.prefix .. num(next_fence(q))
  t.used = t.used + 1
  t.jobs[#t.jobs + 1] = {r.id, t.mode == FIRE_AND_FORGET and 0 or t.lock_ms, r.flat, token}
  if t.mode == FIRE_AND_FORGET then
    rare().pop(q, r)
    return
  end
  local key, started = r.key, plus_one(r.h.ats)
  call("SET", key .. ":lock", token, "PX", t.lock_text)
  event(q, "active", "jobId", r.id, "prev", "waiting")
  if t.mode == AT_MOST_ONCE then
    call("HSET", key, "processedOn", now_text, "pb", t.worker, "ats", started, "emq:tk", t.held .. token,
         "defa", rare().AT_MOST_ONCE)
  else
    call("HSET", key, "processedOn", now_text, "pb", t.worker, "ats", started, "emq:tk", t.held .. token)
  end
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

-- May this mode take it? Some jobs stay in line for others.
local function is_for(q, t, r)
  if not r.h.parentKey and not r.h.rjk then
    return true
  end
  return t.mode ~= FIRE_AND_FORGET and not (r.h.rjk and rare().is_iteration(q, r.id, r.h.rjk))
end

-- Takes from one line. Ends early, with q.entered, when a job came into line that may go first.
local function take_line(q, t, line)
  local skip, n = 0, room(q, t)
  while n > 0 and t.passed < PASS_MAX and t.bytes < BYTES_MAX do
    local ids, out, leaving, active, skipped, read = peek(q, line, skip, n), {}, {}, {}, 0, 0
    for i = 1, #ids do
      local id = ids[i]
      local r = {id = id, key = q.b .. id, h = {}, flat = false, bytes = 0, failure = false}
      read = i
      if not read_record(r) then
        leaving[#leaving + 1] = id
      elseif not is_for(q, t, r) then
        skipped = skipped + 1
        t.passed = t.passed + 1
      else
        leaving[#leaving + 1] = id
        out[#out + 1] = r
        r.failure = r.h.defa or not r.h.data
        if r.failure then
          t.passed = t.passed + 1
        else
          active[#active + 1] = id
        end
        t.bytes = t.bytes + r.bytes
        if t.bytes >= BYTES_MAX or r.h.deid and (r.failure or t.mode == FIRE_AND_FORGET) then
          break
        end
      end
    end
    if t.mode ~= FIRE_AND_FORGET then
      call_list(active, "LPUSH", q.b .. "active")
      t.active = t.active + #active
    end
    leave_line(q, line, leaving, skip + skipped == 0)
    skip = skip + skipped
    for i = 1, #out do
      local r = out[i]
      if r.failure then
        t.deferred = t.deferred + 1
        rare().fail_in_line(q, line, r)
      else
        hand_out(q, t, r)
      end
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
  if q.limit ~= num(t.max) and rare().exists(q) then
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

-- What take() answered, for a receipt: ids only of those whose records stay in the store.
local function taken_short(taken, mode)
  local out = {}
  for i = 1, #taken do
    out[i] = i > 5 and mode ~= FIRE_AND_FORGET and taken[i][1] or taken[i]
  end
  return out
end

local function taken_again(q, taken)
  local out = {}
  for i, v in ipairs(taken) do
    if type(v) == "string" then
      v = {v, call("PTTL", q.b .. v .. ":lock"), call("HGETALL", q.b .. v), ""}
    end
    if i <= 5 or #v[3] > 0 then
      out[#out + 1] = v
    end
  end
  return out
end

-- t: of take_args(). Answers {paused, maxed, limited_ms, next_due_ms, deferred, {id, lock_left_ms,
-- record, token}, ...}: the record as it was before the hand-out; with the token "" as it is now.
local function take(q, t)
  t.jobs, t.passed, t.bytes, t.deferred, t.empty, t.used = {}, 0, 0, 0, 0, 0
  t.prefix, t.lock_text, t.held = t.worker .. ":", span(t.lock_ms), t.mode .. " " .. now_text .. " "
  local due = delayed_head(q)
  if due > 0 and due < now_ms + 1 then
    due = select(2, rare().promote_due(q, 1000))
  end
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
    count(q, "started", #t.jobs)
    q.changed[#q.changed + 1] = "emq:fence"
    q.changed[#q.changed + 1] = num(q.fence)
    q.wake = q.wake or t.empty < 2 -- the woken one wakes the next
    if t.index ~= "" and t.mode ~= FIRE_AND_FORGET and
       call("SADD", t.index, string.match(q.b, "([^:]*):$")) == 1 then
      call("PEXPIRE", t.index, "604800000")
    end
  elseif t.empty == 2 and (call("GET", q.b .. "pc") or "2147483648") ~= "2147483648" then
    call("SET", q.b .. "pc", "2147483648") -- nothing is prioritized: it may start again
  end
  if q.delayed then
    due = delayed_head(q)
  end
  local out = {q.paused and 1 or 0, q.concurrency > 0 and t.active >= q.concurrency and 1 or 0,
               limit_close(q, t), floor(due), t.deferred}
  for _, job in ipairs(t.jobs) do
    out[#out + 1] = job
  end
  return out
end
