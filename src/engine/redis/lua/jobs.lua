-- jobs: reads jobs by their ids
-- KEYS[1]    the queue's meta key
-- ARGV[4..]  ids
-- reply      {now_ms, a row of lib/read.lua or 0 for each id}
-- calls      4 a job that waits, 3 of another state, 2 more of one that is active, 1 more of a scheduler; 1 for
--            all that are missing
--@include lib/base.lua
--@include lib/read.lua

local out = {now_ms}
local steps = floor(20000 / (#ARGV - 3))
for i = 4, #ARGV do
  local id = ARGV[i]
  local job = read_job(B, id)
  out[i - 2] = job and row(B, id, job, where_is(B, id, job, steps)) or 0
  if not job then
    queue(B) -- a queue? Not if its meta belongs to something else
  end
end
return out
