-- bulk: one slice of a change to the jobs of one state, oldest first. Those it does not allow are passed over
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  kind of change, administrator, delay, priority, 1 = lifo, 1 = reset attempts, what to do about
--            effects; state, age in ms, how many jobs, 1 = an event, id to begin behind; and where the last
--            slice ended, all of it as answered: slices, count, last id, rank, id before it, 1 = there are more
--            jobs, 1 = the search is over, ids still to be changed
-- reply      {now_ms, slices, count, last id, rank, id before it, 1 = there are more jobs, 1 = the search is
--            over, 1 = that was all, 0 = the id to begin behind is not in the state, ids still to be changed}
-- calls      11, and 3 a job passed over, 12 a job changed, 16 a retried one
--@include lib/change.lua
--@include lib/read.lua
--@include lib/receipt.lua

local function run() -- a function has at most 200 local variables
local session, seq, c = ARGV[4], ARGV[5], change_of(6)
local state, older, limit = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15])
local tell, after = ARGV[16] == "1", ARGV[17]
local slices_done, changed, last = tonumber(ARGV[18]), tonumber(ARGV[19]), ARGV[20]
local at = {rank = tonumber(ARGV[21]), anchor = ARGV[22]}
local more, finished = ARGV[23] == "1", ARGV[24] == "1"
local by_finish = state == COMPLETED or state == FAILED
local stays = c.kind == CANCEL and state == ACTIVE or
              c.kind == PRIORITY_OF and state ~= WAITING and state ~= PRIORITIZED
-- These put the job back where the search comes by again: all are found before the first is changed.
local comes_by_again = (c.kind == DELAY or c.kind == PRIORITY_OF) and not stays
local CHANGED_MAX, LOOK = 100, 100
local q = queue(B)

local stored = receipt_find(session, seq, "bulk")
if stored and (stored.err or stored[2] > slices_done) then
  return stored
end
sound(q)

-- Begins behind the job that the last slice left, or `after`.
if slices_done == 0 then
  if after ~= "" then
    at.rank = rank_of(B, state, after, false)
    if not at.rank then
      return {now_ms, 0, 0, "", 0, "", 0, 1, 1, 0}
    end
    at.rank, at.anchor = at.rank + 1, after
  end
elseif at.rank > 0 and not finished then
  local there = rank_near(B, state, at.anchor, false, at.rank - 1)
  at.rank = there and there + 1 or math.max(at.rank - NEAR, 0) -- gone; so many have hardly gone with it
end

local function is_old(score, timestamp)
  local since = by_finish and floor(score) or tonumber(timestamp) or 0
  return older <= 0 or since <= now_ms - older
end

-- The jobs to change, each with the rank and the id before it once those ahead of it are gone.
local found, ghosts = {}, {}
for i = 25, #ARGV do
  found[#found + 1] = {id = ARGV[i], rank = at.rank}
end

local function look(id, score)
  spend(LOOK)
  local timestamp = try_record("HGET", B .. id, "timestamp")
  if type(timestamp) ~= "string" then
    ghosts[#ghosts + 1] = id
    return
  end
  local old = is_old(score, timestamp)
  if by_finish and not old then -- nor is any behind it
    finished = true
  elseif not old or keeps(q, id, c.kind) or asks(q, id, c) then
    at.rank, at.anchor = at.rank + 1, id
  elseif #found == limit - changed then
    finished, more = true, true
  else
    sound_around(q, id, c.kind)
    found[#found + 1] = {id = id, rank = at.rank, anchor = at.anchor}
    if stays or comes_by_again then
      at.rank, at.anchor = at.rank + 1, id
    end
  end
end

finished = finished or not fits(c.kind, state)
do
  local from = at.rank
  while not finished and spent < SLICE and (comes_by_again or #found < CHANGED_MAX) do
    local ids, scores = ids_of(B, state, from, 100, false)
    for i, id in ipairs(ids) do
      look(id, scores and scores[i])
      if finished then
        break
      end
    end
    from = from + #ids
    finished = finished or #ids < 100
  end
end

local function change_one(id, rank)
  if c.kind ~= REMOVE then
    return change_job(q, id, state, c, rank) == OK
  end
  local h = family(B .. id)
  if not leave(q, id, state, rank) then
    return false
  end
  take_parent_along(q, B .. id, h)
  delete_keys(q, id, h.deid)
  return true
end

for _, id in ipairs(ghosts) do
  leave(q, id, state, at.rank)
end
local left = {}
if comes_by_again and not finished then
  left = found
else
  for i, job in ipairs(found) do
    if spent >= SLICE and i > 1 then -- the rest in the next slice
      if comes_by_again then
        left = {unpack(found, i)}
      else
        at, finished, more = job, false, false
      end
      break
    end
    if change_one(job.id, job.rank) then
      changed, last = changed + 1, job.id
    end
  end
end
local done = finished and #left == 0
if done and tell and c.kind == REMOVE and changed > 0 then
  event(q, "cleaned", "count", num(changed))
end
save()
local out = {now_ms, slices_done + 1, changed, last, at.rank, at.anchor, more and 1 or 0, finished and 1 or 0,
             done and 1 or 0, 1}
for _, job in ipairs(left) do
  out[#out + 1] = job.id
end
if #found > 0 or done then
  receipt_put(session, seq, "bulk", out)
end
return out
end
return run()
