-- A stage that is being published, or dropped: a slice of it at a time. Once that has begun it goes on to its end:
-- whoever began it, or the next add, take, settlement or sweep of one of its queues, takes the next slice.
--
-- The list of a stage (see add.lua) gets the name "<stage>:<when it began>", and its first member becomes
-- "c<when it began> <jobs published> <jobs met> <how far ranks are ahead of the list>"; with a "d" all of it is
-- dropped. The hash X.."stages" of each queue has by "<when it began> <stage>" how many of its jobs are left.
-- Who published it is told of each job that did not come to be: the list has ":missed" behind it, and of each its
-- number among the jobs of the stage, from 0, the outcome, the state of what stands in its way, and whose id that is.
--@include lib/dedup.lua

local PUBLISH_SLICE = 1000

local function publish_special(q, j)
  if j.dedup and type(try_record("GET", q.b .. "de:" .. j.dedup.id)) ~= "table" then -- else nobody's
    for field, value in pairs(fields(call("HGETALL", q.b .. j.id))) do
      j[field] = j[field] or value
    end
    local owner, state = dedup_admit(q, j)
    if owner then
      local keys = {}
      job_keys(keys, q, j.id)
      call("DEL", unpack(keys))
      return DEDUPLICATED, state, owner
    end
  end
  if j.parent_key and call("EXISTS", j.parent_key) == 1 then
    try_record("SADD", j.parent_key .. ":dependencies", q.b .. j.id)
  end
  enter(q, j)
  return OK
end

-- Puts the job of a record in its place. tell: the stream has room for its events. Answers its outcome, and the
-- state and id of what stands in its way: somebody who knows of no stages gave its id to another, or dedup dropped
-- it. It is not found when it was obliterated; what has the id then is another job.
local function publish_record(q, record, mark, drop, tell)
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
    return drop and OK or NOT_FOUND, 0, ""
  elseif drop or call("RENAMENX", staged, key) == 0 then
    call("DEL", staged)
    if drop then
      return OK
    end
    event(q, "duplicated", "jobId", j.id)
    return DUPLICATE, is_hash(key) and state_of(q, j.id) or 0, j.id
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
  return OK
end

-- The queues of the records are looked at, see lib/sound.lua.
local function sound_records(records)
  for _, record in ipairs(records) do
    if string.sub(record, 1, 1) == "q" then
      sound(queue(string.sub(record, 2)))
    end
  end
end

-- Answers how many jobs have been published, whether that was the end, and how many there were; nil: there is no
-- such list. most: of records; publisher: or somebody who comes by?
local function publish_slice(pub, most, publisher)
  local how, born, published, met, ahead =
    string.match(call("LINDEX", pub, "0") or "", "^([cd])(%d+) (%d+) (%d+) (%d+)$")
  if not born then
    return nil
  end
  local stage = string.sub(pub, 1, -2 - #born)
  local field, n, total, q, left = born .. " " .. stage, tonumber(published), call("LLEN", pub) - 1, nil, {}
  local records, jobs, missed = call("LRANGE", pub, "1", num(most)), tonumber(met), {}
  if total == 0 then
    return n, true, jobs
  end
  if how == "c" then
    sound_records(records)
  end
  for i = 1, #records do
    if string.sub(records[i], 1, 1) == "q" then
      q = queue(string.sub(records[i], 2))
      left[q] = left[q] or tonumber(call("HGET", q.x .. "stages", field) or 0)
    else
      left[q] = left[q] - 1
      local outcome, state, id = publish_record(q, records[i], born .. " " .. num(tonumber(ahead) + i) .. " " .. stage,
                                                how == "d", left[q] < q.cap)
      if outcome == OK then
        n = n + 1
      else
        local m = #missed
        missed[m + 1], missed[m + 2], missed[m + 3], missed[m + 4] = num(jobs), num(outcome), num(state), id
      end
      jobs = jobs + 1
    end
  end
  local finished = total == #records
  call("LTRIM", pub, num(#records + 1), "-1")
  local next, rank = not finished and call("LINDEX", pub, "0"), tonumber(ahead) + #records
  if next and string.sub(next, 1, 1) ~= "q" then
    call("LPUSH", pub, "q" .. q.b)
    rank = rank - 1
  elseif next and how == "c" then -- who comes by there goes on, too
    try("HSETNX", string.sub(next, 2) .. "meta", "emq:pub", now_text)
  end
  call("LPUSH", pub, how .. born .. " " .. num(n) .. " " .. num(jobs) .. " " .. num(rank))
  call("PEXPIRE", pub, finished and "1200000" or "604800000")
  if jobs > n then
    call_list(missed, "RPUSH", pub .. ":missed")
    call("PEXPIRE", pub .. ":missed", finished and "1200000" or "604800000")
  end
  for of, jobs in pairs(left) do
    if finished or jobs <= 0 then
      call("HDEL", of.x .. "stages", field)
    else
      call("HSET", of.x .. "stages", field, num(jobs))
    end
    if finished and of.publishes and call("EXISTS", of.x .. "stages") == 0 then
      call("HDEL", of.b .. "meta", "emq:pub")
    end
    if how == "c" and not finished and jobs > 0 and (publisher or not of.publishes) then
      of.changed[#of.changed + 1] = "emq:pub"
      of.changed[#of.changed + 1] = now_text
    end
  end
  return n, finished, jobs
end

-- Goes on with a publication of the queue whose publisher may be gone. Answers whether there is more of it, or
-- another one, and whether one can't go on. stages: the fields of its X.."stages".
local function go_on_publishing(q, stages, most)
  local acted, more, blocked = false, false, false
  for _, field in ipairs(stages) do
    local born, stage = string.match(field, "^(%d+) (.*)$")
    local pub, could, n, finished = stage .. ":" .. born, true, nil, true
    if (tonumber(try_record("LLEN", pub)) or 0) > 1 then -- 1: it has ended
      if acted then
        finished = false
      else
        could, n, finished = where_sound(publish_slice, pub, most)
        blocked = blocked or not could -- one of its queues may have a key of something else
        acted, finished = could, finished or not n
      end
    end
    more = more or could and not finished
    if could and finished and call("LINDEX", stage, "0") ~= "b" .. born then
      call("HDEL", q.x .. "stages", field)
    end
  end
  if q.publishes and not (more or blocked) then
    call("HDEL", q.b .. "meta", "emq:pub")
  end
  return more, blocked
end

-- The same for an act that comes by, before it begins. Answers the queue as it is then.
local function help_publish(q, most)
  go_on_publishing(q, try_record("HKEYS", q.x .. "stages"), most)
  save()
  for b in pairs(queues) do
    queues[b] = nil
  end
  return queue(q.b)
end
