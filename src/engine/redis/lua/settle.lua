-- settle: ends hand-outs, each entry for itself, and may take the next jobs in the same act
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  of the next take, as take has them (count 0: none), then the number of entries, then per
--            entry: id, token ("" = an administrator), a word, and for each capital letter of the word
--            an argument. The word's first letter: c completed, f failed, r retry, b release,
--            s stalled. Then A administrator, V result (JSON), E its encoding, R reason, T trace (a JSON
--            string), L traces kept, D delay ms, M stalls allowed, l lifo; C count and G age in ms
--            that are kept of its state, as the entry before when left out
-- reply      {now_ms, {outcome, state, ...}, what take answers behind now_ms or 0}
-- calls      15, and 4 a job (completed under a living lock, some kept); take's for the next

--@include lib/receipt.lua
--@include lib/active.lua
--@include lib/stall.lua
local done = receipt_find(ARGV[4], ARGV[5], "settle")
local q = queue(B)
if done then
  if not done.err and done[3] ~= 0 then
    done[3] = taken_again(q, done[3])
  end
  return done
end

local LETTERS = {A = "admin", V = "value", E = "renc", R = "reason", T = "trace", L = "traces", D = "delay",
                 M = "max", C = "count", G = "age"}
local function read_entries(at)
  local entries, n, keep = {}, tonumber(ARGV[at]), {count = -1, age = 0}
  at = at + 1
  for i = 1, n do
    local e = {id = ARGV[at], token = ARGV[at + 1], reason = "", trace = ""}
    local word = ARGV[at + 2]
    e.kind = string.sub(word, 1, 1)
    at = at + 3
    for letter in string.gmatch(word, "[%ul]") do
      if letter == "l" then
        e.lifo = true
      else
        e[LETTERS[letter]] = ARGV[at]
        at = at + 1
      end
    end
    if e.count or e.age then
      keep = {count = tonumber(e.count or keep.count), age = tonumber(e.age or keep.age)}
    end
    e.keep = keep
    entries[i] = e
  end
  return entries
end

local FIELDS = {"timestamp", "atm", "deid", "parentKey", "emq:cancel", "defa"}
local MORE = {"processedOn", "emq:tk", "emq:stage", "priority", "ats", "stc", "parent", "rjk"}

local function read(e, names)
  local values = call("HMGET", q.b .. e.id, unpack(names))
  e.h = e.h or {}
  for i, name in ipairs(names) do
    e.h[name] = values[i] or nil
  end
end

-- Fills e.refused, an outcome, unless the entry may settle the job.
local function look(e, lock)
  read(e, FIELDS)
  local h = e.h
  if not h.timestamp then
    e.refused = NOT_FOUND
    return
  end
  if e.kind ~= "c" or lock ~= e.token or h.parentKey then
    read(e, MORE)
    h.token, h.mode = last_token(h["emq:tk"], h.processedOn)
  end
  if h["emq:stage"] then
    e.refused = NOT_FOUND
  elseif e.token ~= "" then
    if not owns(q, e.id, e.token, lock, h["emq:tk"], h.processedOn) then
      e.refused = LOST
    end
  elseif not in_active(q, e.id) then
    e.refused = WRONG_STATE
  end
  if not e.refused and (e.kind == "r" or e.kind == "b") and h.mode == AT_MOST_ONCE then
    e.refused = WRONG_STATE
  end
end

-- A parent whose children are not all done may not complete.
local function look_for_children(list)
  local keys = {}
  for _, e in ipairs(list) do
    if e.kind == "c" and not e.refused then
      keys[#keys + 1] = q.b .. e.id .. ":dependencies"
      keys[#keys + 1] = q.b .. e.id .. ":unsuccessful"
    end
  end
  if call_list(keys, "EXISTS") == 0 then
    return
  end
  for _, e in ipairs(list) do
    local key = q.b .. e.id
    if e.kind == "c" and not e.refused and
       (call("SCARD", key .. ":dependencies") > 0 or call("ZCARD", key .. ":unsuccessful") > 0) then
      e.refused = WRONG_STATE
    end
  end
end

-- Looks at entries that name different jobs, and takes those out of `active` that may be settled.
local function open(list)
  local locks, ids = {}, {}
  for i, e in ipairs(list) do
    locks[i] = q.b .. e.id .. ":lock"
  end
  locks = #list > 0 and call("MGET", unpack(locks)) or {}
  for i, e in ipairs(list) do
    look(e, locks[i])
  end
  look_for_children(list)
  for _, e in ipairs(list) do
    if not e.refused then
      ids[#ids + 1] = e.id
    end
  end
  if #ids == 0 then
    return
  end
  local there = leave_active(q, ids)
  unlock(q, ids)
  for _, e in ipairs(list) do
    if not e.refused and not there[e.id] then
      e.refused = LOST
    end
  end
  q.freed = true
end

local function refuse(e)
  finish_flush(q) -- it may have been on its way out
  if e.refused == NOT_FOUND or call("EXISTS", q.b .. e.id) == 0 then
    return NOT_FOUND, 0
  end
  local state = state_of(q, e.id)
  if e.refused == LOST then
    history(q, e.id, "refused", e.token, "settle")
  end
  return e.refused, state
end

-- The elements of a JSON array of strings, as they are written; none if it is something else.
local function elements(json)
  local list, at = {}, string.match(json, "^%s*%[%s*()")
  while at and string.sub(json, at, at) == '"' do
    local stop = at + 1
    while true do
      stop = string.find(json, '["\\]', stop)
      if not stop then
        return {}
      elseif string.sub(json, stop, stop) == '"' then
        break
      end
      stop = stop + 2
    end
    list[#list + 1] = string.sub(json, at, stop)
    at = string.match(json, "^%s*,%s*()", stop + 1)
  end
  return list
end

-- The fields of an attempt that failed.
local function attempt(e, made)
  local set = {"atm", num(made)}
  if e.trace ~= "" then
    local list = elements(call("HGET", q.b .. e.id, "stacktrace") or "")
    list[#list + 1] = e.trace
    local limit = tonumber(e.traces or -1)
    local from = limit >= 0 and math.max(#list - limit + 1, 1) or 1
    set[3], set[4] = "stacktrace", "[" .. table.concat(list, ",", from) .. "]"
  end
  return set
end

local function go_back(e, set, front)
  local h, delay = e.h, tonumber(e.delay or 0)
  if h["emq:cancel"] then
    call("HDEL", q.b .. e.id, "emq:cancel")
  end
  if delay > 0 then
    set[#set + 1] = "delay"
    set[#set + 1] = num(delay)
  end
  call("HSET", q.b .. e.id, unpack(set))
  if delay > 0 then
    place_delayed(q, e.id, now_ms + delay)
    return DELAYED
  end
  local priority = tonumber(h.priority or 0) or 0
  place_line(q, e.id, priority, front)
  event(q, "waiting", "jobId", e.id, "prev", "active")
  return priority > 0 and PRIORITIZED or WAITING
end

local function fail(e, reason, keep, set, made)
  local own = own_opts(q, e.id)
  return finish(q, e.id, e.h, {state = FAILED, reason = reason, keep = keep or own.keep, set = set,
                               prev = "active", made = made and made >= own.attempts and made or nil})
end

local function settle(e)
  local h, kind = e.h, e.kind
  local made = (tonumber(h.atm or 0) or 0) + 1
  if kind == "c" then
    return finish(q, e.id, h, {state = COMPLETED, value = e.value, renc = e.renc, keep = e.keep,
                               set = {"atm", num(made)}, prev = "active"})
  elseif kind == "f" then
    return fail(e, e.reason, e.keep, attempt(e, made), made)
  elseif kind == "r" then
    local set = attempt(e, made)
    if h["emq:cancel"] then
      return fail(e, TEXT_CANCELLED, nil, set, made)
    end
    set[#set + 1] = "failedReason"
    set[#set + 1] = e.reason
    count(q, "retried")
    return go_back(e, set, e.lifo)
  elseif kind == "b" then
    local set = {"ats", num((tonumber(h.ats or 0) or 0) - 1)}
    if h["emq:cancel"] then
      return fail(e, TEXT_CANCELLED, nil, set, nil)
    end
    return go_back(e, set, true)
  end
  return stall(q, e.id, h, {max = tonumber(e.max or 0), reason = e.reason, keep = e.keep})
end

local next_take, entries = take_args(unpack(ARGV, 6, 12)), read_entries(13)
local before = q.totals.completed + q.totals.failed
local first, seen, out = {}, {}, {}
for _, e in ipairs(entries) do
  if not seen[e.id] then
    seen[e.id] = true
    e.opened = true
    first[#first + 1] = e
  end
end
open(first)
for _, e in ipairs(entries) do
  if not e.opened then -- the same job once more: as the entries before it have left it
    finish_flush(q)
    flush(q)
    open({e})
  end
  local outcome, state = OK, 0
  if e.refused then
    outcome, state = refuse(e)
  else
    if e.token == "" then
      history(q, e.id, "admin", e.admin, "settle")
    end
    state = settle(e)
  end
  out[#out + 1] = outcome
  out[#out + 1] = state
end
finish_flush(q)
local taken = next_take.count > 0 and take(q, next_take) or 0
finish_flush(q)
flush(q)
if q.totals.completed + q.totals.failed > before or q.freed and q.concurrency > 0 then
  local work = call("LLEN", q.b .. "wait") + call("ZCARD", q.b .. "prioritized")
  if q.freed and q.concurrency > 0 and work > 0 then
    q.wake = true -- a slot may be free
  elseif work == 0 and q.totals.completed + q.totals.failed > before and call("LLEN", q.b .. "active") == 0 then
    event(q, "drained")
  end
end
save()
receipt_put(ARGV[4], ARGV[5], "settle", {now_ms, out, taken ~= 0 and taken_short(taken, next_take.mode) or 0})
return {now_ms, out, taken}
