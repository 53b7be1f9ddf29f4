-- sweep: brings back active jobs without a living lock, and drops records past their age
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stalls allowed
-- ARGV[7]    jobs at most
-- reply      {now_ms, more, {recovered ids}, {failed ids}}
-- calls      18, one more for each 500 active jobs; 9 for each that is recovered

--@include lib/receipt.lua
--@include lib/active.lua
--@include lib/stall.lua
--@include lib/publish.lua
local SCAN, LOOK_MS = 5000, 5000
local done = receipt_find(ARGV[4], ARGV[5], "sweep")
if done then
  return done
end
local q = queue(B)

-- When this hand-out was first seen without a lock; nil: not yet.
local seen_key, look_ms = X .. "seen", num(now_ms)
local function first_look(id, processed_on)
  local at, of = string.match(call("HGET", seen_key, id) or "", "^(%d+) (.*)$")
  return of == (processed_on or "") and tonumber(at) or nil
end

-- Jobs without a lock, oldest first: {id, h}. Ids without a record are dropped.
-- A job that we handed out had a lock; one that BullMQ handed out may have none, and counts only if
-- it had none at an earlier look too, LOOK_MS ago or more. BullMQ's own check goes on beside this one: what
-- either recovers is gone from `active` and `stalled`, where the other looks.
local function ended(ids)
  local list, gone = {}, {}
  for from = 1, #ids, 500 do
    local locks = {}
    for i = from, math.min(from + 499, #ids) do
      locks[#locks + 1] = B .. ids[i] .. ":lock"
    end
    local values = call("MGET", unpack(locks))
    for i, value in ipairs(values) do
      if not value then
        list[#list + 1] = ids[from + i - 1]
      end
    end
  end
  local out, waits = {}, {}
  for _, id in ipairs(list) do
    local v = try_record("HMGET", B .. id, "timestamp", "processedOn", "emq:tk", "emq:cancel", "priority", "stc",
                         "deid", "parentKey", "parent", "rjk", "defa")
    local h = {["emq:cancel"] = v[4] or nil, priority = v[5], stc = v[6], deid = v[7] or nil,
               parentKey = v[8] or nil, parent = v[9] or nil, rjk = v[10] or nil, defa = v[11] or nil}
    h.token, h.mode = last_token(v[3], v[2])
    local first = not h.token and first_look(id, v[2])
    if not v[1] and not v[2] then
      gone[#gone + 1] = id
    elseif h.token or first and first <= now_ms - LOOK_MS then
      out[#out + 1] = where_sound(sound_parent, h) and {id = id, h = h} or nil -- else when its parent's queue can be written to
    else
      waits[#waits + 1] = id
      waits[#waits + 1] = (first and num(first) or look_ms) .. " " .. (v[2] or "")
    end
  end
  leave_active(q, gone)
  return out, waits
end

-- Turns a list round: `active` has its oldest last.
local function oldest_first(list)
  local out = {}
  for i = #list, 1, -1 do
    out[#out + 1] = list[i]
  end
  return out
end

-- A window of the list from its old end; the next sweep goes on where a long one stopped.
local function window()
  local length = call("LLEN", B .. "active")
  local from = length > SCAN and tonumber(call("GET", X .. "sweep") or 0) or 0
  if from >= length then
    from = 0
  end
  return oldest_first(call("LRANGE", B .. "active", -(from + SCAN), -(from + 1))), from, from + SCAN < length
end

local function drop_expired(state)
  local key = B .. FINISHED[state]
  local cursor_key = X .. "trim:" .. FINISHED[state]
  local from = call("GET", cursor_key)
  local ids = call("ZRANGEBYSCORE", key, from and "(" .. from or "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 1000)
  local gone = {}
  for i = 1, #ids, 2 do
    local exp = try_record("HMGET", B .. ids[i], "emq:exp")[1]
    if exp and (tonumber(exp) or now_ms + 1) <= now_ms then
      gone[#gone + 1] = ids[i]
    end
  end
  if #ids == 2000 then
    call("SET", cursor_key, ids[2000], "PX", 3600000)
  elseif from then
    call("DEL", cursor_key)
  end
  if call_list(gone, "ZREM", key) == 0 then
    return
  end
  for _, id in ipairs(gone) do
    if state == FAILED then
      failed_leaves(q, id)
    end
    job_keys(q.gone, q, id)
  end
  count(q, "removed", #gone)
end

sound(q)
local stages = call("HKEYS", X .. "stages")
local ids, from, more = window()
local out, waits = ended(ids)
finish_flush(q)
if call("SET", X .. "trim", "1", "PX", 1000, "NX") then
  drop_expired(COMPLETED)
  drop_expired(FAILED)
end

more = go_on_publishing(q, stages, PUBLISH_SLICE) or more
local left = #out - tonumber(ARGV[7])
if left > 0 then
  more = true
  for i = #out, tonumber(ARGV[7]) + 1, -1 do
    out[i] = nil
  end
end
if #waits > 0 then
  call_list(waits, "HSET", seen_key)
  call("PEXPIRE", seen_key, 600000)
end
if more and left <= 0 then
  call("SET", X .. "sweep", num(from + SCAN - #out), "PX", 60000)
elseif from > 0 and not more then
  call("DEL", X .. "sweep")
end

local all = {}
for i, job in ipairs(out) do
  all[i] = job.id
end
local there = leave_active(q, all)
call_list(all, "SREM", B .. "stalled")
call_list(all, "HDEL", seen_key)
local recovered, failed = {}, {}
for i = #out, 1, -1 do -- each goes to the front: the oldest comes last
  local id = out[i].id
  if not there or there[id] then
    local state = stall(q, id, out[i].h, {max = tonumber(ARGV[6]), reason = ""})
    local list = (state == WAITING or state == PRIORITIZED) and recovered or failed
    list[#list + 1] = id
  end
end
finish_flush(q)
if #all > 0 and q.concurrency > 0 then
  q.wake = true
end
save()
local reply = {now_ms, more and 1 or 0, oldest_first(recovered), oldest_first(failed)}
if #all > 0 then
  receipt_put(ARGV[4], ARGV[5], "sweep", reply)
end
return reply
