-- The lines of what is ready, and the end of every act that writes: save().
-- Ids for `wait` and `prioritized` are collected and pushed by flush(), which whoever reads those
-- keys calls first.
--@include lib/base.lua

local PRIORITY = 4294967296 -- the counter's part of a score

-- Pushes what was collected. LPUSH is the end of the line, RPUSH its front.
local function flush(q)
  if q.back then
    call_list(q.back, "LPUSH", q.b .. "wait")
    q.back = nil
  end
  if q.front then
    call_list(q.front, "RPUSH", q.b .. "wait")
    q.front = nil
  end
  if q.scores then
    call_list(q.scores, "ZADD", q.b .. "prioritized")
    q.scores = nil
  end
end

-- The end of a priority, or its front. The counter starts in the middle, so that there is room before
-- the first of each priority.
local function priority_score(q, priority, front)
  local base = priority * PRIORITY
  if front then
    flush(q)
    local first = call("ZRANGEBYSCORE", q.b .. "prioritized", num(base), num(base + PRIORITY - 1), "WITHSCORES",
                       "LIMIT", "0", "1")
    if first[2] then
      return num(math.max(base, tonumber(first[2]) - 1))
    end
  end
  local c = call("INCR", q.b .. "pc")
  if c == 1 then
    c = 2147483649
    call("SET", q.b .. "pc", num(c))
  end
  return num(base + c % PRIORITY)
end

-- Into the line of its priority: its end, or its front. The event is the caller's.
local function place_line(q, id, priority, front)
  q.wake = true
  if priority > 0 then
    local score, list = priority_score(q, priority, front), q.scores or {}
    list[#list + 1] = score
    list[#list + 1] = id
    q.scores = list
  else
    local side = front and "front" or "back"
    local list = q[side]
    if list then
      list[#list + 1] = id
    else
      q[side] = {id}
    end
  end
end

-- A field's number plus one, as text; nil and false count as 0.
local function plus_one(text)
  if not text or text == "0" then
    return "1"
  end
  return text == "1" and "2" or num((tonumber(text) or 0) + 1)
end

-- When the earliest delayed job is due (with the fraction that its marker has); 0 = none.
local function delayed_head(q)
  local head = call("ZRANGE", q.b .. "delayed", "0", "0", "WITHSCORES")[2]
  return head and tonumber(head) / 4096 or 0
end

-- Writes what the act has collected: places, totals, settings, markers.
local function save()
  for _, q in pairs(queues) do
    flush(q)
    local changed = q.changed
    for name, n in pairs(q.plus) do
      local before = q.totals[name]
      changed[#changed + 1] = "emq:n:" .. name
      changed[#changed + 1] = num((before and tonumber(before) or 0) + n)
    end
    if #changed > 0 then
      call("HSET", q.b .. "meta", unpack(changed))
    end
    if q.delayed then
      local head = delayed_head(q)
      if head > 0 then
        try("ZADD", q.b .. "marker", head, "1")
      end
    end
    if q.wake and not q.paused and not maxed(q) then
      try("ZADD", q.b .. "marker", "0", "0")
    end
  end
end
