-- settle: ends hand-outs, each entry for itself, and may take the next jobs in the same act
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  of the next take, as take has them (count 0: none), then the number of entries, then per
--            entry: id, token ("" = an administrator), a word, the result (JSON) if it is completed, and
--            what the letters of the word want. Its first letter: c completed, f failed, r retry, b release,
--            s stalled. Then C count and age in ms that are kept of its state (without it: as the entry
--            before), A administrator, E encoding of the result, R reason, T trace (a JSON string), L traces
--            kept, D delay ms, M stalls allowed, l lifo
-- reply      {now_ms, {outcome, state, ...}, what take answers behind now_ms or 0}
-- calls      15, and 4 a job (completed under a living lock, some kept); take's for the next

--@include lib/base.lua
local function run()
--@include lib/receipt.lua
--@include lib/active.lua
--@include lib/take.lua
local done = receipt_find(ARGV[4], ARGV[5], "settle")
local q = queue(B)
if done then
  if not done.err and done[3] ~= 0 then
    done[3] = taken_again(q, done[3])
  end
  return done
end

local LETTERS = {A = "admin", E = "renc", R = "reason", T = "trace", L = "traces", D = "delay", M = "max"}
local byte = string.byte
local KIND_C, KIND_R, KIND_B, KIND_F = byte("c"), byte("r"), byte("b"), byte("f")

local function read_word(e, word, at)
  for letter in string.gmatch(word, "[%ul]") do
    if letter == "l" then
      e.lifo = true
    elseif letter == "C" then
      e.keep = new_keep(tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
      at = at + 2
    else
      e[LETTERS[letter]] = ARGV[at]
      at = at + 1
    end
  end
  return at
end

local function read_entries(at)
  local args, entries, keep = ARGV, {}, new_keep(-1, 0)
  local n = tonumber(args[at])
  at = at + 1
  for i = 1, n do
    local id, word = args[at], args[at + 2]
    local e = {id = id, key = B .. id, token = args[at + 1], kind = byte(word), value = args[at + 3], keep = keep,
               reason = "", v = false}
    if word == "c" then
      at = at + 4
    elseif e.kind == KIND_C then
      at = read_word(e, word, at + 4)
    else
      at = read_word(e, word, at + 3)
    end
    keep = e.keep
    entries[i] = e
  end
  return entries
end

-- Read of every job, and what is read of those that are not just completed by their owner.
local TIMESTAMP, ATM, DEID, PARENT_KEY, CANCEL, DEFA = 1, 2, 3, 4, 5, 6
local MORE = {"processedOn", "emq:tk", "emq:stage", "priority", "ats", "stc", "parent", "rjk"}

local function read_more(e)
  local v, more = e.v, call("HMGET", e.key, unpack(MORE))
  local h = {atm = v[ATM], deid = v[DEID], parentKey = v[PARENT_KEY], ["emq:cancel"] = v[CANCEL], defa = v[DEFA]}
  for i, name in ipairs(MORE) do
    h[name] = more[i]
  end
  h.token, h.mode = rare().last_token(h["emq:tk"], h.processedOn)
  e.h = h
  return h
end

-- Fills e.refused, an outcome, unless the entry may settle the job.
local function look(e, lock)
  local v = call("HMGET", e.key, "timestamp", "atm", "deid", "parentKey", "emq:cancel", "defa")
  e.v = v
  if not v[TIMESTAMP] then
    e.refused = NOT_FOUND
    return
  end
  if e.kind == KIND_C and lock == e.token and not (v[DEID] or v[PARENT_KEY] or v[CANCEL] or v[DEFA]) then
    return
  end
  local h = read_more(e)
  if h["emq:stage"] then
    e.refused = NOT_FOUND
  elseif e.token ~= "" then
    if not rare().owns(q, e.id, e.token, lock, h["emq:tk"], h.processedOn) then
      e.refused = LOST
    end
  elseif not rare().in_active(q, e.id) then
    e.refused = WRONG_STATE
  end
  if not e.refused and (e.kind == KIND_R or e.kind == KIND_B) and h.mode == AT_MOST_ONCE then
    e.refused = WRONG_STATE
  end
end

-- A parent whose children are not all done may not complete.
local function look_for_children(list)
  local keys, n = {}, 0
  for i = 1, #list do
    local e = list[i]
    if e.kind == KIND_C and not e.refused then
      keys[n + 1], keys[n + 2] = e.key .. ":dependencies", e.key .. ":unsuccessful"
      n = n + 2
    end
  end
  if call_list(keys, "EXISTS") == 0 then
    return
  end
  for _, e in ipairs(list) do
    if e.kind == KIND_C and not e.refused and
       (call("SCARD", e.key .. ":dependencies") > 0 or call("ZCARD", e.key .. ":unsuccessful") > 0) then
      e.refused = WRONG_STATE
    end
  end
end

-- Looks at entries that name different jobs, and takes those out of `active` that may be settled.
local function open(list)
  local locks, ids, left = {}, {}, {}
  for i = 1, #list do
    locks[i] = list[i].key .. ":lock"
  end
  local values = #list > 0 and call("MGET", unpack(locks)) or {}
  for i = 1, #list do
    look(list[i], values[i])
  end
  look_for_children(list)
  for i = 1, #list do
    if not list[i].refused then
      ids[#ids + 1] = list[i].id
      left[#left + 1] = locks[i]
    end
  end
  if #ids == 0 then
    return
  end
  local there = leave_active(q, ids)
  call_list(left, "DEL")
  call_list(ids, "SREM", B .. "stalled")
  q.freed = true
  for i = 1, there and #list or 0 do
    if not list[i].refused and not there[list[i].id] then
      list[i].refused = LOST
    end
  end
end

local function refuse(e)
  finish_flush(q) -- it may have been on its way out
  if e.refused == NOT_FOUND or call("EXISTS", q.b .. e.id) == 0 then
    return NOT_FOUND, 0
  end
  local state = rare().state_of(q, e.id)
  if e.refused == LOST then
    rare().history(q, e.id, "refused", e.token, "settle")
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
  local set = {"atm", made}
  if e.trace then
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
    rare().place_delayed(q, e.id, now_ms + delay)
    return DELAYED
  end
  local priority = tonumber(h.priority or 0) or 0
  place_line(q, e.id, priority, front)
  event(q, "waiting", "jobId", e.id, "prev", "active")
  return priority > 0 and PRIORITIZED or WAITING
end

local function fail(e, reason, keep, set, made)
  local own = rare().own_opts(q, e.id)
  return rare().finish(q, e.id, e.h, {state = FAILED, reason = reason, keep = keep or own.keep, set = set,
                               prev = "active", made = made and tonumber(made) >= own.attempts and made or nil})
end

local function settle(e)
  local h, kind = e.h, e.kind
  local made = plus_one(e.v[ATM])
  if kind == KIND_C then
    if not h and not e.renc then
      complete(q, e.id, e.key, made, e.value, e.keep)
      return e.keep.count == 0 and 0 or COMPLETED
    end
    return rare().finish(q, e.id, h or {}, {state = COMPLETED, value = e.value, renc = e.renc, keep = e.keep,
                                     set = {"atm", made}, prev = "active"})
  elseif kind == KIND_F then
    return fail(e, e.reason, e.keep, attempt(e, made), made)
  elseif kind == KIND_R then
    local set = attempt(e, made)
    if h["emq:cancel"] then
      return fail(e, rare().CANCELLED, nil, set, made)
    end
    set[#set + 1] = "failedReason"
    set[#set + 1] = e.reason
    count(q, "retried")
    return go_back(e, set, e.lifo)
  elseif kind == KIND_B then
    local set = {"ats", num((tonumber(h.ats or 0) or 0) - 1)}
    if h["emq:cancel"] then
      return fail(e, rare().CANCELLED, nil, set, nil)
    end
    return go_back(e, set, true)
  end
  return rare().stall(q, e.id, h, {max = tonumber(e.max or 0), reason = e.reason, keep = e.keep})
end

local next_take, entries = take_args(unpack(ARGV, 6, 12)), read_entries(13)
local first, seen, out = {}, {}, {}
for i = 1, #entries do
  local e = entries[i]
  if not seen[e.id] then
    seen[e.id] = e
    first[#first + 1] = e
  end
end
open(first)
for i = 1, #entries do
  local e = entries[i]
  if seen[e.id] ~= e then -- the same job once more: as the entries before it have left it
    finish_flush(q)
    flush(q)
    open({e})
  end
  if e.refused then
    out[2 * i - 1], out[2 * i] = refuse(e)
  else
    if e.token == "" then
      rare().history(q, e.id, "admin", e.admin, "settle")
    end
    out[2 * i - 1], out[2 * i] = OK, settle(e)
  end
end
finish_flush(q)
local taken = next_take.count > 0 and take(q, next_take) or 0
finish_flush(q)
flush(q)

local finished = (q.plus.completed or q.plus.failed) and true
local slot = q.freed and q.concurrency > 0
if finished or slot then
  if call("LLEN", B .. "wait") + call("ZCARD", B .. "prioritized") > 0 then
    q.wake = q.wake or slot -- a slot may be free
  elseif finished and call("LLEN", B .. "active") == 0 then
    event(q, "drained")
  end
end
save()
receipt_put(ARGV[4], ARGV[5], "settle", {now_ms, out, taken ~= 0 and taken_short(taken, next_take.mode) or 0})
return {now_ms, out, taken}
end
return run()
