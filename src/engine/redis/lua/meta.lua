-- meta: reads and writes the settings of a queue
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  fields and values; an empty value removes the field
-- reply      {now_ms, all fields and values but ours}
-- calls      3; 14 when it writes, and 2 for each setting
--@include lib/place.lua
--@include lib/sound.lua
--@include lib/receipt.lua

local key = B .. "meta"
local q = queue(B)

local function has_work()
  return call("LLEN", B .. "wait") + call("ZCARD", B .. "prioritized") > 0
end

-- Ids that BullMQ 5 set aside while the queue was paused come back, in front of those in `wait`. The
-- shorter list is what is moved.
local function bring_back_paused()
  local wait, paused = B .. "wait", B .. "paused"
  if call("LLEN", paused) == 0 then
    return
  elseif call("LLEN", paused) < call("LLEN", wait) then
    call_list(call("LRANGE", paused, 0, -1), "RPUSH", wait)
    call("DEL", paused)
  else
    local ids, back = call("LRANGE", wait, 0, -1), {}
    for i = #ids, 1, -1 do
      back[#back + 1] = ids[i]
    end
    call_list(back, "LPUSH", paused)
    call("RENAME", paused, wait)
  end
end

-- What else a setting changes, docs/protocol.md sections 4 and 5.14. More may run now, or less.
local function apply(field, value)
  local n = tonumber(value) or 0
  if field == "paused" then
    q.paused = value ~= ""
    event(q, q.paused and "paused" or "resumed")
    if q.paused then
      call("DEL", B .. "marker")
      return
    end
    bring_back_paused()
  elseif field == "opts.maxLenEvents" then
    q.cap = value == "" and 10000 or n
    q.told = true
    return
  elseif field == "concurrency" then
    q.concurrency = n
  elseif field ~= "max" and field ~= "duration" then
    return
  end
  q.wake = has_work()
  q.delayed = not q.wake
end

if #ARGV > 5 then
  local stored = receipt_find(ARGV[4], ARGV[5], "meta")
  if stored then
    return stored
  end
  sound(q)
  for i = 6, #ARGV, 2 do
    if ARGV[i + 1] == "" then
      call("HDEL", key, ARGV[i])
    else
      call("HSET", key, ARGV[i], ARGV[i + 1])
    end
    apply(ARGV[i], ARGV[i + 1])
  end
  count(q, "added", 0) -- a queue without settings is one, too
  save()
end
local out, flat = {now_ms}, call("HGETALL", key)
for i = 1, #flat, 2 do
  if string.sub(flat[i], 1, 4) ~= "emq:" then
    out[#out + 1] = flat[i]
    out[#out + 1] = flat[i + 1]
  end
end
if #ARGV > 5 then
  receipt_put(ARGV[4], ARGV[5], "meta", out)
end
return out
