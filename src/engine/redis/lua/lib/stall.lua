-- A hand-out whose owner is gone: back to the front of its line, or failed.
--@include lib/finish.lua
--@include lib/opts.lua

-- A scheduler of BullMQ that lives: its jobs are not failed for stalling.
local function of_living_scheduler(q, h)
  return h.rjk and (call("EXISTS", q.b .. "repeat:" .. h.rjk) == 1 or
                    type(try_record("ZSCORE", q.b .. "repeat", h.rjk)) == "string") and true or false
end

-- s: max, reason ("" = the usual), keep (nil = of its opts). The job has left `active`. Answers the
-- state after it, 0 = gone.
-- h: stc, priority, emq:cancel, rjk, token and mode of the hand-out, and what finish() wants.
local function stall(q, id, h, s)
  local stc = plus_one(h.stc)
  local reason = h["emq:cancel"] and TEXT_CANCELLED or s.reason
  local once = h.mode == AT_MOST_ONCE
  if h["emq:cancel"] or once or tonumber(stc) > s.max and not of_living_scheduler(q, h) then
    if reason == "" then
      reason = once and TEXT_AT_MOST_ONCE or TEXT_STALLED
    end
    local keep = s.keep or own_opts(q, id).keep
    event(q, "stalled", "jobId", id)
    return finish(q, id, h, {state = FAILED, reason = reason, keep = keep, set = {"stc", stc},
                             prev = "active"})
  end
  local set = {"stc", stc}
  if reason ~= "" then
    set[3], set[4] = "failedReason", reason
  end
  call("HSET", q.b .. id, unpack(set))
  count(q, "recovered")
  local priority = tonumber(h.priority or 0) or 0
  place_line(q, id, priority, true)
  history(q, id, "recovered", h.token or "", reason ~= "" and reason or TEXT_LOCK_ENDED)
  event(q, "waiting", "jobId", id, "prev", "active")
  event(q, "stalled", "jobId", id)
  return priority > 0 and PRIORITIZED or WAITING
end
