-- wake: lets the workers that wait for a queue look at it
-- KEYS[1]  the queue's meta key
-- reply    {now_ms}
-- calls    2
local t = redis.call("TIME")
redis.call("ZADD", ARGV[2] .. "marker", 0, "0")
return {t[1] * 1000 + math.floor(t[2] / 1000)}
