-- What the usual case does not need, made when it is wanted.
--@include lib/line.lua

local RARE
local function rare()
  if RARE then
    return RARE
  end
--@include lib/stall.lua
--@include lib/promote.lua
--@include lib/publish.lua

  -- The window of the rate limit, docs/protocol.md section 5.5. A counter without an end is none.
  local function limit_open(q, t)
    local max = q.max > 0 and q.max or tonumber(t.max)
    t.duration = t.duration ~= "0" and tonumber(t.duration) or q.duration
    if max <= 0 or t.duration <= 0 then
      return
    end
    t.limit = max
    if q.limit ~= num(max) and exists(q) then
      q.changed[#q.changed + 1] = "emq:limit"
      q.changed[#q.changed + 1] = num(max)
    end
    t.used = tonumber(counter(q.b .. "limiter") or 0)
    if t.used > 0 then
      t.left = call("PTTL", q.b .. "limiter")
      if t.left <= 0 then
        call("DEL", q.b .. "limiter")
        t.used = 0
      end
    end
    t.before = t.used
  end

  -- Counts what was handed out. Answers how long the limit holds, 0 = there is room.
  local function limit_close(q, t)
    if t.used > t.before then
      call("INCRBY", q.b .. "limiter", num(t.used - t.before))
      if t.before == 0 then
        t.left = tonumber(span(t.duration))
        call("PEXPIRE", q.b .. "limiter", span(t.duration))
      end
    end
    return t.used >= t.limit and t.left or 0
  end

  -- What a receipt of a take has, with the records as they are now and the tokens of then: of a job that
  -- another has by now it is told the lost one, never the other's.
  local function taken_again(q, taken)
    local out = {}
    for i, v in ipairs(taken) do
      if i > 5 and #v == 2 then
        local key, token = q.b .. v[1], v[2]
        local left = call("GET", key .. ":lock") == token and call("PTTL", key .. ":lock") or 0
        v = {v[1], left, try_record("HGETALL", key), token, ""}
      end
      if i <= 5 or #v[3] > 0 then
        out[#out + 1] = v
      end
    end
    return out
  end

  RARE = {
    exists = exists, store = store, job_keys = job_keys, dedup_admit = dedup_admit, dedup_end = dedup_end,
    promote_due = promote_due, finish = finish, own_opts = own_opts, stall = stall, owns = owns,
    last_token = last_token, in_active = in_active, state_of = state_of, history = history,
    place_delayed = place_delayed, limit_open = limit_open, limit_close = limit_close,
    taken_again = taken_again, sound = sound, sound_parent = sound_parent, sound_dedup = sound_dedup,
    stage_lives = stage_lives, stage_of = stage_of, help_publish = help_publish,
    AT_MOST_ONCE = TEXT_AT_MOST_ONCE, DAMAGED = TEXT_DAMAGED, CANCELLED = TEXT_CANCELLED,
  }
  return RARE
end
