-- types: which key of a queue belongs to something else
-- KEYS[1]    the queue's meta key
-- ARGV[4]    1 = a key that the user may not look at counts, too
-- ARGV[5]    1 = the jobs at the heads of the lines are looked at
-- ARGV[6..]  words, of which some are ids of jobs, or dedup ids, whose keys are looked at as well
-- reply      {now_ms, key, what it holds, "" = the user may not look, what it should hold}, or {now_ms}
-- calls      24; 2 more for the lines, 13 for each word and each of 50 active jobs and of 50 in line, and 24 for each
--            other queue in which one of these has its parent or some of its children
--@include lib/base.lua
local KINDS = {
    string = {"id", "pc", "limiter", "stalled-check"},
    list = {"wait", "paused", "active"},
    set = {"stalled"},
    zset = {"delayed", "prioritized", "waiting-children", "completed", "failed", "marker", "repeat"},
    hash = {"meta"},
    stream = {"events"},
}
local SIDES = {[""] = "hash", [":lock"] = "string", [":logs"] = "list", [":dependencies"] = "set",
               [":processed"] = "hash", [":failed"] = "hash", [":unsuccessful"] = "zset"}

local function look(key, want)
    local is = try("TYPE", key).ok
    if is and is ~= want and is ~= "none" then
        return {now_ms, key, is, want}
    elseif not is and ARGV[4] == "1" then -- else: who may not look may still act
        return {now_ms, key, "", want}
    end
end

local looked = {}
local function look_at_queue(b, x)
    looked[b] = true
    for want, suffixes in pairs(KINDS) do
        for _, suffix in ipairs(suffixes) do
            local found = look(b .. suffix, want)
            if found then
                return found
            end
        end
    end
    for _, suffix in ipairs({"id", "pc", "limiter"}) do
        local text = try("GET", b .. suffix)
        if type(text) == "string" and not string.match(text, "^%-?%d+$") then
            return {now_ms, b .. suffix, "text", "whole number"}
        end
    end
    return look(x .. "stages", "hash")
end

-- The queues of its parent, which its end writes to, too, and of its children, which may go with it: of some, since
-- those of a queue are many.
local function look_at_family(id)
    local keys = try("SRANDMEMBER", B .. id .. ":dependencies", "100")
    keys[#keys + 1] = try("HGET", B .. id, "parentKey")
    local done = try("HSCAN", B .. id .. ":processed", "0", "COUNT", "100")[2] or {}
    for i = 1, #done, 2 do
        keys[#keys + 1] = done[i]
    end
    for _, key in ipairs(keys) do
        local b, x = string.match(type(key) == "string" and key or "", "^((.*):[^:]*:)[^:]*$")
        local found = b and not looked[b] and look_at_queue(b, x .. "::emq:" .. string.sub(b, #x + 1))
        if found then
            return found
        end
    end
end

local function look_at_job(id)
    for _, suffixes in pairs(KINDS) do
        for _, suffix in ipairs(suffixes) do
            if id == suffix then
                return nil
            end
        end
    end
    for side, want in pairs(SIDES) do
        local found = look(B .. id .. side, want)
        if found then
            return found
        end
    end
    return look(X .. "staged:" .. id, "hash") or look(B .. "de:" .. id, "string") or look(B .. "dn:" .. id, "hash") or look_at_family(id)
end

local function look_at_jobs(ids)
    for _, id in ipairs(ids) do
        local found = look_at_job(id)
        if found then
            return found
        end
    end
end

local found = look_at_queue(B, X) or look_at_jobs({unpack(ARGV, 6)})
if not found and ARGV[5] == "1" then
    found = look_at_jobs(try("LRANGE", B .. "active", "0", "49")) or look_at_jobs(try("LRANGE", B .. "wait", "-50", "-1"))
end
return found or {now_ms}
