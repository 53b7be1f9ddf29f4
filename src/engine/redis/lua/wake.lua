-- wake: lets the workers that wait for a queue look at it
-- KEYS[1]  the queue's meta key
-- reply    {now_ms}
-- calls    2
--@include lib/base.lua
call("ZADD", B .. "marker", "0", "0")
return {now_ms}
