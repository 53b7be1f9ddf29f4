-- publish: makes the jobs of a stage visible, in the order in which they were staged
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stage
-- reply      {now_ms, outcome, count}
-- calls      6, 3 a job, and 2 for each of the last jobs that the stream of events has room for

--@include lib/receipt.lua
--@include lib/dedup.lua
X = string.sub(B, 1, -2) .. "::emq::" -- the stages of a prefix belong to no queue
local done = receipt_find(ARGV[4], ARGV[5], "publish")
if done then
  return done
end
local stage = X .. "stage:" .. ARGV[6]

-- Calls fn(record, its rank) for each record of the stage behind its first; see add.lua.
local function each(fn)
  for from = 1, call("LLEN", stage) - 1, 5000 do
    for i, record in ipairs(call("LRANGE", stage, from, from + 4999)) do
      fn(record, from + i - 1)
    end
  end
end

local function publish_special(q, j, h)
  if j.dedup then
    for field, value in pairs(fields(call("HGETALL", q.b .. j.id))) do
      j[field] = j[field] or value
    end
    if dedup_admit(q, j) then
      local keys = {}
      job_keys(keys, q, j.id)
      call("DEL", unpack(keys))
      return 0
    end
  end
  if j.parent_key and call("EXISTS", j.parent_key) == 1 then
    call("SADD", j.parent_key .. ":dependencies", q.b .. j.id)
  end
  enter(q, j)
  return 1
end

local left, published, q = {}, 0, nil
each(function(record)
  if string.sub(record, 1, 1) == "q" then
    q = queue(string.sub(record, 2))
  else
    left[q] = (left[q] or 0) + 1
  end
end)

local born = string.sub(call("LINDEX", stage, "0") or "", 2)
local function publish(record, rank)
  local kind, j = string.sub(record, 1, 1), {}
  if kind == "q" then
    q = queue(string.sub(record, 2))
    return
  end
  if kind == "-" then
    local digits, rest = string.match(record, "^%-(%d+) (.*)$")
    j.id, j.name = string.sub(rest, 1, tonumber(digits)), string.sub(rest, tonumber(digits) + 1)
  else
    j.id, j.name, j.timestamp, j.delay, j.priority, j.lifo, j.dedup, j.parent_key = unpack(cmsgpack.unpack(string.sub(record, 2)))
  end
  left[q] = left[q] - 1
  if call("HGET", q.b .. j.id, "emq:stage") ~= born .. " " .. num(rank) .. " " .. stage then
    return -- obliterated meanwhile; what has the id now is another job
  end
  call("PERSIST", q.b .. j.id)
  call("HDEL", q.b .. j.id, "emq:stage")
  if kind == "+" then
    published = published + publish_special(q, j)
    return
  end
  published = published + 1
  count(q, "added")
  place_line(q, j.id, 0, false)
  if left[q] < q.cap then
    event(q, "added", "jobId", j.id, "name", j.name)
    event(q, "waiting", "jobId", j.id)
  end
end

local reply = {now_ms, NOT_FOUND, 0}
if call("EXISTS", stage) == 1 then
  each(publish)
  call("DEL", stage)
  save()
  reply = {now_ms, OK, published}
end
receipt_put(ARGV[4], ARGV[5], "publish", reply)
return reply
