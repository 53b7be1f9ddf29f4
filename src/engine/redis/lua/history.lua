-- history: reads the exceptional entries of a job's life
-- KEYS[1]  the queue's meta key
-- ARGV[4]  the job
-- reply    {now_ms, entries as JSON, oldest first}
-- calls    2
--@include lib/base.lua

if call("EXISTS", B .. ARGV[4]) == 0 then
  return {now_ms}
end
return {now_ms, unpack(call("LRANGE", X .. "hist:" .. ARGV[4], 0, -1))}
