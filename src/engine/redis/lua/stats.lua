-- stats: a queue in numbers
-- KEYS[1]  the queue's meta key
-- reply    {now_ms, and what lib/stats.lua says}
-- calls    20, and 1 for each of the next 1000 delayed jobs
--@include lib/base.lua
--@include lib/stats.lua

return {now_ms, unpack(stats(B))}
