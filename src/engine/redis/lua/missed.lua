-- missed: what of a stage was not published, a page of it
-- KEYS[1]  their list, see lib/publish.lua
-- ARGV[4]  how many are in front of the page
-- ARGV[5]  how many it has
-- reply    {now_ms, {number in the stage, outcome, state, id, ...}}
-- calls    2
--@include lib/base.lua
local from = 4 * tonumber(ARGV[4])
return {now_ms, call("LRANGE", KEYS[1], num(from), num(from + 4 * tonumber(ARGV[5]) - 1))}
