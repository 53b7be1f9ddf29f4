-- What the usual case does not need, made when it is wanted.
--@include lib/complete.lua

local RARE
local function rare()
  if RARE then
    return RARE
  end
--@include lib/stall.lua
--@include lib/promote.lua

  -- Another worker is to bring it out; here it fails.
  local function fail_in_line(q, line, r)
    finish(q, r.id, r.h, {state = FAILED, reason = r.h.defa or TEXT_DAMAGED, keep = own_opts(q, r.id).keep,
                          prev = STATE_NAME[line]})
  end

  -- The literal pop: nothing is left to settle.
  local function pop(q, r)
    finish_flush(q)
    event(q, "active", "jobId", r.id, "prev", "waiting")
    if r.h.deid then
      q.entered = dedup_end(q, r.id, r.h.deid) or q.entered
    end
    event(q, "removed", "jobId", r.id, "prev", "active")
    job_keys(q.gone, q, r.id)
    count(q, "removed")
  end

  -- The pending iteration of a scheduler of BullMQ: whoever takes it makes the next one, which is left
  -- to BullMQ's workers.
  local function is_iteration(q, id, scheduler)
    local at = call("ZSCORE", q.b .. "repeat", scheduler)
    return at and id == "repeat:" .. scheduler .. ":" .. num(tonumber(at))
  end

  RARE = {
    exists = exists, store = store, dedup_admit = dedup_admit,
    fail_in_line = fail_in_line, pop = pop, is_iteration = is_iteration, promote_due = promote_due,
    finish = finish, own_opts = own_opts, stall = stall, owns = owns, last_token = last_token, in_active = in_active,
    state_of = state_of, history = history, place_delayed = place_delayed, CANCELLED = TEXT_CANCELLED,
    AT_MOST_ONCE = TEXT_AT_MOST_ONCE,
  }
  return RARE
end
