-- dump: one picture of a whole queue. Small queues only: it looks at every key of the store
-- KEYS[1]  the queue's meta key
-- reply    {now_ms, last fence, id counter, keys and entries that belong to no job, {lib/stats.lua},
--          {dedup id, owner, ms left or 0, 1 = has a next job, ...}, rows by state}
-- calls    5 a job, 1 a thousand keys
--@include lib/base.lua
--@include lib/read.lua
--@include lib/stats.lua

local out = {now_ms, queue(B).fence, tonumber(call("GET", B .. "id") or 0) or 0, 0, stats(B, -1), {}}
local seen, stray = {}, 0

for state = WAITING, FAILED do
  local ids, scores = ids_of(B, state, 0, 1000000, false)
  for i, id in ipairs(ids) do
    local job = read_job(B, id)
    if job then
      seen[id] = state
      out[#out + 1] = row(B, id, job, state, scores and scores[i])
    else
      stray = stray + 1
    end
  end
end

local SIDE = {lock = true, logs = true, dependencies = true, processed = true, failed = true,
              unsuccessful = true}
local OURS = {}
for name in string.gmatch("active wait waiting-children paused id delayed prioritized stalled-check " ..
                          "completed failed stalled repeat limiter meta events pc marker", "%S+") do
  OURS[name] = true
end

local function dedup(key, id)
  local owner, left = call("GET", key), call("PTTL", key)
  local list = out[6]
  list[#list + 1] = id
  list[#list + 1] = owner
  list[#list + 1] = math.max(left, 0)
  list[#list + 1] = call("EXISTS", B .. "dn:" .. id)
end

-- Does a key of the queue belong to nothing?
local function is_stray(key, rest)
  local id, side = string.match(rest, "^(.+):([^:]+)$")
  if OURS[rest] or seen[rest] then
    return false
  elseif string.sub(rest, 1, 3) == "de:" then
    dedup(key, string.sub(rest, 4))
    return false
  elseif string.sub(rest, 1, 3) == "dn:" then
    return call("EXISTS", B .. "de:" .. string.sub(rest, 4)) == 0
  elseif id and SIDE[side] then
    return seen[id] == nil or (side == "lock" and seen[id] ~= ACTIVE)
  elseif id then
    return false -- metrics, schedulers, or a longer prefix
  end
  return true
end

local function each_key(prefix, fn)
  local pattern = string.gsub(prefix, "[%*%?%[%]%^%\\%-]", "\\%0") .. "*"
  local cursor, met = "0", {}
  repeat
    local page = call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
    cursor = page[1]
    for _, key in ipairs(page[2]) do
      if not met[key] then -- a scan may show a key twice
        met[key] = true
        fn(key, string.sub(key, #prefix + 1))
      end
    end
  until cursor == "0"
end

each_key(B, function(key, rest)
  stray = stray + (is_stray(key, rest) and 1 or 0)
end)
each_key(X .. "hist:", function(key, id)
  stray = stray + (seen[id] and 0 or 1)
end)
out[4] = stray
return out
