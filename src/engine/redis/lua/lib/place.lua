-- Places of unfinished jobs, markers, and the end of every act that writes: save().
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

-- The counter starts in the middle, so that there is room before the first of each priority.
local function score_back(q, priority)
  local c = call("INCR", q.b .. "pc")
  if c == 1 then
    c = 2147483649
    call("SET", q.b .. "pc", num(c))
  end
  return priority * PRIORITY + c % PRIORITY
end

local function score_front(q, priority)
  flush(q)
  local first = call("ZRANGEBYSCORE", q.b .. "prioritized", num(priority * PRIORITY),
                     num(priority * PRIORITY + PRIORITY - 1), "WITHSCORES", "LIMIT", "0", "1")
  if not first[2] then
    return score_back(q, priority)
  end
  return math.max(priority * PRIORITY, tonumber(first[2]) - 1)
end

-- Into the line of its priority: its end, or its front. The event is the caller's.
local function place_line(q, id, priority, front)
  q.wake = true
  if priority > 0 then
    local score = front and score_front(q, priority) or score_back(q, priority)
    q.scores = q.scores or {}
    q.scores[#q.scores + 1] = num(score)
    q.scores[#q.scores + 1] = id
  elseif front then
    q.front = q.front or {}
    q.front[#q.front + 1] = id
  else
    q.back = q.back or {}
    q.back[#q.back + 1] = id
  end
end

-- The low 12 bits of a score keep the order inside one millisecond.
local function place_delayed(q, id, due_ms)
  local score, key = due_ms * 4096, q.b .. "delayed"
  local top = call("ZREVRANGEBYSCORE", key, num(score + 4095), num(score), "WITHSCORES", "LIMIT", "0", "1")
  if top[2] then
    score = math.min(tonumber(top[2]) + 1, score + 4095)
  end
  call("ZADD", key, num(score), id)
  event(q, "delayed", "jobId", id, "delay", num(due_ms))
  q.delayed = true
end

-- When the earliest delayed job is due (with the fraction that its marker has); 0 = none.
local function delayed_head(q)
  local head = call("ZRANGE", q.b .. "delayed", "0", "0", "WITHSCORES")
  return head[2] and tonumber(head[2]) / 4096 or 0
end

-- Moves what is due into the lines, at most `limit`. Answers how many, and when the next is due.
local function promote_due(q, limit)
  local head = delayed_head(q)
  if head == 0 or head >= now_ms + 1 then
    return 0, floor(head)
  end
  local key, done = q.b .. "delayed", 0
  local ids = call("ZRANGEBYSCORE", key, "-inf", num(now_ms * 4096 + 4095), "LIMIT", "0", num(limit))
  call_list(ids, "ZREM", key)
  for _, id in ipairs(ids) do
    local priority = call("HGET", q.b .. id, "priority")
    if priority or call("EXISTS", q.b .. id) == 1 then
      call("HSET", q.b .. id, "delay", "0")
      place_line(q, id, tonumber(priority or 0) or 0, false)
      event(q, "waiting", "jobId", id, "prev", "delayed")
      done = done + 1
    end
  end
  return done, floor(delayed_head(q))
end

-- Writes what the act has collected: places, totals, settings, the cap of the stream, markers.
local function save()
  for _, q in pairs(queues) do
    flush(q)
    for name, n in pairs(q.plus) do
      q.changed[#q.changed + 1] = "emq:n:" .. name
      q.changed[#q.changed + 1] = num(q.totals[name] + n)
    end
    if #q.changed > 0 then
      call("HSET", q.b .. "meta", unpack(q.changed))
    end
    if q.told then
      if q.cap > 0 then
        try("XTRIM", q.events, "MAXLEN", "~", num(q.cap))
      else
        try("DEL", q.events)
      end
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
