-- Promotion of what is due.
--@include lib/line.lua
--@include lib/sound.lua

-- Moves what is due into the lines, at most `limit`. Answers how many, and when the next is due.
local function promote_due(q, limit)
  local head = delayed_head(q)
  if head == 0 or head >= now_ms + 1 then
    return 0, floor(head)
  end
  local key, done = q.b .. "delayed", 0
  local ids = call("ZRANGEBYSCORE", key, "-inf", num(now_ms * 4096 + 4095), "LIMIT", "0", num(limit))
  sound(q, "wait", "prioritized", "pc", "active") -- active: for the take behind it
  call_list(ids, "ZREM", key)
  for _, id in ipairs(ids) do
    local h = try_record("HMGET", q.b .. id, "priority")
    local priority = h[1]
    if priority or not h.err and call("EXISTS", q.b .. id) == 1 then
      call("HSET", q.b .. id, "delay", "0")
      place_line(q, id, tonumber(priority or 0) or 0, false)
      event(q, "waiting", "jobId", id, "prev", "delayed")
      done = done + 1
    end
  end
  return done, floor(delayed_head(q))
end
