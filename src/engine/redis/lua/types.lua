-- types: which key of a queue belongs to something else
-- KEYS[1]  the queue's meta key
-- reply    {now_ms, key, what it holds, what it should hold}, or {now_ms}
-- calls    20
--@include lib/base.lua
local kinds = {
    string = {"id", "pc", "limiter", "stalled-check"},
    list = {"wait", "paused", "active"},
    set = {"stalled"},
    zset = {"delayed", "prioritized", "waiting-children", "completed", "failed", "marker", "repeat"},
    hash = {"meta"},
    stream = {"events"},
}
for want, suffixes in pairs(kinds) do
    for _, suffix in ipairs(suffixes) do
        local key = ARGV[2] .. suffix
        local is = try("TYPE", key).ok -- nil: who may not look may still act
        if is and is ~= want and is ~= "none" then
            return {now_ms, key, is, want}
        end
    end
end
return {now_ms}
