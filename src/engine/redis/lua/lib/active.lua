-- Out of `active`, and whose a hand-out is.
--@include lib/job.lua

-- Takes ids out of `active`; answers the set of those that were there. LREM from the middle of a long
-- list is dear: many ids at once are taken out by writing the list anew.
local function leave_active(q, ids)
  local key, there, n = q.b .. "active", {}, #ids
  if n >= 4 and call("LLEN", key) <= 16 * n then
    local want, rest = {}, {}
    for _, id in ipairs(ids) do
      want[id] = true
    end
    local list = call("LRANGE", key, 0, -1)
    for _, id in ipairs(list) do
      if want[id] then
        there[id] = true
      else
        rest[#rest + 1] = id
      end
    end
    if #rest < #list then
      call("DEL", key)
      call_list(rest, "RPUSH", key)
    end
    return there
  end
  for _, id in ipairs(ids) do
    if call("LREM", key, -1, id) > 0 then
      there[id] = true
    end
  end
  return there
end

-- Ends the locks of jobs that have left `active`.
local function unlock(q, ids)
  local locks = {}
  for i, id in ipairs(ids) do
    locks[i] = q.b .. id .. ":lock"
  end
  call_list(locks, "DEL")
  call_list(ids, "SREM", q.b .. "stalled")
end

-- Is it the owner's token? lock: the value of the lock key. A lock that has ended but whose job
-- nobody has recovered is still its owner's.
local function owns(q, id, token, lock, tk, processed_on)
  if lock then
    return lock == token
  end
  return last_token(tk, processed_on) == token and in_active(q, id)
end
