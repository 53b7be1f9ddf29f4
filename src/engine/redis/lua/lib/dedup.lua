-- Producer dedup, docs/protocol.md section 5.2. A job's `dedup` has id, ttl, extend, replace,
-- keep_last. `de:<id>` names the owner; `dn:<id>` is the kept next job. What BullMQ reads from the
-- next job's opts is in its field emq:how too: "<delay> <priority> <lifo> <ttl> <keep_last>".
--@include lib/job.lua
--@include lib/sound.lua

-- Makes `id` the owner, with a fresh window if there is one.
local function dedup_own(q, d, id)
  if d.ttl > 0 and not d.keep_last then
    call("SET", q.b .. "de:" .. d.id, id, "PX", span(d.ttl))
  else
    call("SET", q.b .. "de:" .. d.id, id)
  end
end

local function deduplicated(q, job_id, d, other)
  event(q, "deduplicated", "jobId", job_id, "deduplicationId", d.id, "deduplicatedJobId", other)
end

-- The delayed owner makes room for `j`, which takes over what is left of the window.
local function dedup_replace(q, j, owner)
  local d, keys = j.dedup, {}
  call("ZREM", q.b .. "delayed", owner)
  job_keys(keys, q, owner)
  keys[#keys + 1] = q.b .. "dn:" .. d.id
  call("DEL", unpack(keys))
  count(q, "removed")
  event(q, "removed", "jobId", owner, "prev", "delayed")
  deduplicated(q, j.id, d, owner)
  if d.ttl > 0 and not d.extend and not d.keep_last then
    call("SET", q.b .. "de:" .. d.id, j.id, "KEEPTTL")
  else
    dedup_own(q, d, j.id)
  end
end

-- Keeps the whole job as what runs after its active owner.
local KEPT = {pk = "parentKey", pd = "parent", rjk = "rjk", ["emq:group"] = "emq:group", ["emq:enc"] = "emq:enc"}
local function dedup_keep(q, j)
  local key = q.b .. "dn:" .. j.dedup.id
  local f = {"name", j.name, "data", j.data, "opts", j.opts, "jid", j.id,
             "emq:how", num(j.delay) .. " " .. num(j.priority) .. " " .. (j.lifo and 1 or 0) .. " " ..
             num(j.dedup.ttl) .. " " .. (j.dedup.keep_last and 1 or 0)}
  for field, name in pairs(KEPT) do
    if j[name] then
      f[#f + 1] = field
      f[#f + 1] = j[name]
    end
  end
  if j.parentKey then
    f[#f + 1] = "pdk"
    f[#f + 1] = j.parentKey .. ":dependencies"
  end
  call("DEL", key)
  call("HSET", key, unpack(f))
  call("PERSIST", q.b .. "de:" .. j.dedup.id)
end

-- May the new job in? nil: yes, and it owns the id. Else the owner's id and its state, 0 = gone.
local function dedup_admit(q, j)
  local d = j.dedup
  local key = q.b .. "de:" .. d.id
  local owner, state = call("GET", key), 0
  if owner then
    if is_hash(q.b .. owner) then
      state = state_of(q, owner)
    end
    if state == 0 and call("PTTL", key) == -1 then -- stale: no record, no window
      call("DEL", q.b .. "dn:" .. d.id)
      owner = nil
    end
  end
  if not owner then
    dedup_own(q, d, j.id)
    return nil
  end
  if d.replace and state == DELAYED then
    dedup_replace(q, j, owner)
    return nil
  end
  count(q, "deduplicated")
  if d.keep_last and state == ACTIVE then
    dedup_keep(q, j)
  elseif d.replace then
    return owner, state
  elseif d.extend and not d.keep_last and d.ttl > 0 and call("EXISTS", q.b .. "dn:" .. d.id) == 0 then
    call("PEXPIRE", key, span(d.ttl))
  end
  deduplicated(q, owner, d, j.id)
  return owner, state
end

-- How a kept job goes on: ours says so beside its opts, BullMQ's in them.
local function kept_job(next, dedup_id)
  local j = {name = next.name, data = next.data, opts = next.opts, id = next.jid, parentKey = next.pk,
             parent = next.pd, rjk = next.rjk, deid = dedup_id, timestamp = now_ms,
             ["emq:group"] = next["emq:group"], ["emq:enc"] = next["emq:enc"]}
  local delay, priority, lifo, ttl, keep = string.match(next["emq:how"] or "", "^(%d+) (%d+) (%d) (%d+) (%d)$")
  if not delay then
    local read, o = pcall(cjson.decode, next.opts)
    o = read and type(o) == "table" and o or {}
    local de = type(o.de) == "table" and o.de or {}
    delay, priority, lifo = o.delay, o.priority, o.lifo == true and "1"
    ttl, keep = de.ttl, de.keepLastIfActive == true and "1"
  end
  j.delay, j.priority, j.lifo = tonumber(delay or 0) or 0, tonumber(priority or 0) or 0, lifo == "1"
  j.dedup = {id = dedup_id, ttl = tonumber(ttl or 0) or 0, keep_last = keep == "1"}
  return j
end

-- What a kept next job is written to when the owner of its id ends.
local function sound_dedup(q)
  sound(q, "id", "delayed", "wait", "prioritized", "pc")
end

local function in_use(q, id)
  local of, since = stage_of(q, id)
  return call("EXISTS", q.b .. id) == 1 or of and stage_lives(since, of)
end

-- The owner has finished for good: a kept next job takes the id over and comes into line, else an id
-- without a window is free. true: a job came into line.
local function dedup_end(q, id, dedup_id)
  local key, next_key = q.b .. "de:" .. dedup_id, q.b .. "dn:" .. dedup_id
  if try_record("GET", key) ~= id then
    return false
  end
  local next = fields(try_record("HGETALL", next_key))
  if not (next.name and next.data and next.opts) then -- a part of one stays, for fsck to tell
    if call("PTTL", key) == -1 then
      call("DEL", key)
    end
    return false
  end
  local j = kept_job(next, dedup_id)
  local counter = num(call("INCR", q.b .. "id"))
  if not j.id or in_use(q, j.id) then
    j.id = counter
  end
  dedup_own(q, j.dedup, j.id)
  store(q, j)
  if next.pdk then
    try_record("SADD", next.pdk, q.b .. j.id)
  end
  call("DEL", next_key)
  enter(q, j)
  return true
end
