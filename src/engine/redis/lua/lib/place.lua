-- Delayed jobs, beside the lines.
--@include lib/line.lua

-- The low 12 bits of a score keep the order inside one millisecond.
local function place_delayed(q, id, due_ms)
  local score, key = due_ms * 4096, q.b .. "delayed"
  local top = call("ZREVRANGEBYSCORE", key, num(score + 4095), num(score), "WITHSCORES", "LIMIT", "0", "1")[2]
  if top then
    score = math.min(tonumber(top) + 1, score + 4095)
  end
  call("ZADD", key, num(score), id)
  event(q, "delayed", "jobId", id, "delay", num(due_ms))
  q.delayed = true
end
