-- change: an administrator changes single jobs. More work than one script may do goes on in the next
-- call; what was done is in the receipt
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  kind of change, administrator, delay, priority, 1 = lifo, 1 = reset attempts, what to do about
--            effects; how many of the ids are done, ids
-- reply      {now_ms, how many ids, outcome and state of each one done that ARGV[13] does not count}
-- calls      11, and 12 a job, 16 a retried one
--@include lib/change.lua
--@include lib/receipt.lua

local CHILD_LOCKED = 17
local session, seq, c, before, first = ARGV[4], ARGV[5], change_of(6), tonumber(ARGV[13]), 14
local n = #ARGV - first + 1

-- What the caller has not seen yet of everything that was done.
local function answer(done)
  local out = {now_ms, n}
  for i = 3 + 2 * before, #done do
    out[#out + 1] = done[i]
  end
  return out
end

local done = receipt_find(session, seq, "change")
if done and done.err then
  return done
elseif done and done[2] ~= n then
  return redis.error_reply("EMQ this sequence of the session was a change of " .. done[2] ..
                           " jobs, not of " .. n)
elseif done and #done > 2 + 2 * before then
  return answer(done)
elseif not done then
  done = {now_ms, n}
  for i = 1, 2 * before do
    done[2 + i] = 0 -- without a receipt nobody asks for these again
  end
end

local q = queue(B)
sound(q)

-- nil: not in this slice.
local function change_one(id)
  sound_around(q, id, c.kind)
  local state = job_state(q, id)
  local kept = state and keeps(q, id, c.kind)
  if not state then
    return NOT_FOUND, 0
  elseif not fits(c.kind, state) then
    return WRONG_STATE, state
  elseif asks(q, id, c) then
    return EFFECT_DONE, state
  elseif kept then
    return kept, state
  elseif c.kind ~= REMOVE then
    return change_job(q, id, state, c)
  elseif locked_below(q.b .. id) then
    return CHILD_LOCKED, state
  elseif remove_tree(q, id, state, false) then
    return OK, 0
  end
end

local failure
for i = first + before, #ARGV do
  local could, outcome, state = pcall(change_one, ARGV[i])
  failure = not could and outcome
  if failure or not outcome then
    break
  end
  done[#done + 1] = outcome
  done[#done + 1] = state
  if spent >= SLICE then
    break
  end
end
save()
receipt_put(session, seq, "change", done)
if failure then
  error(failure, 0)
end
return answer(done)
