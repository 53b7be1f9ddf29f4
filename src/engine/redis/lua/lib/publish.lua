-- A stage that is being published: a slice of it at a time. Once it has begun it goes on to its end: whoever
-- began it, or the next sweep of one of its queues, takes the next slice.
--
-- The list of a stage (see add.lua) gets the name "<stage>:<when it began>", and its first member becomes
-- "c<when it began> <jobs published> <how far ranks are ahead of the list>". The hash X.."stages" of each
-- queue has by "<when it began> <stage>" how many of its jobs are left.
--@include lib/dedup.lua

local PUBLISH_SLICE = 1000

local function publish_special(q, j)
  if j.dedup and type(try_record("GET", q.b .. "de:" .. j.dedup.id)) ~= "table" then -- else nobody's
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
    try_record("SADD", j.parent_key .. ":dependencies", q.b .. j.id)
  end
  enter(q, j)
  return 1
end

-- Puts the job of a record in its place. tell: the stream has room for its events. Answers 1, or 0 when it
-- is not there any more: obliterated (what has the id then is another job), its id given to another by somebody
-- who knows of no stages, or dropped by dedup.
local function publish_record(q, record, mark, tell)
  local j = {}
  if string.sub(record, 1, 1) == "-" then
    local digits, rest = string.match(record, "^%-(%d+) (.*)$")
    j.id, j.name = string.sub(rest, 1, tonumber(digits)), string.sub(rest, tonumber(digits) + 1)
  else
    j.id, j.name, j.timestamp, j.delay, j.priority, j.lifo, j.dedup, j.parent_key =
      unpack(cmsgpack.unpack(string.sub(record, 2)))
  end
  local key, staged = q.b .. j.id, q.x .. "staged:" .. j.id
  if try_record("HGET", staged, "emq:stage") ~= mark then
    return 0
  elseif call("RENAMENX", staged, key) == 0 then
    call("DEL", staged)
    event(q, "duplicated", "jobId", j.id)
    return 0
  end
  call("PERSIST", key)
  call("HDEL", key, "emq:stage")
  if j.delay then
    return publish_special(q, j)
  end
  count(q, "added")
  place_line(q, j.id, 0, false)
  if tell then
    event(q, "added", "jobId", j.id, "name", j.name)
    event(q, "waiting", "jobId", j.id)
  end
  return 1
end

-- Answers how many jobs have been published, and whether that was the end; nil: there is no such list.
local function publish_slice(pub)
  local born, published, ahead = string.match(call("LINDEX", pub, "0") or "", "^c(%d+) (%d+) (%d+)$")
  if not born then
    return nil
  end
  local stage = string.sub(pub, 1, -2 - #born)
  local field, n, total, q, left = born .. " " .. stage, tonumber(published), call("LLEN", pub) - 1, nil, {}
  local records = call("LRANGE", pub, "1", num(PUBLISH_SLICE))
  if total == 0 then
    return n, true
  end
  for i = 1, #records do
    if string.sub(records[i], 1, 1) == "q" then
      q = queue(string.sub(records[i], 2))
      left[q] = left[q] or tonumber(call("HGET", q.x .. "stages", field) or 0)
      sound(q)
    end
  end
  for i = 1, #records do
    if string.sub(records[i], 1, 1) == "q" then
      q = queue(string.sub(records[i], 2))
    else
      left[q] = left[q] - 1
      n = n + publish_record(q, records[i], born .. " " .. num(tonumber(ahead) + i) .. " " .. stage, left[q] < q.cap)
    end
  end
  local finished = total == #records
  call("LTRIM", pub, num(#records + 1), "-1")
  if not finished then
    call("LPUSH", pub, "q" .. q.b)
  end
  call("LPUSH", pub, "c" .. born .. " " .. num(n) .. " " .. num(tonumber(ahead) + #records - 1))
  call("PEXPIRE", pub, finished and "1200000" or "86400000")
  for of, jobs in pairs(left) do
    if finished or jobs <= 0 then
      call("HDEL", of.x .. "stages", field)
    else
      call("HSET", of.x .. "stages", field, num(jobs))
    end
  end
  return n, finished
end
