-- What a queue looks like now, in numbers.

-- Delayed jobs that have been handed out before, among those of the ranks from..to.
local function retry_delayed(b, from, to)
  local n = 0
  for _, id in ipairs(call("ZRANGE", b .. "delayed", num(from), num(to))) do
    local seen = try_record("HMGET", b .. id, "ats", "emq:tk")
    if seen[2] or tonumber(seen[1] or 0) ~= 0 then
      n = n + 1
    end
  end
  return n
end

local function oldest_waiting(b)
  local id = call("LINDEX", b .. "wait", -1) or call("LINDEX", b .. "paused", -1) or
             call("ZRANGE", b .. "prioritized", 0, 0)[1]
  return id and tonumber(try_record("HMGET", b .. id, "timestamp")[1] or 0) or 0
end

-- {exists, paused, maxed, seven counts, limited ms, next due ms, oldest waiting ms, concurrency, eight
-- totals, retry_delayed among those of the ranks up to `to`}
local function stats(b, to)
  local q = queue(b)
  local out = {call("EXISTS", b .. "meta"), q.paused and 1 or 0, maxed(q) and 1 or 0}
  out[4] = call("LLEN", b .. "wait") + call("LLEN", b .. "paused")
  out[5] = call("LLEN", b .. "active")
  for _, set in ipairs({"delayed", "prioritized", "waiting-children", "completed", "failed"}) do
    out[#out + 1] = call("ZCARD", b .. set)
  end
  local max = q.max > 0 and q.max or tonumber(q.limit or 0) or 0
  local full = max > 0 and (tonumber(call("GET", b .. "limiter") or 0) or 0) >= max
  local limited = full and call("PTTL", b .. "limiter") or 0
  out[11] = math.max(limited, 0)
  local due = call("ZRANGE", b .. "delayed", 0, 0, "WITHSCORES")[2]
  out[12] = due and floor(tonumber(due) / 4096) or 0
  out[13] = oldest_waiting(b)
  out[14] = q.concurrency
  for i, name in ipairs(TOTALS) do
    out[14 + i] = q.totals[name]
  end
  out[23] = retry_delayed(b, 0, to)
  return out
end
