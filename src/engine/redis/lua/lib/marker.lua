-- Markers: what is known of the effects of jobs. Those of one job, by its id and creation time, are a hash,
-- X.."ef:<id>:<timestamp>": step -> packed {state, token, fingerprint, claimed, done, ends, kind of result,
-- result}. It lives as long as the one that ends last. Which hashes a queue has stands in X.."ef", in their
-- order, and in X.."ef-end", by their end; their members are id, NUL and sixteen digits. A marker past its
-- end is absent; a claim with a result is an effect that was done in part; each new step of a job looks at some others at random, so that few such stay (one in eight).
--@include lib/base.lua

local CLAIMED, DONE = 1, 2
local EXPIRE_MAX = 4 -- removed by one act: more than one, so that they get fewer
local LOOK_MAX = 8 -- steps of a job

local function marker_key(q, id, timestamp)
  return q.x .. "ef:" .. id .. ":" .. num(tonumber(timestamp) or 0)
end

local function marker_member(id, timestamp)
  return id .. "\0" .. format("%016.0f", tonumber(timestamp) or 0)
end

local function marker_read(packed)
  local m = packed and cmsgpack.unpack(packed)
  if not m or m[6] <= now_ms then
    return nil
  end
  return {state = m[1], token = m[2], fingerprint = m[3], claimed = m[4], done = m[5], ends = m[6], kind = m[7],
          result = m[8]}
end

local function marker_get(q, id, timestamp, step)
  return marker_read(call("HGET", marker_key(q, id, timestamp), step))
end

-- Lets a key live until then, if it does not anyway. true: it did not; and whether it had an end already.
local function live_until(key, at)
  local left = call("PTTL", key)
  if left >= at - now_ms then
    return false, true
  end
  call("PEXPIRE", key, span(at - now_ms))
  return true, left >= 0
end

-- Forgets steps of a job that have ended.
local function marker_expire_steps(key)
  local some, ended = call("HRANDFIELD", key, num(LOOK_MAX), "WITHVALUES"), {}
  for i = 1, #some, 2 do
    if cmsgpack.unpack(some[i + 1])[6] <= now_ms then
      ended[#ended + 1] = some[i]
    end
  end
  call_list(ended, "HDEL", key)
end

-- Forgets hashes that have ended.
local function marker_expire(q, max)
  local old = call("ZRANGEBYSCORE", q.x .. "ef-end", "-inf", now_text, "LIMIT", "0", num(max))
  call_list(old, "ZREM", q.x .. "ef-end")
  call_list(old, "ZREM", q.x .. "ef")
end

local function marker_put(q, id, timestamp, step, m)
  local key, member = marker_key(q, id, timestamp), marker_member(id, timestamp)
  local packed = cmsgpack.pack({m.state, m.token, m.fingerprint, m.claimed, m.done, m.ends, m.kind, m.result})
  local is_new = call("HSET", key, step, packed) == 1
  local longer, has_others = live_until(key, m.ends)
  if is_new and has_others then
    marker_expire_steps(key)
  end
  if longer then
    call("ZADD", q.x .. "ef", "0", member)
    call("ZADD", q.x .. "ef-end", num(m.ends), member)
    live_until(q.x .. "ef", m.ends)
    live_until(q.x .. "ef-end", m.ends)
  end
  marker_expire(q, EXPIRE_MAX)
end

local function marker_unlist(q, id, timestamp)
  local member = marker_member(id, timestamp)
  call("ZREM", q.x .. "ef", member)
  call("ZREM", q.x .. "ef-end", member)
end

local function marker_drop(q, id, timestamp, step)
  local key = marker_key(q, id, timestamp)
  call("HDEL", key, step)
  if call("EXISTS", key) == 0 then
    marker_unlist(q, id, timestamp)
  end
end

local function marker_drop_job(q, id, timestamp)
  call("DEL", marker_key(q, id, timestamp))
  marker_unlist(q, id, timestamp)
end

local function markers_of_job(q, id, timestamp)
  if q.has_markers == nil then
    q.has_markers = call("EXISTS", q.x .. "ef") == 1
  end
  return q.has_markers and call("HGETALL", marker_key(q, id, timestamp)) or {}
end

-- What is known of the job's effects is so for at least as long again, at most EMQ__KNOWN_MAX_MS.
local function marker_prolong_job(q, id, timestamp)
  local flat = markers_of_job(q, id, timestamp)
  for i = 1, #flat, 2 do
    local m = marker_read(flat[i + 1])
    local ends = m and now_ms + math.min(34560000000, m.ends - math.max(m.claimed, m.done))
    if m and ends > m.ends then
      m.ends = ends
      marker_put(q, id, timestamp, flat[i], m)
    end
  end
end

-- Done, at least in part?
local function marker_has_done(m)
  return m.state == DONE or m.result ~= ""
end

-- Is any effect of the job known to be done, at least in part?
local function marker_any_done(q, id, timestamp)
  local flat = markers_of_job(q, id, timestamp)
  for i = 2, #flat, 2 do
    local m = marker_read(flat[i])
    if m and marker_has_done(m) then
      return true
    end
  end
  return false
end
