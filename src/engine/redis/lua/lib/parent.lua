-- A finished child and its parent, docs/protocol.md sections 5.0.10 to 5.0.14: all in the parent's
-- queue, which may be another one.
--@include lib/job.lua
--@include lib/sound.lua

-- The parent of a job with the fields parentKey and parent: its queue, id, key, and the object with
-- the policy of failures. nil: none.
local function parent_of(h)
  if not h.parentKey or h.parentKey == "" then
    return nil
  end
  local read, p = pcall(cjson.decode, h.parent or "")
  p = read and type(p) == "table" and p or {}
  local b, id = string.match(h.parentKey, "^(.*:)([^:]*)$")
  if p.queueKey and p.id then
    b, id = p.queueKey .. ":", p.id
  end
  if not b then
    return nil
  end
  return queue(b), id, b .. id, p
end

-- What may become of the parent of a job that ends: any of these is written to.
local function sound_parent(h)
  local q = parent_of(h)
  if q then
    sound(q, "waiting-children", "failed", "delayed", "wait", "prioritized", "pc")
  end
end

-- A parent that waited for its children goes on: delayed as it was asked for, else in front of the
-- waiting ones or into its priority. from: the key it leaves; false when it is not there.
local function release(q, id, key, from)
  if call("ZREM", q.b .. from, id) == 0 then
    return false
  end
  local h = try_record("HMGET", key, "priority", "delay")
  local delay = tonumber(h[2] or 0) or 0
  if delay > 0 then
    call("ZADD", q.b .. "delayed", (now_ms + delay) * 4096, id)
    event(q, "delayed", "jobId", id, "delay", num(now_ms + delay))
    q.delayed = true
  else
    local priority = tonumber(h[1] or 0) or 0
    place_line(q, id, priority, priority == 0)
    event(q, "waiting", "jobId", id, "prev", "waiting-children")
  end
  return true
end

local function release_if_no_children(q, id, key)
  if call("SCARD", key .. ":dependencies") == 0 and is_hash(key) then
    release(q, id, key, "waiting-children")
  end
end

-- The parent is to fail as soon as somebody takes it.
local function defer_failure(q, id, key, child)
  if not is_hash(key) then
    return
  end
  local waits = call("ZSCORE", q.b .. "waiting-children", id)
  if not waits and call("ZSCORE", q.b .. "delayed", id) then
    call("HSET", key, "delay", "0")
    waits = "delayed"
  elseif waits then
    waits = "waiting-children"
  elseif call("ZSCORE", q.b .. "failed", id) then
    return
  end
  call("HSET", key, "defa", "child " .. child .. " failed")
  if waits then
    release(q, id, key, waits)
  end
end

local function child_completed(child, h, value)
  local q, id, key = parent_of(h)
  if q and try_record("SREM", key .. ":dependencies", child) == 1 then
    try_record("HSET", key .. ":processed", child, value)
    release_if_no_children(q, id, key)
  end
end

local function child_failed(child, h, reason)
  local q, id, key, p = parent_of(h)
  if not q or not (p.fpof or p.cpof or p.idof or p.rdof) or
     try_record("SREM", key .. ":dependencies", child) ~= 1 then
    return
  end
  if p.fpof then
    try_record("ZADD", key .. ":unsuccessful", num(now_ms), child)
    defer_failure(q, id, key, child)
    return
  end
  if p.cpof or p.idof then
    try_record("HSET", key .. ":failed", child, reason)
  end
  if p.cpof then
    if is_hash(key) then
      release(q, id, key, "waiting-children")
    end
  else
    release_if_no_children(q, id, key)
  end
end

-- A child whose record ends: nobody waits for it any more.
local function child_removed(child, h)
  local q, id, key = parent_of(h)
  if q and try_record("SREM", key .. ":dependencies", child) == 1 then
    release_if_no_children(q, id, key)
  end
end
