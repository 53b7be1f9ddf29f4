-- bulk: one slice of a change to the jobs of one state, oldest first. Those it does not allow are passed over
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  kind of change, administrator, delay, priority, 1 = lifo, 1 = reset attempts, what to do about
--            effects; state, age in ms, how many jobs, 1 = an event, id to begin behind; and where the last slice ended, all of
--            it as answered: slices, count, last id, rank, id before it
-- reply      {now_ms, slices, count, last id, rank, id before it, 1 = that was all, 1 = there are more
--            jobs, 0 = the id to begin behind is not in the state}
-- calls      2 a job passed over, 12 a job changed
--@include lib/change.lua
--@include lib/read.lua
--@include lib/receipt.lua

local session, seq, c = ARGV[4], ARGV[5], change_of(6)
local state, older, limit = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
local tell, after = ARGV[16] == "1", ARGV[17]
local slices_done, changed, last = tonumber(ARGV[18]), tonumber(ARGV[19]), ARGV[20]
local rank, anchor = tonumber(ARGV[21]), ARGV[22]
local by_finish = state == COMPLETED or state == FAILED
-- These put the job back where the search comes by again: all of it in one slice.
local whole_in_one = c.kind == DELAY or c.kind == PRIORITY_OF
local CHANGED_MAX, LOOK = 250, 40
local q = queue(B)

local stored = receipt_find(session, seq, "bulk")
if stored and (stored.err or stored[2] > slices_done) then
  return stored
end

-- Begins behind the job that the last slice left, or `after`. It may have moved on meanwhile: then from
-- the start.
if slices_done == 0 then
  if after ~= "" then
    rank = rank_of(B, state, after, false, 0)
    if not rank then
      return {now_ms, 0, 0, "", 0, "", 1, 0, 0}
    end
    rank, anchor = rank + 1, after
  end
elseif rank > 0 then
  rank = (rank_of(B, state, anchor, false, rank - 1) or -1) + 1
end

local function is_old(score, timestamp)
  local since = by_finish and floor(score) or tonumber(timestamp) or 0
  return older <= 0 or since <= now_ms - older
end

-- The jobs to change, each with the rank and the id before it once those ahead of it are gone.
local found, ghosts, finished, more = {}, {}, false, false
local function look(id, score, at)
  spend(LOOK)
  local timestamp = try("HGET", B .. id, "timestamp")
  if type(timestamp) ~= "string" then
    ghosts[#ghosts + 1] = id
    return
  end
  local old = is_old(score, timestamp)
  if by_finish and not old then -- nor is any behind it
    finished = true
  elseif not old or c.kind == REMOVE and is_held(q, id) or asks(q, id, c) then
    at.rank, at.anchor = at.rank + 1, id
  elseif #found == limit - changed then
    finished, more = true, true
  else
    found[#found + 1] = {id = id, rank = at.rank, anchor = at.anchor}
    if c.kind == CANCEL and state == ACTIVE then
      at.rank, at.anchor = at.rank + 1, id
    end
  end
end

local at, from = {rank = rank, anchor = anchor}, rank
finished = not fits(c.kind, state)
while not finished and (whole_in_one or (spent < SLICE and #found < CHANGED_MAX)) do
  local ids, scores = ids_of(B, state, from, 100, false)
  for i, id in ipairs(ids) do
    look(id, scores and scores[i], at)
    if finished then
      break
    end
  end
  from = from + #ids
  finished = finished or #ids < 100
end

local function remove_one(id, rank)
  local h = family(B .. id)
  if leave(q, id, state, rank) then
    take_parent_along(q, B .. id, h)
    delete_keys(q, id, h.deid)
    return true
  end
  return false
end

for _, id in ipairs(ghosts) do
  leave(q, id, state, rank)
end
for i, job in ipairs(found) do
  if spent >= SLICE and i > 1 and not whole_in_one then -- the rest in the next slice
    at, finished, more = job, false, false
    break
  end
  if c.kind == REMOVE and remove_one(job.id, job.rank) or
     c.kind ~= REMOVE and change_job(q, job.id, state, c, job.rank) == OK then
    changed, last = changed + 1, job.id
  end
end
if finished and tell and c.kind == REMOVE and changed > 0 then
  event(q, "cleaned", "count", num(changed))
end
save()
local out = {now_ms, slices_done + 1, changed, last, at.rank, at.anchor, finished and 1 or 0, more and 1 or 0,
             1}
if #found > 0 or finished then
  receipt_put(session, seq, "bulk", out)
end
return out
