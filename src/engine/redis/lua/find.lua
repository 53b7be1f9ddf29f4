-- find: reads the jobs of one state, by rank or behind a job
-- KEYS[1]  the queue's meta key
-- ARGV[4]  state
-- ARGV[5]  1 = newest first
-- ARGV[6]  rank of the first one; with ARGV[7] about where that job stands
-- ARGV[7]  id to begin behind, or ""
-- ARGV[8]  how many
-- ARGV[9]  bytes at which to stop
-- ARGV[10] where the search for ARGV[7] goes on, 0 = it begins
-- reply    {now_ms, 0 = ARGV[7] is not in the state, 1 = stopped by the bytes, rank to go on at, 1 = the
--          state ends here, rows} or {now_ms, 2 = ARGV[7] is still looked for, 0, where the search goes on}
-- calls    1 a job, 2 more when it is active, 1 more of a scheduler, 1 a hundred jobs; 2 when there are none
--@include lib/base.lua
--@include lib/read.lua

local state, newest, id = tonumber(ARGV[4]), ARGV[5] == "1", ARGV[7]
local rank, limit, bytes_max = tonumber(ARGV[6]), tonumber(ARGV[8]), tonumber(ARGV[9])
local out, rows, bytes, ghosts = {now_ms, 1, 0, 0, 0}, 0, 0, 0

if id ~= "" then
  local from, at, go_on = tonumber(ARGV[10])
  if from == 0 then
    at = rank_near(B, state, id, newest, rank)
  end
  if not at then
    at, go_on = search_rank(B, state, id, newest, from)
  end
  if not at then
    return {now_ms, go_on and 2 or 0, 0, go_on or 0, 1}
  end
  rank = at + 1
end
while rows < limit and ghosts < 2000 do -- ids without a record take time, too
  local n = math.min(100, limit - rows)
  local ids, scores = ids_of(B, state, rank, n, newest)
  for i, id in ipairs(ids) do
    local job = read_job(B, id)
    if not job then
      ghosts = ghosts + 1
    elseif bytes >= bytes_max then
      out[3] = 1
      return out
    else
      bytes = bytes + job.bytes
      rows = rows + 1
      out[5 + rows] = row(B, id, job, state, scores and scores[i])
    end
  end
  rank = rank + #ids
  if #ids < n then
    out[5] = 1
    break
  end
end
out[4] = rank
if rows == 0 then
  queue(B) -- a queue? Not if its meta belongs to something else
end
return out
