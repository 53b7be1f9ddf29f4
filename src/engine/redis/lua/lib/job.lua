-- A job's record: is it ours, where is it, storing a new one.
--@include lib/place.lua
--@include lib/complete.lua

-- A flat list of fields and values as a table.
local function fields(flat)
  local h = {}
  for i = 1, #flat, 2 do
    h[flat[i]] = flat[i + 1]
  end
  return h
end

-- Has anything been added or set here?
local function exists(q)
  for i = 1, 15 do
    if q.meta[i] then
      return true
    end
  end
  return q.plus.added and true or false
end

-- What emq:tk says, if it is about the hand-out that processedOn is of: token and mode; else nil.
local function last_token(tk, processed_on)
  if not tk then
    return nil
  end
  local mode, at, token = string.match(tk, "^(%d+) (%d+) (.+)$")
  if at and at == processed_on then
    return token, mode
  end
  return nil
end

-- Is it active? O(length of that list).
local function in_active(q, id)
  return call("LPOS", q.b .. "active", id) and true or false
end

-- Is it the owner's token? lock: the value of the lock key. A lock that has ended but whose job
-- nobody has recovered is still its owner's.
local function owns(q, id, token, lock, tk, processed_on)
  if lock then
    return lock == token
  end
  return last_token(tk, processed_on) == token and in_active(q, id)
end

-- Is the stage `of` that began at `since` still filled, or being published?
local function stage_lives(since, of)
  local pub = of .. ":" .. since
  return call("LINDEX", of, "0") == "b" .. since or
         string.sub(call("LINDEX", pub, "0") or "", 1, 1) == "c" and call("LLEN", pub) > 1
end

-- The stage that has a record for an id, and when that began; it may have ended. nil: none has.
local function stage_of(q, id)
  local mark = try_record("HGET", q.x .. "staged:" .. id, "emq:stage")
  local since, of = string.match(type(mark) == "string" and mark or "", "^(%d+) %d+ (.*)$")
  return of, since
end

-- A key of another type is no job's.
local function is_hash(key)
  return call("TYPE", key).ok == "hash"
end

-- The state of a job whose hash is there. By elimination: `wait` may be long and is
-- never searched.
local function state_of(q, id)
  local key = q.b .. id
  local h = call("HMGET", key, "finishedOn", "processedOn")
  flush(q)
  if h[1] then
    if call("ZSCORE", q.b .. "completed", id) then
      return COMPLETED
    elseif call("ZSCORE", q.b .. "failed", id) then
      return FAILED
    end
  end
  if call("ZSCORE", q.b .. "delayed", id) then
    return DELAYED
  elseif call("ZSCORE", q.b .. "prioritized", id) then
    return PRIORITIZED
  elseif h[2] and in_active(q, id) then
    return ACTIVE
  elseif call("ZSCORE", q.b .. "waiting-children", id) then
    return WAITING_CHILDREN
  end
  return WAITING
end

-- An exceptional entry of a job's life, for `why`; of now, or of `at`. Of the detail its beginning, whole
-- characters; like emq__detail().
local function history(q, id, what, who, detail, at)
  local key, n = q.x .. "hist:" .. id, math.min(#detail, 200)
  while n < #detail and string.find(string.sub(detail, n + 1, n + 1), "[\128-\191]") do
    n = n - 1
  end
  detail = string.sub(detail, 1, n)
  local function quoted(text)
    return (string.gsub(cjson.encode(text), "\\/", "/"))
  end
  local n_entries = try_record("RPUSH", key, '{"at":' .. (at or now_text) .. ',"what":"' .. what .. '","who":' .. quoted(who) ..
       ',"detail":' .. quoted(detail) .. '}')
  if type(n_entries) ~= "number" then
    return
  end
  call("LTRIM", key, "-100", "-1")
  call("PEXPIRE", key, num(HISTORY_MS))
  if not q.wrote_history then
    q.wrote_history, q.histories = true, true
    q.changed[#q.changed + 1] = "emq:hist"
    q.changed[#q.changed + 1] = now_text
  end
end

-- Texts that end up as data, as in model/job.h.
local TEXT_AT_MOST_ONCE = "at-most-once: the worker that took it died"
local TEXT_STALLED = "job stalled more than allowable limit"
local TEXT_CANCELLED = "cancelled"
local TEXT_LOCK_ENDED = "the lock had ended"
local TEXT_DAMAGED = "undecodable: the data of this record is missing or of no known kind"

-- Stores a new job: id, name, data, opts, timestamp, delay, priority as text or number, and if there
-- parentKey, parent, rjk, deid, group, enc, stage; at j.key if it has one.
local OPTIONAL = {"parentKey", "parent", "rjk", "deid", "emq:group", "emq:enc", "emq:stage"}
local function store(q, j)
  local f = {"name", j.name, "data", j.data, "opts", j.opts, "timestamp", num(j.timestamp),
             "delay", num(j.delay), "priority", num(j.priority)}
  for _, name in ipairs(OPTIONAL) do
    if j[name] then
      f[#f + 1] = name
      f[#f + 1] = j[name]
    end
  end
  call("HSET", j.key or q.b .. j.id, unpack(f))
end

-- Puts a stored job in its first place and tells of it.
local function enter(q, j)
  count(q, "added")
  event(q, "added", "jobId", j.id, "name", j.name)
  if j.delay > 0 then
    place_delayed(q, j.id, j.timestamp + j.delay)
  else
    place_line(q, j.id, j.priority, j.lifo)
    event(q, "waiting", "jobId", j.id)
  end
end
