-- Removing jobs whatever their state, docs/protocol.md sections 5.0.14 to 5.0.16 and 5.13: out of the
-- state, away from the parent, with the children and all keys. What a script may do in one go is
-- counted in `spent`: steps through lists, and STEPS for each job.
--@include lib/parent.lua

local STEPS, SLICE = 300, 60000
local spent = 0

local function spend(n)
  spent = spent + n
end

-- Takes a job out of its state; false: it was not there. A list is searched from its old end; rank: about
-- where the job stands, if that is known.
local function leave(q, id, state, rank)
  flush(q)
  spend(STEPS)
  if state == WAITING then
    spend(rank or call("LLEN", q.b .. "wait"))
    return call("LREM", q.b .. "wait", -1, id) > 0 or call("LREM", q.b .. "paused", -1, id) > 0
  elseif state == ACTIVE then
    spend(rank or call("LLEN", q.b .. "active"))
    if call("LREM", q.b .. "active", -1, id) == 0 then
      return false
    end
    call("SREM", q.b .. "stalled", id)
    q.wake = true -- a slot is free
    return true
  end
  return call("ZREM", q.b .. STATE_NAME[state], id) > 0
end

-- The dedup id goes with its owner, whatever is left of the window.
local function release_dedup(q, id, dedup_id)
  if dedup_id and try_record("GET", q.b .. "de:" .. dedup_id) == id then
    call("DEL", q.b .. "de:" .. dedup_id, q.b .. "dn:" .. dedup_id)
  end
end

local function delete_keys(q, id, dedup_id)
  local keys = {q.b .. id .. ":lock"}
  release_dedup(q, id, dedup_id)
  job_keys(keys, q, id)
  call("DEL", unpack(keys))
  count(q, "removed")
end

local function family(key)
  local h = try_record("HMGET", key, "parentKey", "parent", "deid")
  return {parentKey = h[1], parent = h[2], deid = h[3]}
end

-- A child of a queue that is emptied: its parent must not run without it. One of the same queue goes
-- with its last child.
local function take_parent_along(q, child, h)
  local pq, id, key = parent_of(h)
  if not pq or try_record("SREM", key .. ":dependencies", child) ~= 1 or
     call("SCARD", key .. ":dependencies") > 0 then
    return
  elseif pq ~= q then
    release(pq, id, key, "waiting-children")
  elseif call("ZREM", q.b .. "waiting-children", id) == 1 then
    local above = family(key)
    take_parent_along(q, key, above)
    delete_keys(q, id, above.deid)
    spend(STEPS)
  end
end

-- The queues of the parents above a job, of those that may go with it.
local function sound_above(q, key)
  local h = family(key)
  local pq, _, parent = parent_of(h)
  sound_parent(h)
  if pq == q and not q.sound[parent] then
    q.sound[parent] = true
    sound_above(q, parent)
  end
end

-- The keys of all children that a parent knows, and where it does.
local KNOWN = {{"dependencies", "SMEMBERS", "SREM"}, {"processed", "HKEYS", "HDEL"}, {"failed", "HKEYS", "HDEL"},
               {"unsuccessful", "ZRANGE", "ZREM"}}

-- Is a job below this one under a lock? Of the children that have not finished.
local function locked_below(key)
  for _, child in ipairs(try_record("SMEMBERS", key .. ":dependencies")) do
    spend(10)
    if call("EXISTS", child .. ":lock") == 1 or locked_below(child) then
      return true
    end
  end
  return false
end

-- Removes a job that nothing keeps in its place, and all below it; below: its parent goes, too, and is
-- not to be released. false: the slice is used up and the job is still there, with fewer children.
local function remove_tree(q, id, state, below)
  local key = q.b .. id
  for _, known in ipairs(KNOWN) do
    local all = known[2] == "ZRANGE" and {0, -1} or {}
    for _, child in ipairs(try_record(known[2], key .. ":" .. known[1], unpack(all))) do
      local b, child_id = string.match(child, "^(.*:)([^:]*)$")
      if spent >= SLICE then
        return false
      elseif b and is_hash(child) then
        local child_queue = queue(b)
        sound(child_queue) -- may refuse: then the job is still there, with fewer children
        if not remove_tree(child_queue, child_id, state_of(child_queue, child_id), true) then
          return false
        end
      end
      call(known[3], key .. ":" .. known[1], child)
    end
  end
  local h = family(key)
  local there = leave(q, id, state)
  if not below then
    child_removed(key, h)
  end
  delete_keys(q, id, h.deid)
  local prev = state == WAITING and "wait" or STATE_NAME[state]
  event(q, "removed", "jobId", id, "prev", there and prev or "unknown")
  return true
end
