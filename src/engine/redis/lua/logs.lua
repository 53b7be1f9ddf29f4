-- logs: reads a part of a job's log
-- KEYS[1]  the queue's meta key
-- ARGV[4]  the job
-- ARGV[5]  the first line, from 0
-- ARGV[6]  how many lines
-- reply    {now_ms, 0 = no such job, how many there are, lines}
-- calls    3
--@include lib/base.lua

local key = B .. ARGV[4]
local from = tonumber(ARGV[5])
local record = try_record("HMGET", key, "timestamp")
if record.err or not record[1] then
  return {now_ms, 0, 0}
end
local lines = call("LRANGE", key .. ":logs", from, from + tonumber(ARGV[6]) - 1)
return {now_ms, 1, call("LLEN", key .. ":logs"), unpack(lines)}
