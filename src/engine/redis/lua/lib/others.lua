-- Jobs in line that a take passes over: they stay for others.
--@include lib/base.lua

local PASS_MAX = 1000 -- jobs that one act passes over or fails

-- Is it the pending iteration of a scheduler of BullMQ? Whoever takes it makes the next one, which is left to
-- BullMQ's workers; without it the schedule would end.
local function is_pending_iteration(b, id, scheduler)
  local at = scheduler and call("ZSCORE", b .. "repeat", scheduler)
  return at and id == "repeat:" .. scheduler .. ":" .. num(tonumber(at))
end

-- Jobs with a parent or a scheduler are not popped.
local function is_for_others(b, mode, id, scheduler, parent_key)
  if mode == FIRE_AND_FORGET then
    return parent_key or scheduler
  end
  return is_pending_iteration(b, id, scheduler)
end
