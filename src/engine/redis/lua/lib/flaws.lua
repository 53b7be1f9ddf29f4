-- What must be true of an id in a place, of a key, and of the queue itself (docs/protocol.md section 10.2).
-- Looked at by suspects.lua slice by slice, and by mend.lua once more before it repairs.
--@include lib/base.lua

local LIST = {wait = true, paused = true, active = true}
local PLACES = {"wait", "paused", "active", "delayed", "prioritized", "waiting-children", "completed", "failed"}
local KIND = {wait = "list", paused = "list", active = "list", delayed = "zset", prioritized = "zset",
              ["waiting-children"] = "zset", completed = "zset", failed = "zset", stalled = "set",
              ["repeat"] = "zset", meta = "hash", events = "stream", marker = "zset", id = "string",
              pc = "string", limiter = "string", ["stalled-check"] = "string"}
local SIDE = {lock = "string", logs = "list", dependencies = "set", processed = "hash", failed = "hash",
              unsuccessful = "zset"}
local NUMBERS = {"timestamp", "delay", "atm", "ats", "stc"}
local OVERDUE_MS = 10000

-- Nested deeply, or with half a surrogate pair, it is JSON that this reader does not read.
local function is_json(text)
  if #text > 65536 then
    return true
  end
  local read, why = pcall(cjson.decode, text)
  why = tostring(why)
  return read or string.find(why, "nested", 1, true) or string.find(why, "unicode escape", 1, true) and true or false
end

-- A count that INCR takes.
local function is_count(text)
  return string.match(text, "^%-?%d+$") and #text < 19
end

local function is_record(id)
  return try("HEXISTS", B .. id, "timestamp") == 1
end

local function is_active(id)
  return call("LPOS", B .. "active", id) and true or false
end

-- Everywhere an id is, one entry a time that it is there.
local function where(id)
  local at = {}
  for _, place in ipairs(PLACES) do
    local key = B .. place
    local n = 0
    if LIST[place] then
      n = #call("LPOS", key, id, "COUNT", "0")
    elseif call("ZSCORE", key, id) then
      n = 1
    end
    for _ = 1, n do
      at[#at + 1] = place
    end
  end
  return at
end

-- How many children a parent waits for; -1: the key is of another type.
local function children(key)
  local n = try_record("SCARD", key .. ":dependencies")
  return type(n) == "number" and n or -1
end

-- What a child says of its parent: who it is, what its failure does.
local function policy(parent)
  local read, p = pcall(cjson.decode, parent or "")
  return read and type(p) == "table" and p or {}
end

-- A child that has ended and was to tell its parent so.
local function has_told(child)
  local h = try_record("HMGET", child, "finishedOn", "returnvalue", "parent")
  local p = policy(h[3])
  return h[1] and (h[2] or p.fpof or p.cpof or p.idof or p.rdof)
end

-- The dependencies of the parent that waits for others, but not for this child; on a cluster it may be on another node.
local function parent_without(key, parent)
  local p = policy(parent)
  local of = p.queueKey and p.id and p.queueKey .. ":" .. p.id
  local waits = of and try("ZSCORE", p.queueKey .. ":waiting-children", p.id)
  if type(waits) == "string" and try_record("SISMEMBER", of .. ":dependencies", key) == 0 then
    return of .. ":dependencies"
  end
end

-- Whether a child that its parent waits for is among those that have told it of their end, too.
local function is_twice(key, child)
  return try_record("HEXISTS", key .. ":processed", child) == 1 or try_record("HEXISTS", key .. ":failed", child) == 1 or
         type(try_record("ZSCORE", key .. ":unsuccessful", child)) == "string"
end

-- The flaw of the first child that its parent waits for in vain, and the child; on a cluster a child may be on
-- another node.
local function vain_child(key)
  for _, child in ipairs(call("SSCAN", key .. ":dependencies", "0", "COUNT", "1000")[2]) do
    local there = try("EXISTS", child)
    if there == 0 then
      return "child", child
    elseif there == 1 and has_told(child) then
      return "child-ended", child
    elseif is_twice(key, child) then
      return "child-twice", child
    end
  end
end

-- The flaw of the first child with two ends, and the child.
local function twice_ended(key)
  local failed, unsuccessful = try_record("HKEYS", key .. ":failed"), try_record("ZRANGE", key .. ":unsuccessful", 0, 999)
  for i = 1, math.min(#failed, 1000) do
    if try_record("HEXISTS", key .. ":processed", failed[i]) == 1 then
      return "child-ends", failed[i]
    end
  end
  for _, child in ipairs(unsuccessful) do
    if try_record("HEXISTS", key .. ":processed", child) == 1 or try_record("HEXISTS", key .. ":failed", child) == 1 then
      return "child-ends", child
    end
  end
end

-- Not a time in ms, nor one that BullMQ never looks for.
local function is_due(score)
  return score >= 0 and score < 4096 * 8.64e15 and not (score >= 1e12 and score < 1e13)
end

local function flaw_of_active(id, tk)
  local key = B .. id .. ":lock"
  local lock = try_record("GET", key)
  if type(lock) == "table" then
    return nil -- told where the keys are looked at
  end
  if lock and call("PTTL", key) == -1 then
    return "lock"
  end
  local fence = tonumber(string.match(tk or "", ":(%d+)$") or 0)
  if fence > queue(B).fence then
    return "fence"
  end
  return not lock and "stalled" or nil
end

local function flaw_of_finished(place, id, finished_on, score)
  local at, key = tonumber(finished_on or 0) or 0, B .. id
  if not finished_on or at - score >= 2 or score - at >= 2 then -- fractions keep the order inside a millisecond
    return "finished"
  end
  if place == "completed" then
    local value = call("HGET", key, "returnvalue")
    if not (value and is_json(value)) then
      return "result"
    end
    -- One that was retried afterwards may have failed since.
    local first = try_record("ZRANGE", key .. ":unsuccessful", 0, 0, "WITHSCORES")
    return (tonumber(first[2]) or at) < at and "in-vain" or nil, first[1]
  elseif call("HEXISTS", key, "failedReason") == 0 then
    return "reason"
  end
  return call("HEXISTS", key, "defa") == 1 and "deferred" or nil
end

-- The first flaw of an id in a place, and what it is about; nil: none.
local function flaw_at(place, id, score)
  if LIST[place] and string.sub(id, 1, 2) == "0:" then
    return nil -- a wake-up of BullMQ before 5
  end
  local key = B .. id
  local kind = call("TYPE", key).ok
  if kind ~= "hash" and kind ~= "none" then
    return "type", "the record is a " .. kind
  end
  local h = call("HMGET", key, "name", "opts", "timestamp", "finishedOn", "priority", "emq:tk",
                 "parent", unpack(NUMBERS))
  local data = call("HEXISTS", key, "data") == 1
  if not data then
    return h[1] and h[3] and "data" or "ghost"
  elseif not h[1] or not h[2] or not h[3] then
    return "record"
  elseif not is_json(h[2]) then
    return "opts"
  end
  for i, field in ipairs(NUMBERS) do
    if h[7 + i] and not tonumber(h[7 + i]) then
      return "number", field
    end
  end
  if place == "completed" or place == "failed" then
    return flaw_of_finished(place, id, h[4], score)
  elseif h[4] and not call("ZSCORE", B .. "completed", id) and not call("ZSCORE", B .. "failed", id) then
    return "unfinished"
  end
  local without = h[7] and parent_without(key, h[7])
  if without then
    return "unlinked", without
  elseif place == "active" then
    return flaw_of_active(id, h[6])
  elseif place == "delayed" then
    return not is_due(score) and "due" or nil
  elseif place == "prioritized" then
    local priority = floor(score / 4294967296)
    return (priority < 1 or priority ~= tonumber(h[5] or 0)) and "priority" or nil
  elseif place == "waiting-children" then
    local n = children(key)
    if n == 0 then
      return "parent"
    end
    if n > 0 then
      local is, child = vain_child(key)
      if not is then
        return twice_ended(key)
      end
      return is, child
    end
  end
  return nil
end

-- Of a job of a stage that won't be published any more, nor is being so.
local function flaw_of_staged(id)
  local mark = try_record("HGET", X .. "staged:" .. id, "emq:stage")
  local born, key = string.match(type(mark) == "string" and mark or "", "^(%d+) %d+ (.*)$")
  if not born then
    return "staged"
  end
  local first = try("LINDEX", key, "0")
  local lives = type(first) == "table" or first == "b" .. born or try("EXISTS", key .. ":" .. born) ~= 0
  return not lives and "staged" or nil
end

local function flaw_of_hash(rest)
  local key = B .. rest
  local h = call("HMGET", key, "data", "timestamp", "every", "pattern", "ic")
  if string.sub(rest, 1, 7) == "repeat:" and not h[2] and (h[3] or h[4]) then -- its jobs have a timestamp
    local flaw = not call("ZSCORE", B .. "repeat", string.sub(rest, 8)) and "scheduler" or
                 h[5] and not (is_count(h[5]) and tonumber(h[5]) >= 1) and "iterations" or nil
    return flaw, "", string.sub(rest, 8)
  elseif h[1] or h[2] then
    return nil, rest, true
  elseif string.find(rest, ":", 1, true) then
    return nil
  end
  for _, field in ipairs({"progress", "stacktrace", "failedReason", "ats", "atm", "returnvalue", "processedOn",
                          "finishedOn", "priority", "delay"}) do
    if call("HEXISTS", key, field) == 1 then
      return "debris", rest
    end
  end
end

local function flaw_of_dedup(key, d)
  local owner = call("GET", key)
  local h = try_record("HMGET", B .. owner, "timestamp", "finishedOn")
  if call("PTTL", key) == -1 and (h.err or not h[1] or h[2]) then
    return "dedup-owner", owner, d
  end
end

local function flaw_of_kept(key, d)
  local h = call("HMGET", key, "jid", "data", "name", "opts")
  local flaw = not h[2] and "kept-data" or not (h[3] and h[4]) and "kept-record" or
               call("EXISTS", B .. "de:" .. d) == 0 and "dedup-next" or nil
  return flaw, h[1] or "", d
end

-- Of a key of the queue, by what is behind B: its flaw, the job, what it is about. Without a flaw, and
-- a third value: the record of a job, which must be in a place.
local function flaw_of_key(rest)
  local key = B .. rest
  local kind = call("TYPE", key).ok
  if kind == "none" or KIND[rest] or string.sub(rest, 1, 8) == "metrics:" then
    return nil
  end
  local d, next = string.match(rest, "^de:(.*)$"), string.match(rest, "^dn:(.*)$")
  if d and kind == "string" then
    return flaw_of_dedup(key, d)
  elseif d and call("EXISTS", B .. "de:meta", B .. "de:wait") == 0 then -- else it may be of a queue of that name
    return "type", "", rest .. " is a " .. kind
  elseif next and kind == "hash" then
    return flaw_of_kept(key, next)
  end
  local id, side = string.match(rest, "^(.+):(%a+)$")
  if id and SIDE[side] and not is_record(rest) then
    if SIDE[side] ~= kind then
      return is_record(id) and "type" or nil, id, rest .. " is a " .. kind
    elseif not is_record(id) then
      return "leftover", id, rest
    elseif side == "lock" and not is_active(id) then
      return "lock-left", id
    end
    return nil
  end
  if kind == "hash" then
    return flaw_of_hash(rest)
  end
end

local function waits_unmarked()
  local q = queue(B)
  if q.paused or call("EXISTS", B .. "marker") == 1 or call("LLEN", B .. "active") > 0 or
     (call("PTTL", B .. "limiter") > 0) then
    return false
  end
  if call("LLEN", B .. "wait") + call("ZCARD", B .. "prioritized") > 0 then
    return true
  end
  local head = call("ZRANGE", B .. "delayed", 0, 0, "WITHSCORES")[2]
  return head and tonumber(head) / 4096 < now_ms - OVERDUE_MS or false
end

-- Has the publisher of a batch that is there in part not gone on with it? The mark may outlive its publication.
local function publication_rests()
  local at = call("HGET", B .. "meta", "emq:pub")
  if at and (tonumber(at) or 0) < now_ms - OVERDUE_MS then
    for _, field in ipairs(try_record("HKEYS", X .. "stages")) do
      local pub = string.gsub(field, "^(%d+) (.*)$", "%2:%1")
      if string.find(call("LINDEX", pub, "0") or "", "^c") and call("LLEN", pub) > 1 then
        return true
      end
    end
  end
end

-- The flaws of the queue itself: {flaw, job, about, ...}.
local function flaws_of_queue()
  local out = {}
  local function add(flaw, id, about)
    out[#out + 1], out[#out + 2], out[#out + 3] = flaw, id, about
  end
  if call("EXISTS", B .. "limiter") == 1 and call("PTTL", B .. "limiter") == -1 then
    add("limiter", "", "")
  end
  if call("PTTL", B .. "stalled-check") == -1 then
    add("sweeps", "", "")
  end
  if waits_unmarked() then
    add("marker", "", "")
  end
  if publication_rests() then
    add("publication", "", "")
  end
  for i, id in ipairs(call("SMEMBERS", B .. "stalled")) do
    if i <= 1000 and not is_active(id) then
      add("mark", id, "")
    end
  end
  local schedules = call("ZRANGE", B .. "repeat", 0, 999, "WITHSCORES")
  for i = 1, #schedules, 2 do
    local sid, next = schedules[i], "repeat:" .. schedules[i] .. ":" .. schedules[i + 1]
    local h = try_record("HMGET", B .. "repeat:" .. sid, "name", "ic", "limit", "endDate")
    if not string.find(sid, ":", 1, true) and not h[1] then
      add("schedule", "", sid)
    elseif h[2] and not h[3] and not h[4] and not is_record(next) then -- one with an end may have come to it
      add("unscheduled", next, sid)
    end
  end
  for _, field in ipairs({"concurrency", "max", "duration", "opts.maxLenEvents"}) do
    local value = call("HGET", B .. "meta", field)
    if value and not tonumber(value) then
      add("setting", "", field)
    end
  end
  if not is_count(call("GET", B .. "pc") or "0") then
    add("order", "", "")
  end
  if call("EXISTS", B .. "meta") == 0 then
    for _, place in ipairs(PLACES) do
      if call("EXISTS", B .. place) == 1 then
        add("meta", "", "")
        break
      end
    end
  end
  return out
end

-- An event that BullMQ's readers could not read.
local function flaw_of_event(entry)
  local f = {}
  for i = 1, #entry[2], 2 do
    f[entry[2][i]] = entry[2][i + 1]
  end
  local value = nil
  if f.event == "completed" then
    value = f.returnvalue or ""
  elseif f.event == "progress" then
    value = f.data or ""
  end
  return value and not is_json(value) and "event" or nil, f.jobId or ""
end
