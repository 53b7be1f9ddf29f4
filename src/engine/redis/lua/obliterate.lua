-- obliterate: one slice of the end of a queue: its jobs in every state, then what is left of it
-- KEYS[1]  the queue's meta key
-- ARGV[4]  session
-- ARGV[5]  sequence
-- ARGV[6]  1 = also a queue that is not paused or has active jobs
-- ARGV[7]  how many jobs
-- ARGV[8]  and where the last slice ended, as answered: slices
-- ARGV[9]  count
-- ARGV[10] cursor
-- reply    {now_ms, slices, count, cursor of the search for what is left or "", 1 = the queue is gone,
--          outcome}
-- calls    11, and 10 a job, 2 for a thousand keys
--@include lib/keys.lua
--@include lib/remove.lua
--@include lib/marker.lua
--@include lib/receipt.lua

local session, seq, force, limit = ARGV[4], ARGV[5], ARGV[6] == "1", tonumber(ARGV[7])
local slices_done, removed, cursor = tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local JOBS_MAX, KEYS_MAX = 100, 2000
local q = queue(B)

-- Parents first: children that are removed before them would take them along uncounted.
local STATES = {"waiting-children", "wait", "paused", "active", "delayed", "prioritized", "completed",
                "failed"}
local LIST = {wait = true, paused = true, active = true}
local SIDE = {lock = "string", logs = "list", dependencies = "set", processed = "hash", failed = "hash",
              unsuccessful = "zset"}

local function is_record(key)
  return type(try_record("HGET", key, "timestamp")) == "string"
end

local function any_left()
  for _, name in ipairs(STATES) do
    if call("EXISTS", B .. name) == 1 then
      return true
    end
  end
  return false
end

-- The first ids of a structure, taken out of it.
local function cut(name, n)
  local key = B .. name
  local ids = LIST[name] and call("LRANGE", key, -n, -1) or call("ZRANGE", key, 0, n - 1)
  for _, id in ipairs(ids) do
    sound_above(q, B .. id)
  end
  if LIST[name] then
    call("LTRIM", key, 0, -n - 1)
  else
    call("ZREMRANGEBYRANK", key, 0, n - 1)
  end
  return ids
end

local function remove_jobs()
  local most = math.min(limit - removed, JOBS_MAX)
  local room = most
  for _, name in ipairs(STATES) do
    while room > 0 and call("EXISTS", B .. name) == 1 do
      local could, ids = where_sound(cut, name, room)
      if not could and room < most then
        return -- the next slice says why
      elseif not could then
        error(ids, 0)
      end
      for _, id in ipairs(ids) do
        if is_record(B .. id) then
          local h = family(B .. id)
          take_parent_along(q, B .. id, h)
          delete_keys(q, id, h.deid)
          removed, room = removed + 1, room - 1
        end
      end
    end
  end
end

-- Does a key below B belong to the queue? A longer prefix may begin with B, too.
local function is_ours(key, rest)
  local id, side = string.match(rest, "^(.+):([^:]+)$")
  local head = string.match(rest, "^([^:]+):")
  if not id then
    return is_record(key)
  elseif head == "repeat" or head == "metrics" then
    return true
  elseif head == "de" then
    return call("TYPE", key).ok == "string" and call("EXISTS", B .. "de:meta", B .. "de:wait") == 0
  elseif head == "dn" then
    return call("TYPE", key).ok == "hash" and call("HEXISTS", key, "jid") == 1
  end
  return not string.find(id, ":", 1, true) and SIDE[side] == call("TYPE", key).ok
end

-- Keys that no list names: dedup ids whose window goes on, schedulers, staged and orphaned records.
local function remove_rest()
  local pattern, looked = keys_pattern(), 0
  if cursor == "" then
    cursor = "0"
  end
  repeat
    local page, gone = call("SCAN", cursor, "MATCH", pattern, "COUNT", 500), {}
    cursor, looked = page[1], looked + 500
    for _, key in ipairs(page[2]) do
      looked = looked + 10
      if staged_id(key) or string.sub(key, 1, #B) == B and is_ours(key, string.sub(key, #B + 1)) then
        gone[#gone + 1] = key
      end
    end
    call_list(gone, "DEL")
  until cursor == "0" or looked >= KEYS_MAX
  return cursor == "0"
end

-- At most KEYS_MAX at a time; true: that was all.
local function remove_markers()
  for _ = 1, KEYS_MAX, 500 do
    local members, keys = call("ZRANGE", X .. "ef", "0", "499"), {}
    if #members == 0 then
      call("DEL", X .. "ef-end")
      return true
    end
    for i, member in ipairs(members) do
      keys[i] = marker_key(q, string.match(member, "^(.*)%z(%d+)$"))
    end
    call_list(keys, "DEL")
    call("ZREMRANGEBYRANK", X .. "ef", "0", "499")
  end
  return false
end

local function remove_queue()
  for _, name in ipairs({"meta", "events", "id", "pc", "marker", "stalled", "stalled-check", "limiter",
                         "repeat", "delay", "metrics:completed", "metrics:failed",
                         "metrics:completed:data", "metrics:failed:data"}) do
    call("UNLINK", B .. name)
  end
  queues[B] = nil -- nothing of it is to be written any more
end

local function refusal()
  if not force and not q.paused then
    return WRONG_STATE
  elseif not force and call("EXISTS", B .. "active") == 1 then
    return LOCKED
  end
  return OK
end

local stored = receipt_find(session, seq, "obliterate")
if stored and (stored.err or stored[2] > slices_done) then
  return stored
end
if call("EXISTS", KEYS[1]) == 0 and not any_left() and not (force and call("EXISTS", X .. "stages") == 1) then
  return {now_ms, 0, 0, "", 1, OK}
end
local outcome, gone = refusal(), false
if outcome ~= OK then
  return {now_ms, 0, 0, "", 0, outcome}
end
sound(q)
if not q.paused then -- while it goes on nobody takes its jobs
  call("HSET", KEYS[1], "paused", "1")
  call("DEL", B .. "marker")
  q.paused = true
end
remove_jobs()
if not any_left() then
  gone = remove_markers() and remove_rest()
  if gone then
    remove_queue()
  end
end
save()
local out = {now_ms, slices_done + 1, removed, gone and "" or cursor, gone and 1 or 0, OK}
receipt_put(session, seq, "obliterate", out)
return out
