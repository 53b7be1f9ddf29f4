-- stats: a queue in numbers
-- KEYS[1]  the queue's meta key
-- ARGV[4]  "", or how many of the delayed jobs, those due last, were looked at
-- ARGV[5]  "", or the mode of takes that may find a job in line
-- reply    {now_ms, 1 if they do, and what lib/stats.lua says, of retries among the next due: a backoff is
--          short beside a plan}; with ARGV[4] {now_ms, retries among the 1000 before those}
-- calls    20, and 1 for each of the 1000 delayed jobs; with ARGV[5] 2, and 2 for each job in line up to the
--          first of them
--@include lib/base.lua
--@include lib/stats.lua
--@include lib/others.lua

-- Is one of the jobs in line, as many as a take looks at, not for others?
local function takeable(mode)
  for _, line in ipairs({{"LRANGE", B .. "wait", num(-PASS_MAX), "-1"},
                         {"ZRANGE", B .. "prioritized", "0", num(PASS_MAX - 1)}}) do
    for _, id in ipairs(call(unpack(line))) do
      local h = try_record("HMGET", B .. id, "rjk", "parentKey")
      if not is_for_others(B, mode, id, h[1], h[2]) then
        return 1
      end
    end
  end
  return 0
end

local SLICE, seen = 1000, tonumber(ARGV[4])
if seen then
  return {now_ms, retry_delayed(B, -seen - SLICE, -seen - 1)}
end
return {now_ms, ARGV[5] ~= "" and takeable(ARGV[5]) or 0, unpack(stats(B, SLICE - 1))}
