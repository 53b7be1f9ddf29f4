-- Taking from a line in which jobs stand that are not plainly to be handed out: without a record, with a
-- deferred failure, to be popped, for others, or longer together than one answer may be.
--@include lib/complete.lua
--@include lib/rare.lua

local BYTES_MAX = 8388608 -- of records in one answer

-- Ends early, with q.entered, when a job came into line that may go first.
local function mixed(q, t, line)
--@include lib/others.lua
  local key = q.b .. (line == PRIORITIZED and "prioritized" or "wait")
  local popping = t.mode == FIRE_AND_FORGET
  local skip, n = 0, room(q, t)

  -- The next ids behind those that are skipped.
  local function look()
    if line == PRIORITIZED then
      return call("ZRANGE", key, num(skip), num(skip + n - 1))
    end
    local ids, back = call("LRANGE", key, num(-skip - n), num(-skip - 1)), {}
    for i = #ids, 1, -1 do
      back[#back + 1] = ids[i]
    end
    return back
  end

  local function leave(ids)
    if line == PRIORITIZED then
      call_list(ids, "ZREM", key)
      return
    end
    for _, id in ipairs(ids) do
      call("LREM", key, "-1", id)
    end
  end

  -- nil: there is no record.
  local function read(id)
    local r = {id = id, key = q.b .. id, h = {}, bytes = 0}
    r.flat = try_record("HGETALL", r.key)
    for i = 1, #r.flat, 2 do
      r.h[r.flat[i]] = r.flat[i + 1]
      r.bytes = r.bytes + #r.flat[i + 1]
    end
    r.failure = r.h.defa or not r.h.data and rare().DAMAGED
    return #r.flat > 0 and r or nil
  end

  -- The keys that its end writes to, see lib/sound.lua.
  local function sound_end(r)
    if r.failure then
      finish_top(q, FAILED)
      rare().sound_parent(r.h)
    end
    if r.h.deid and (r.failure or popping) then
      rare().sound_dedup(q)
    end
  end

  -- The literal pop: nothing is left to settle.
  local function pop(r)
    local last = q.fence
    q.fence = now_us > last and now_us or last + 1
    t.jobs[#t.jobs + 1] = {r.id, "0", r.flat, t.worker .. ":" .. num(q.fence)}
    finish_flush(q)
    event(q, "active", "jobId", r.id, "prev", "waiting")
    if r.h.deid then
      q.entered = rare().dedup_end(q, r.id, r.h.deid) or q.entered
    end
    event(q, "removed", "jobId", r.id, "prev", "active")
    job_keys(q.gone, q, r.id)
    count(q, "removed")
  end

  local function bring_out(r)
    if r.failure then
      t.deferred = t.deferred + 1
      rare().finish(q, r.id, r.h, {state = FAILED, reason = r.failure, keep = rare().own_opts(q, r.id).keep,
                                   prev = STATE_NAME[line]})
      return
    end
    t.used = t.used + 1
    if popping then
      pop(r)
    else
      t.active = t.active + 1
      hand_out(q, t, r.id, r.key, {r.id, t.lock_ms, r.flat, ""}, r.h.ats)
    end
  end

  -- Reads the next jobs and what they are about to be written to.
  local ids, out, leaving, active, read_n
  local function choose()
    ids, out, leaving, active, read_n = look(), {}, {}, {}, 0
    for i, id in ipairs(ids) do
      local r = read(id)
      read_n = i
      if r and is_for_others(q.b, t.mode, id, r.h.rjk, r.h.parentKey) then
        skip = skip + 1
        t.passed = t.passed + 1
      else
        leaving[#leaving + 1] = id
        out[#out + 1] = r
        if r and r.failure then
          t.passed = t.passed + 1
        elseif r and not popping then
          active[#active + 1] = id
        end
        t.bytes = t.bytes + (r and r.bytes or 0)
        if t.bytes >= BYTES_MAX or r and r.h.deid and (r.failure or popping) then
          break -- its dedup id may bring another job into line
        end
      end
    end
    for _, r in ipairs(out) do
      sound_end(r)
    end
    if #active > 0 then
      rare().sound(q, "active")
    end
    return true
  end

  while n > 0 and t.passed < PASS_MAX and t.bytes < BYTES_MAX do
    if not go_on(has_acted(t), choose) then
      return
    end
    call_list(active, "LPUSH", q.b .. "active")
    leave(leaving)
    for _, r in ipairs(out) do
      bring_out(r)
    end
    if q.entered then
      return
    elseif read_n == #ids and read_n < n then
      t.empty = t.empty + (skip == 0 and 1 or 0)
      return
    end
    n = room(q, t)
  end
end
