-- What every script shares: the clock, names, a queue's settings and totals, its events.
--
-- Each closure that a script makes costs it time in every call. So what the usual case does not need is
-- in functions that are made when they are wanted: see rare() in add.lua, take.lua, settle.lua.
--
-- Fields of ours in BullMQ's hashes, beside those of docs/protocol.md:
--   meta  emq:fence      fence of the last hand-out
--         emq:hist       when a history was last written to; each lives for HISTORY_MS
--         emq:pub        when the publisher of a batch that is visible in part has last gone on with it
--         emq:limit      the rate limit's max of the last take that had one
--         emq:n:<total>  totals: added started completed failed retried recovered deduplicated removed
--   job   emq:tk         last hand-out by us: "<mode> <processedOn> <token>"; it counts only while the
--                        hash has the same processedOn, else somebody else has taken the job since
--         emq:cancel     1 = its owner is asked to stop; gone when it leaves active
--         emq:exp        finished: ms from which the record counts as absent
--         emq:renc       encoding of returnvalue, as emqEnc in opts is that of data
--         emq:enc        encoding of data when opts is no JSON object that could hold emqEnc
--         emq:group      opaque to the store
--         emq:redo       how often its effects were asked for anew
-- A job of a stage is no job of BullMQ's until that is published: its hash is X.."staged:<id>", with the mark of
-- its stage in emq:stage.
local B, X = ARGV[2], ARGV[3]
local call, try = redis.call, redis.pcall
local floor, format = math.floor, string.format

-- Numbers of emq_status and emq_state.
local OK, DUPLICATE, DEDUPLICATED, LOST, NOT_FOUND, WRONG_STATE, LOCKED = 0, 2, 3, 4, 5, 6, 10
local WAITING, ACTIVE, DELAYED, PRIORITIZED, WAITING_CHILDREN, COMPLETED, FAILED = 1, 2, 3, 4, 5, 6, 7
local STATE_NAME = {"waiting", "active", "delayed", "prioritized", "waiting-children", "completed", "failed"}
local AT_MOST_ONCE, FIRE_AND_FORGET = "1", "2"
local HISTORY_MS = 604800000

-- For a record, or a key beside it, that may be missing or of another type: then the answer has no members and
-- is no number. One such key stops nobody who only comes by. Any other refusal, as for want of rights, does not
-- mean that there is none: it ends the act.
local function try_record(...)
  local r = try(...)
  return type(r) == "table" and r.err and not string.find(r.err, "WRONGTYPE", 1, true) and call(...) or r
end

-- Digits of a whole number. Lua's own way, and a number as an argument of call(), is slow, and `..` and
-- tostring() use an exponent from 1e14 on.
local function num(n)
  return format(n < 9e15 and n > -9e15 and "%d" or "%.0f", n)
end

local now_us
if string.sub(ARGV[1], 1, 1) == "=" then
  now_us = tonumber(string.sub(ARGV[1], 2))
else
  local t = call("TIME")
  now_us = t[1] * 1000000 + t[2]
  if ARGV[1] ~= "" then
    now_us = now_us + tonumber(ARGV[1]) * 1000
  end
end
local now_ms = floor(now_us / 1000)
local now_text = num(now_ms)

-- A span for PX and PEXPIRE, whatever the settings say.
local function span(ms)
  return num(math.max(1, math.min(floor(ms), 9007199254740991)))
end

-- call(command, key, all of a list), for lists of any length, in pairs: unpack() takes some 8,000. For
-- commands that may be cut in parts and answer a count. Answers the sum. key nil: the list has the keys.
local function call_list(list, command, key)
  local n, sum = #list, 0
  for from = 1, n, 5000 do
    local to = math.min(from + 4999, n)
    sum = sum + (key and call(command, key, unpack(list, from, to)) or call(command, unpack(list, from, to)))
  end
  return sum
end

-- A queue by its B: settings, last fence, totals (as they are stored). Read once, written by save() of
-- lib/line.lua.
local TOTALS = {"added", "started", "completed", "failed", "retried", "recovered", "deduplicated", "removed"}
local queues = {}
local function queue(b)
  local q = queues[b]
  if q then
    return q
  end
  local m = call("HMGET", b .. "meta", "paused", "concurrency", "max", "duration", "opts.maxLenEvents",
                 "emq:fence", "emq:limit", "emq:n:added", "emq:n:started", "emq:n:completed", "emq:n:failed",
                 "emq:n:retried", "emq:n:recovered", "emq:n:deduplicated", "emq:n:removed", "emq:hist", "emq:pub")
  local cap = m[5] and tonumber(m[5]) or 10000
  cap = cap < 0 and 10000 or cap
  q = {
    b = b,
    x = b == B and X or string.gsub(b, "^(.*):([^:]*:)$", "%1::emq:%2"),
    events = b .. "events",
    paused = m[1] and true,
    concurrency = m[2] and tonumber(m[2]) or 0,
    max = m[3] and tonumber(m[3]) or 0,
    duration = m[4] and tonumber(m[4]) or 0,
    cap = cap,
    cap_text = m[5] and num(cap) or "10000",
    fence = m[6] and tonumber(m[6]) or 0,
    limit = m[7],
    publishes = m[17], -- is a batch visible in part?
    histories = m[16] and tonumber(m[16]) > now_ms - HISTORY_MS, -- may a job have a history?
    meta = m,
    totals = {added = m[8], started = m[9], completed = m[10], failed = m[11], retried = m[12], recovered = m[13],
              deduplicated = m[14], removed = m[15]},
    plus = {}, -- what this act adds to them
    sound = {}, -- which of its keys sound() of lib/sound.lua has looked at
    changed = {}, -- fields of meta to write, in pairs
  }
  queues[b] = q
  return q
end

local function count(q, name, n)
  local plus = q.plus
  plus[name] = (plus[name] or 0) + (n or 1)
end

-- f(...), of what is only to be done where no key belongs to something else, and raises before it writes. Answers
-- whether it was done, and what f answers.
local function where_sound(f, ...)
  local out = {pcall(f, ...)}
  local text = not out[1] and (type(out[2]) == "table" and out[2].err or out[2])
  if text and not (string.find(text, "WRONGTYPE", 1, true) or string.find(text, "not an integer", 1, true)) then
    error(out[2], 0)
  end
  return unpack(out, 1, 4)
end

-- How many there are, for who has written already; of a key of another type: some.
local function some(command, key)
  local n = try(command, key)
  return type(n) == "number" and n or 1
end

local function maxed(q)
  return q.concurrency > 0 and some("LLEN", q.b .. "active") >= q.concurrency
end

-- event(q, name, field, value, ...): one entry of the stream, in the order of docs/protocol.md section 7.
-- The first one of an act trims the stream. A stream that can't be written stops nobody.
local function event(q, ...)
  if q.told then
    if q.cap > 0 then
      try("XADD", q.events, "*", "event", ...)
    end
    return
  end
  q.told = true
  if q.cap > 0 then
    try("XADD", q.events, "MAXLEN", "~", q.cap_text, "*", "event", ...)
  else
    try("DEL", q.events)
  end
end
