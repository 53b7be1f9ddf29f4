-- jobs: reads jobs by their ids
-- KEYS[1]    the queue's meta key
-- ARGV[4..]  ids
-- reply      {now_ms, a row of lib/read.lua or 0 for each id}
-- calls      7 a job, 4 more when it is active or waiting
--@include lib/base.lua
--@include lib/read.lua

local out = {now_ms}
local steps = floor(20000 / (#ARGV - 3))
for i = 4, #ARGV do
  local id = ARGV[i]
  local hash = visible(B, id)
  out[i - 2] = hash and row(B, id, hash, where_is(B, id, steps)) or 0
end
return out
