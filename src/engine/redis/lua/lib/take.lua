-- Taking: promotes what is due, then hands out `wait` in line order, then `prioritized`.
--@include lib/complete.lua
--@include lib/rare.lua

-- The next `n` ids of a line in the order in which they are taken.
local function peek(q, line, n)
  if line == PRIORITIZED then
    return call("ZRANGE", q.b .. "prioritized", "0", num(n - 1))
  end
  local ids = call("LRANGE", q.b .. "wait", num(-n), "-1")
  local last = #ids
  for i = 1, last / 2 do
    ids[i], ids[last + 1 - i] = ids[last + 1 - i], ids[i]
  end
  return ids
end

-- The lock, the record and the event of a job that is in `active` now. The fence is max(last + 1, now);
-- a clock off by centuries is not followed.
local function hand_out(q, t, id, key, row, started)
  local last = q.fence
  q.fence = now_us > last and now_us < 4503599627370496 and now_us or last + 1
  local token = t.worker .. ":" .. num(q.fence)
  call("SET", key .. ":lock", token, "PX", t.lock_text)
  event(q, "active", "jobId", id, "prev", "waiting")
  if t.mode == AT_MOST_ONCE then
    call("HSET", key, "processedOn", now_text, "pb", t.worker, "ats", plus_one(started), "emq:tk", t.held .. token,
         "defa", rare().AT_MOST_ONCE)
  else
    call("HSET", key, "processedOn", now_text, "pb", t.worker, "ats", plus_one(started), "emq:tk", t.held .. token)
  end
  row[#row] = token
  t.jobs[#t.jobs + 1] = row
end

-- How many more jobs this take may get by count, concurrency and rate.
local function room(q, t)
  local n = t.count - #t.jobs
  if q.concurrency > 0 then
    n = math.min(n, q.concurrency - t.active)
  end
  if t.limit > 0 then
    n = math.min(n, t.limit - t.used)
  end
  return n
end

-- f(...), which raises only before it writes. Behind what the act has done already it is left out where a key
-- belongs to something else: nil. The next act says so.
local function go_on(behind, f, ...)
  if not behind then
    return f(...)
  end
  local done, r = where_sound(f, ...)
  return done and r or nil
end

local function has_acted(t)
  return #t.jobs + t.deferred + t.promoted > 0
end

--@include lib/mixed.lua

-- The row of a job that is plainly to be handed out, and how often it was started; else nil. A new one has
-- six fields, which need no names.
local function read_plain(t, id, key)
  local flat, bytes = try("HGETALL", key), t.bytes
  local name, data, opts, timestamp, delay, priority, started
  for i = 1, #flat, 2 do
    local field, value = flat[i], flat[i + 1]
    bytes = bytes + #value
    if field == "name" then
      name = value
    elseif field == "data" then
      data = value
    elseif field == "opts" then
      opts = value
    elseif field == "timestamp" then
      timestamp = value
    elseif field == "delay" then
      delay = value
    elseif field == "priority" then
      priority = value
    elseif field == "ats" then
      started = value
    elseif field == "defa" or field == "rjk" then
      return nil
    end
  end
  if not data or bytes >= BYTES_MAX then
    return nil
  end
  t.bytes = bytes
  if #flat == 12 and name and opts and timestamp and delay and priority then
    return {id, t.lock_ms, name, data, opts, timestamp, delay, priority, ""}, nil
  end
  return {id, t.lock_ms, flat, ""}, started
end

-- One job is moved at once, and back when it is not plainly to be handed out.
local function take_one(q, t)
  local id = call("LMOVE", q.b .. "wait", q.b .. "active", "RIGHT", "LEFT")
  if not id then
    t.empty = t.empty + 1
    return
  end
  local key = q.b .. id
  local row, started = read_plain(t, id, key)
  if row then
    t.used, t.active = t.used + 1, t.active + 1
    hand_out(q, t, id, key, row, started)
  else
    call("LREM", q.b .. "active", "1", id)
    call("RPUSH", q.b .. "wait", id)
    mixed(q, t, WAITING)
  end
end

-- Takes from one line. What is not plainly to be handed out is left to mixed().
local function take_line(q, t, line)
  local n = room(q, t)
  if n <= 0 then
    return
  end
  flush(q)
  if t.mode == FIRE_AND_FORGET then
    return mixed(q, t, line)
  elseif n == 1 and line == WAITING then
    return take_one(q, t)
  end
  local ids, keys, rows, started = peek(q, line, n), {}, {}, {}
  local taken, before = #ids, t.bytes
  for i = 1, taken do
    keys[i] = q.b .. ids[i]
    rows[i], started[i] = read_plain(t, ids[i], keys[i])
    if not rows[i] then
      t.bytes = before
      return mixed(q, t, line)
    end
  end
  t.empty = t.empty + (taken < n and 1 or 0)
  if taken == 0 then
    return
  end
  call_list(ids, "LPUSH", q.b .. "active")
  if line == PRIORITIZED then
    call("ZREMRANGEBYRANK", q.b .. "prioritized", "0", num(taken - 1))
  else
    call("LTRIM", q.b .. "wait", "0", num(-taken - 1))
  end
  t.used, t.active = t.used + taken, t.active + taken
  for i = 1, taken do
    hand_out(q, t, ids[i], keys[i], rows[i], started[i])
  end
end

-- The seven arguments of a take.
local function take_args(count, worker, lock_ms, max, duration, mode, index)
  return {count = tonumber(count), worker = worker, lock_ms = lock_ms, max = max, duration = duration, mode = mode,
          index = index}
end

-- t: of take_args(). Answers {paused, maxed, limited_ms, next_due_ms, deferred, row, ...}. A row is {id,
-- lock_left_ms, record, token}, the record as it was before the hand-out; {id, lock_left_ms, name, data, opts,
-- timestamp, delay, priority, token} of a new job; or of a take that is repeated {id, lock_left_ms, record,
-- token, ""}, the record as it is now.
local function take(q, t)
  t.jobs, t.passed, t.bytes, t.deferred, t.empty, t.used, t.limit, t.active = {}, 0, 0, 0, 0, 0, 0, 0
  t.promoted = 0
  t.lock_text, t.held = t.lock_ms, t.mode .. " " .. now_text .. " "
  if t.max ~= "0" or q.max > 0 then
    rare().limit_open(q, t)
  end
  if q.concurrency > 0 then
    t.active = call("LLEN", q.b .. "active")
  end
  local due = delayed_head(q)
  if due > 0 and due < now_ms + 1 then
    t.promoted, due = rare().promote_due(q, 1000)
  end
  if not q.paused then
    repeat
      q.entered, t.empty = false, 0
      go_on(has_acted(t), take_line, q, t, WAITING)
      if not q.entered then
        go_on(has_acted(t), take_line, q, t, PRIORITIZED)
      end
    until not q.entered
  end
  if #t.jobs > 0 then
    count(q, "started", #t.jobs)
    q.changed[#q.changed + 1] = "emq:fence"
    q.changed[#q.changed + 1] = num(q.fence)
    q.wake = q.wake or t.empty < 2 -- the woken one wakes the next
    if t.index ~= "" and t.mode ~= FIRE_AND_FORGET and
       tonumber(try_record("SADD", t.index, string.match(q.b, "([^:]*):$"))) then
      call("PEXPIRE", t.index, "604800000")
    end
  elseif t.empty == 2 and (tonumber(try_record("GET", q.b .. "pc")) or 2147483648) ~= 2147483648 then
    call("SET", q.b .. "pc", "2147483648") -- nothing is prioritized: it may start again
  end
  if q.delayed then
    due = delayed_head(q)
  end
  return {q.paused and 1 or 0, q.concurrency > 0 and t.active >= q.concurrency and 1 or 0,
          t.limit > 0 and rare().limit_close(q, t) or 0, floor(due), t.deferred, unpack(t.jobs)}
end

-- What take() answered, for a receipt: ids and tokens only of those whose records stay in the store.
local function taken_short(taken, mode)
  local out = {unpack(taken)}
  for i = 6, mode ~= FIRE_AND_FORGET and #out or 0 do
    out[i] = {out[i][1], out[i][#out[i]]}
  end
  return out
end
