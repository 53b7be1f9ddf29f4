-- advance: tests only: every key with a TTL loses some of it
-- ARGV[4]  how many ms
-- reply    {nil, how many keys}
-- calls    2 and 3 a key
local ms = tonumber(ARGV[4])
local cursor, n = "0", 0
repeat
    local page = redis.call("SCAN", cursor, "COUNT", 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
        local left = redis.call("PTTL", key)
        if left > ms then
            redis.call("PEXPIRE", key, left - ms)
            n = n + 1
        elseif left >= 0 then
            redis.call("DEL", key)
            n = n + 1
        end
    end
until cursor == "0"
return {false, n}
