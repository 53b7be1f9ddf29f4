-- mend: looks at one suspect again, and repairs it
-- KEYS[1]  the queue's meta key
-- ARGV[4]  its flaw
-- ARGV[5]  the job
-- ARGV[6]  its key: "at <place>", "key <what is behind B>", "staged", "event <id>", "type <key>", "queue <what>", "twice",
--          "nowhere", "counter <number>"
-- ARGV[7]  1 = repair
-- reply    {now_ms, 1 = it is broken, of its repair: 1 = there is more to do, 2 = it can't be done now}
-- calls    12, 9 more for a repair, and the search for the job in long lists
--@include lib/flaws.lua
--@include lib/stall.lua
--@include lib/active.lua
--@include lib/publish.lua

local flaw, id, word, rest = ARGV[4], ARGV[5], string.match(ARGV[6], "^(%S+) ?(.*)$")
local q, key = word ~= "type" and queue(B) or nil, B .. ARGV[5] -- meta itself may be of another type

local function rank_or_score(place)
  if LIST[place] then
    return call("LPOS", B .. place, id)
  end
  return tonumber(call("ZSCORE", B .. place, id) or nil)
end

-- Is it still so? And what the flaw is about.
local function look()
  if word == "at" then
    local there = rank_or_score(rest)
    if not there then
      return false
    end
    local is, about = flaw_at(rest, id, there)
    return is == flaw, about
  elseif word == "key" then
    local is, _, about = flaw_of_key(rest)
    local adds = flaw == "dedup-owner" or flaw == "dedup-next" -- only when the counter of ids is a number again
    return is == flaw and (not adds or is_count(call("GET", B .. "id") or "0")), about
  elseif word == "staged" then
    return flaw_of_staged(id) == flaw
  elseif word == "event" then
    local entry = call("XRANGE", B .. "events", rest, rest)[1]
    return entry and flaw_of_event(entry) == flaw
  elseif word == "type" then
    local is = call("TYPE", B .. rest).ok
    return is ~= "none" and is ~= KIND[rest]
  elseif word == "twice" then
    return #where(id) > 1
  elseif word == "nowhere" then
    local is, _, job = flaw_of_key(id)
    return not is and job == true and #where(id) == 0
  elseif word == "counter" then
    local text = call("GET", B .. "id") or "0"
    return not is_count(text) or tonumber(text) < (tonumber(rest) or 0)
  end
  local flaws = flaws_of_queue()
  for i = 1, #flaws, 3 do
    if flaws[i] == flaw and flaws[i + 1] == id and flaws[i + 2] == rest then
      return true
    end
  end
  return false
end

local function leave(place)
  if LIST[place] then
    call("LREM", B .. place, 0, id)
  else
    call("ZREM", B .. place, id)
  end
end

-- Into the place that the record speaks for.
local function put_back()
  local h = call("HMGET", key, "finishedOn", "failedReason", "returnvalue", "priority", "delay", "timestamp")
  local due = (tonumber(h[6] or 0) or 0) + (tonumber(h[5] or 0) or 0)
  local priority = tonumber(h[4] or 0) or 0
  if h[1] then -- an end that is no time is corrected behind this
    call("ZADD", B .. (h[2] and not h[3] and "failed" or "completed"), num(tonumber(h[1]) or now_ms), id)
  elseif call("EXISTS", key .. ":lock") == 1 then
    call("LPUSH", B .. "active", id)
  elseif children(key) ~= 0 then
    call("ZADD", B .. "waiting-children", now_text, id)
  elseif due > now_ms then
    place_delayed(q, id, due)
  else
    place_line(q, id, priority, false)
    event(q, "waiting", "jobId", id)
  end
end

-- It stays where its lock or its end says, else where it will run from.
local function keep_one()
  local at, has = where(id), {}
  for _, place in ipairs(at) do
    has[place] = true
  end
  local keep
  if has.active and call("EXISTS", key .. ":lock") == 1 then
    keep = "active"
  elseif call("HEXISTS", key, "finishedOn") == 1 then
    keep = has.completed and "completed" or has.failed and "failed"
  elseif has["waiting-children"] and children(key) > 0 then
    keep = "waiting-children"
  end
  for _, place in ipairs({"wait", "paused", "prioritized", "delayed", "waiting-children", "active", "completed",
                          "failed"}) do
    keep = keep or has[place] and place
  end
  local n = 0
  for _, place in ipairs(at) do
    if place ~= keep then
      leave(place)
    else
      n = n + 1
    end
  end
  if n > 1 then
    call("LREM", B .. keep, n - 1, id) -- from the head: the one whose turn comes first stays
  end
end

local function rescore_priority()
  local score, priority = tonumber(call("ZSCORE", B .. "prioritized", id)), tonumber(call("HGET", key, "priority") or 0) or 0
  if priority >= 1 then
    call("ZADD", B .. "prioritized", num(priority * PRIORITY + score % PRIORITY), id)
  elseif score >= PRIORITY then
    call("HSET", key, "priority", num(floor(score / PRIORITY)))
  else
    call("ZREM", B .. "prioritized", id)
    place_line(q, id, 0, false)
  end
end

local function correct_due()
  local due = tonumber(call("ZSCORE", B .. "delayed", id))
  if due < 1e12 or due >= 1e13 then -- not a time in ms
    local h = call("HMGET", key, "timestamp", "delay")
    due = (tonumber(h[1]) or now_ms) + (tonumber(h[2] or 0) or 0)
  end
  call("ZADD", B .. "delayed", num(due * 4096), id)
end

local function correct_end()
  if call("HEXISTS", key, "finishedOn") == 0 and #where(id) > 1 then
    return keep_one() -- it may not have ended at all
  end
  local at, score = call("HGET", key, "finishedOn"), tonumber(call("ZSCORE", B .. rest, id))
  if at and tonumber(at) then
    call("ZADD", B .. rest, num(tonumber(at)), id)
  else
    call("HSET", key, "finishedOn", num(floor(score)))
  end
end

-- The last place that was given to a prioritized job: the greatest of those of each priority.
local function last_order()
  local last, below = 0, "+inf"
  while true do
    local head = call("ZREVRANGEBYSCORE", B .. "prioritized", below, "-inf", "WITHSCORES", "LIMIT", "0", "1")
    local score = tonumber(head[2])
    if not score then
      return num(last)
    end
    last, below = math.max(last, score % PRIORITY), "(" .. num(floor(score / PRIORITY) * PRIORITY)
  end
end

local function take_back()
  local v = call("HMGET", key, "processedOn", "emq:tk", "emq:cancel", "priority", "stc", "deid", "parentKey", "parent",
                 "rjk", "defa")
  local h = {["emq:cancel"] = v[3] or nil, priority = v[4], stc = v[5], deid = v[6] or nil, parentKey = v[7] or nil,
             parent = v[8] or nil, rjk = v[9] or nil, defa = v[10] or nil}
  h.token, h.mode = last_token(v[2], v[1])
  leave_active(q, {id})
  call("SREM", B .. "stalled", id)
  stall(q, id, h, {max = 1e9, reason = ""})
  finish_flush(q)
end

local function default_fields()
  call("HSETNX", key, "name", "__default__")
  call("HSETNX", key, "opts", "{}")
  call("HSETNX", key, "timestamp", now_text)
end

local function add_kept(about)
  if call("EXISTS", B .. "de:" .. about) == 0 then
    call("SET", B .. "de:" .. about, "?")
  end
  dedup_end(q, call("GET", B .. "de:" .. about), about)
end

-- The parent waits no more for any child that is gone or has ended.
local function leave_children()
  local is, child = vain_child(key)
  while is do
    local h = try_record("HMGET", child, "returnvalue", "failedReason", "parent")
    local p = policy(h[3])
    p.queueKey, p.id = string.sub(B, 1, -2), id
    local this = {parentKey = key, parent = cjson.encode(p)}
    if is == "child" then
      call("SREM", key .. ":dependencies", child)
    elseif is == "child-twice" then
      call("HDEL", key .. ":processed", child)
      call("HDEL", key .. ":failed", child)
      call("ZREM", key .. ":unsuccessful", child)
    elseif h[1] then
      child_completed(child, this, h[1])
    else
      child_failed(child, this, h[2] or "")
    end
    is, child = vain_child(key)
  end
  release_if_no_children(q, id, key)
end

local function drop_record()
  local keys = {}
  job_keys(keys, q, id)
  call("DEL", unpack(keys))
end

local left = 0
local REPAIR = {
  ghost = function()
    leave(rest)
    drop_record()
  end,
  record = default_fields,
  unfinished = function() call("HDEL", key, "finishedOn") end,
  due = correct_due,
  priority = rescore_priority,
  finished = correct_end,
  result = function()
    local value = call("HGET", key, "returnvalue")
    call("HSET", key, "returnvalue", value and cjson.encode(value) or "null")
  end,
  reason = function() call("HSET", key, "failedReason", "unknown: the reason was lost") end,
  deferred = function() call("HDEL", key, "defa") end,
  lock = function() call("PEXPIRE", key .. ":lock", 30000) end,
  fence = function()
    local tk = call("HGET", key, "emq:tk")
    call("HSET", B .. "meta", "emq:fence", string.match(tk, ":(%d+)$"))
  end,
  stalled = take_back,
  parent = function() release(q, id, key, "waiting-children") end,
  child = leave_children,
  ["child-ended"] = leave_children,
  ["child-twice"] = leave_children,
  unlinked = function(dependencies) call("SADD", dependencies, key) end,
  twice = keep_one,
  nowhere = put_back,
  staged = function() call("DEL", X .. "staged:" .. id) end,
  debris = drop_record,
  leftover = function() call("DEL", B .. rest) end,
  ["lock-left"] = function() call("DEL", key .. ":lock") end,
  ["dedup-owner"] = add_kept,
  ["dedup-next"] = add_kept,
  ["kept-record"] = function(about)
    call("HSETNX", B .. "dn:" .. about, "name", "__default__")
    call("HSETNX", B .. "dn:" .. about, "opts", "{}")
  end,
  limiter = function() call("DEL", B .. "limiter") end,
  sweeps = function() call("DEL", B .. "stalled-check") end,
  number = function(field) call("HSET", key, field, field == "timestamp" and now_text or "0") end,
  marker = function()
    q.wake, q.delayed = true, true
  end,
  iterations = function(sid) call("HSET", B .. "repeat:" .. sid, "ic", "1") end,
  order = function() call("SET", B .. "pc", last_order()) end,
  publication = function()
    local more, blocked = go_on_publishing(q, call("HKEYS", X .. "stages"), PUBLISH_SLICE)
    left = blocked and 2 or more and 1 or 0
  end,
  mark = function() call("SREM", B .. "stalled", id) end,
  meta = function() call("HSET", B .. "meta", "opts.maxLenEvents", "10000") end,
  counter = function() call("SET", B .. "id", rest) end,
  event = function() call("XDEL", B .. "events", rest) end,
}

local broken, about = look()
if broken and ARGV[7] == "1" and REPAIR[flaw] then
  sound(q, "stalled", unpack(PLACES)) -- a key that became something else's since the walk began
  REPAIR[flaw](about)
  save()
end
return {now_ms, broken and 1 or 0, left}
