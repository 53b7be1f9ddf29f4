-- history: reads the exceptional entries of a job's life
-- KEYS[1]    the queue's meta key
-- ARGV[4]    the job
-- reply      {now_ms, entries as JSON, oldest first}
-- calls      3
--@include lib/base.lua

local since = try_record("HGET", B .. ARGV[4], "timestamp")
since = type(since) == "string" and tonumber(since)
if not since then
  return {now_ms}
end
local out = {now_ms}
for _, entry in ipairs(call("LRANGE", X .. "hist:" .. ARGV[4], 0, -1)) do
  local at = tonumber(string.match(entry, '^{"at":(%d+)')) or now_ms
  if at >= since or since > now_ms then -- else of a former job of this id, which BullMQ removed
    out[#out + 1] = entry
  end
end
return out
