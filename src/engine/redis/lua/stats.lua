-- stats: a queue in numbers
-- KEYS[1]  the queue's meta key
-- ARGV[4]  "", or how many of the delayed jobs, those due last, were looked at
-- reply    {now_ms, and what lib/stats.lua says, of retries among the next due: a backoff is short beside a
--          plan}; with ARGV[4] {now_ms, retries among the 1000 before those}
-- calls    20, and 1 for each of the 1000 delayed jobs
--@include lib/base.lua
--@include lib/stats.lua

local SLICE, seen = 1000, tonumber(ARGV[4])
if seen then
  return {now_ms, retry_delayed(B, -seen - SLICE, -seen - 1)}
end
return {now_ms, unpack(stats(B, SLICE - 1))}
