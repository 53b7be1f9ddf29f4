-- What an administrator may do to one job: in which states, and how.
--@include lib/finish.lua
--@include lib/marker.lua
--@include lib/opts.lua
--@include lib/remove.lua
--@include lib/others.lua

local DELAY, PRIORITY_OF, PROMOTE, RETRY, REMOVE, CANCEL = 1, 2, 3, 4, 5, 6
local ASK, REDO = 0, 2
local EFFECT_DONE = 13
local KIND_NAME = {"delay", "priority", "promote", "retry", "remove", "cancel"}

-- Does a state allow this kind of change?
local function fits(kind, state)
  local is_finished = state == COMPLETED or state == FAILED
  if kind == DELAY or kind == PROMOTE then
    return state == DELAYED
  elseif kind == RETRY then
    return is_finished
  end
  return kind ~= CANCEL or not is_finished
end

-- A retry that nobody has decided about: is it known that an effect of the job was done?
local function asks(q, id, c)
  return c.kind == RETRY and c.effects == ASK and marker_any_done(q, id, call("HGET", q.b .. id, "timestamp"))
end

-- The keys beside those of the queue that a change of a job may write to, see lib/sound.lua.
local function sound_around(q, id, kind)
  if kind == REMOVE or kind == CANCEL then
    sound_above(q, q.b .. id)
  end
end

-- What keeps the job itself from being removed or cancelled: an outcome; nil: nothing.
local function keeps(q, id, kind)
  local NEXT_RUN = 16
  if (kind == REMOVE or kind == CANCEL) and is_pending_iteration(q.b, id, call("HGET", q.b .. id, "rjk")) then
    return NEXT_RUN
  end
  return kind == REMOVE and call("EXISTS", q.b .. id .. ":lock") == 1 and LOCKED or nil
end

local function change_delay(q, id, delay)
  call("HSET", q.b .. id, "delay", num(delay))
  place_delayed(q, id, now_ms + delay)
end

local function to_line(q, id, prev, lifo)
  call("HSET", q.b .. id, "delay", "0")
  place_line(q, id, tonumber(call("HGET", q.b .. id, "priority") or 0) or 0, lifo)
  event(q, "waiting", "jobId", id, "prev", prev)
end

-- The parent, which has counted the child as ended, waits for it again; it does not go back itself.
local function reattach(q, id, state)
  local child = q.b .. id
  local pq, _, key = parent_of(family(child))
  if not pq then
    return
  end
  local is_known
  if state == COMPLETED then
    is_known = try_record("HDEL", key .. ":processed", child) == 1
  else
    local out, told = try_record("ZREM", key .. ":unsuccessful", child), try_record("HDEL", key .. ":failed", child)
    is_known = out == 1 or told == 1
  end
  if is_known then
    try_record("SADD", key .. ":dependencies", child)
  end
end

-- The last hand-out of a finished job, before its record forgets it.
local function keep_handout(q, id, state)
  local h = call("HMGET", q.b .. id, "emq:tk", "processedOn", "finishedOn", "failedReason")
  local token = last_token(h[1], h[2])
  if token then
    history(q, id, FINISHED[state], token, state == FAILED and h[4] or "", h[3])
  end
end

local function retry_finished(q, id, state, c)
  call("HDEL", q.b .. id, "finishedOn", "processedOn", "defa", "emq:exp", "emq:cancel",
       unpack(state == FAILED and {"failedReason"} or {"returnvalue", "emq:renc"}))
  if c.reset then
    call("HDEL", q.b .. id, "atm", "attemptsMade", "ats", "stc")
  end
  local timestamp = call("HGET", q.b .. id, "timestamp")
  if c.effects == REDO then
    marker_drop_job(q, id, timestamp)
    call("HINCRBY", q.b .. id, "emq:redo", "1")
  else
    marker_prolong_job(q, id, timestamp)
  end
  reattach(q, id, state)
  count(q, "retried")
  to_line(q, id, STATE_NAME[state], c.lifo)
end

-- A job that was not handed out fails at once.
local function cancel_waiting(q, id, state)
  local h = {}
  for _, name in ipairs({"parentKey", "parent", "deid", "defa"}) do
    h[name] = call("HGET", q.b .. id, name)
  end
  local after = finish(q, id, h, {state = FAILED, reason = "cancelled", keep = own_opts(q, id).keep,
                                  prev = STATE_NAME[state]})
  finish_flush(q)
  return after
end

-- Does a change other than REMOVE, which the state is known to allow. c: kind, admin, delay, priority,
-- lifo, reset, effects. rank: as in leave(). Answers outcome and the state after it, 0 = gone.
local function change_job(q, id, state, c, rank)
  local kind = c.kind
  local in_line = state == WAITING or state == PRIORITIZED
  local stays = kind == CANCEL and state == ACTIVE or kind == PRIORITY_OF and not in_line
  spend(STEPS)
  if not stays and not leave(q, id, state, rank) then
    return WRONG_STATE, state -- a record that is nowhere
  end
  if kind == RETRY then
    keep_handout(q, id, state)
  end
  if c.admin ~= "" then
    local how = kind ~= RETRY and "" or ({" --keep-effect", " --redo"})[c.effects] or ""
    history(q, id, "admin", c.admin, KIND_NAME[kind] .. how)
  end
  if kind == CANCEL and state == ACTIVE then
    call("HSET", q.b .. id, "emq:cancel", "1")
  elseif kind == CANCEL then
    return OK, cancel_waiting(q, id, state)
  elseif kind == DELAY then
    change_delay(q, id, c.delay)
  elseif kind == PRIORITY_OF then
    call("HSET", q.b .. id, "priority", num(c.priority))
    if in_line then
      place_line(q, id, c.priority, c.lifo)
    end
  elseif kind == PROMOTE then
    to_line(q, id, "delayed", false)
  else
    retry_finished(q, id, state, c)
  end
  if stays or kind == DELAY then
    return OK, state
  end
  return OK, (tonumber(call("HGET", q.b .. id, "priority") or 0) or 0) > 0 and PRIORITIZED or WAITING
end

-- The job of an id: its state; nil: no such job.
local function job_state(q, id)
  local h = try_record("HMGET", q.b .. id, "timestamp")
  if h.err or not h[1] then
    return nil
  end
  return state_of(q, id)
end

-- The change that a script's arguments from `at` on describe.
local function change_of(at)
  return {kind = tonumber(ARGV[at]), admin = ARGV[at + 1], delay = tonumber(ARGV[at + 2]),
          priority = tonumber(ARGV[at + 3]), lifo = ARGV[at + 4] == "1", reset = ARGV[at + 5] == "1",
          effects = tonumber(ARGV[at + 6])}
end
