-- add: stores jobs and puts them in their places, or stages them; all or none
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stage, "" = none; it belongs to the prefix of the first queue; a "+" before it: it has begun
-- ARGV[7]    number of queues
-- ARGV[8..]  their B and X, then per entry: id ("" = the counter), name, data (JSON), opts, a word, and
--            for each capital letter of the word an argument: Q number of the queue (1 when left out),
--            T timestamp, D delay, P priority, l lifo, G group, S scheduler, K parentKey, J parent,
--            E encoding of data that opts can't hold, U dedup id, W its window ms, x extend, r replace,
--            k keep the last
-- reply      {now_ms, {outcome, id, state, ...}, number of entries, -1 = the stage is gone}; instead of the list the first id when all
--            are new in `wait` with ids that follow each other
-- calls      12, 39, 309 for 1, 10, 100 jobs (9, and 3 a job; one more with free custom ids; no dedup)

--@include lib/base.lua
local function run()
--@include lib/receipt.lua
--@include lib/place.lua
--@include lib/rare.lua
local done = receipt_find(ARGV[4], ARGV[5], "add")
if done then
  return done
end
if queue(ARGV[8]).publishes then -- as many as a batch may have: who adds it again finds it whole
  rare().help_publish(queue(ARGV[8]), 1000)
end

-- A stage is a list: "b<when it began>", then "q<B>" before the jobs of a queue, then those, plain ones as
-- "-<length of the id> <id><name>", others as "+" with what their place depends on. Its jobs carry in
-- emq:stage "<when it began> <their rank in it> <key>", since another one of its name may follow it, and
-- another job of their id when they are obliterated.
local stage, began, ahead
if ARGV[6] ~= "" then
  local goes_on, name = string.match(ARGV[6], "^(%+?)(.*)$")
  stage = string.match(B, "^(.*):[^:]*:$") .. "::emq::stage:" .. name
  local born = call("LINDEX", stage, "0")
  if goes_on == "+" and not born then
    return {now_ms, "", -1}
  end
  began, ahead = born and string.sub(born, 2) or num(now_us), call("LLEN", stage)
end

-- By number of the entry: where it begins, its id and key. What is not plain is a job of read_job() besides.
local args, n = ARGV, 0
local starts, ids, keys, special = {}, {}, {}, {}
local records -- what the stage gets
local custom = false -- is there an id that is not the counter's?
local conflicts -- is one of the ids in use?

local function queue_of(i)
  return special[i] and special[i].q or queue(args[8])
end

-- What only entries with options, ids in use and stages need, made when it is wanted.
local OTHERS
local function others()
  if OTHERS then
    return OTHERS
  end
  local LETTERS = {T = "timestamp", D = "delay", P = "priority", G = "emq:group", S = "rjk", K = "parentKey",
                   J = "parent", E = "emq:enc", U = "deid", W = "ttl", l = "lifo", x = "extend", r = "replace",
                   k = "keep_last"}

  -- The entry at ARGV[at] as a job with its options. Also answers where the next one is.
  local function read_job(at)
    local j = {id = ARGV[at], name = ARGV[at + 1], data = ARGV[at + 2], opts = ARGV[at + 3], q = queue(ARGV[8])}
    local word = ARGV[at + 4]
    at = at + 5
    for letter in string.gmatch(word, ".") do
      if letter == "Q" then
        j.q = queue(ARGV[6 + 2 * tonumber(ARGV[at])])
        at = at + 1
      elseif letter < "a" then
        j[LETTERS[letter]] = ARGV[at]
        at = at + 1
      else
        j[LETTERS[letter]] = true
      end
    end
    j.timestamp = tonumber(j.timestamp or now_ms)
    j.delay = tonumber(j.delay or 0)
    j.priority = tonumber(j.priority or 0)
    j.parent_lives = j.parentKey and call("EXISTS", j.parentKey) == 1
    if j.deid then
      j.dedup = {id = j.deid, ttl = tonumber(j.ttl or 0), extend = j.extend, replace = j.replace,
                 keep_last = j.keep_last}
    end
    return j, at
  end

  -- What stands in the way of an id: nil when it is free now, else its state. Records past their age,
  -- jobs of stages that ended, and what is left of a job and stands nowhere are gone for add.
  local function in_the_way(q, id, key)
    local of, since = rare().stage_of(q, id)
    if of and (of == stage and since == began or rare().stage_lives(since, of)) then
      return 0
    elseif of then
      call("DEL", q.x .. "staged:" .. id)
    elseif stage and call("EXISTS", q.x .. "staged:" .. id) == 1 then
      return 0 -- something else's
    end
    if call("EXISTS", key) == 0 then
      return nil
    end
    local h = try_record("HMGET", key, "emq:exp", "finishedOn", "timestamp")
    local gone = {}
    if h.err then
      return 0
    elseif h[1] and h[2] and (tonumber(h[1]) or now_ms + 1) <= now_ms then
      call("ZREM", q.b .. "completed", id)
      call("ZREM", q.b .. "failed", id)
      count(q, "removed")
    else
      local state = rare().state_of(q, id)
      if h[3] or state ~= WAITING or call("LPOS", q.b .. "wait", id) or call("LPOS", q.b .. "active", id) then
        return state
      end
    end
    rare().job_keys(gone, q, id)
    call("DEL", unpack(gone))
    return nil
  end

  -- Finds an id of the counter that is free. For a custom one: what the entry's outcome is if it is not.
  local function avoid(i)
    local q = queue_of(i)
    while true do
      local state = in_the_way(q, ids[i], keys[i])
      if not state then
        return nil
      elseif args[starts[i]] ~= "" then
        if rare().exists(q) then
          event(q, "duplicated", "jobId", ids[i])
        end
        return DUPLICATE, ids[i], state
      end
      ids[i] = num(call("INCR", q.b .. "id"))
      keys[i] = q.b .. ids[i]
    end
  end

  local record_b
  records = {ahead == 0 and "b" .. began or nil}
  local function stage_job(q, j)
    if q.b ~= record_b then
      record_b = q.b
      records[#records + 1] = "q" .. q.b
    end
    q.staged = (q.staged or 0) + 1
    j["emq:stage"] = began .. " " .. num(ahead + #records) .. " " .. stage
    j.key = q.x .. "staged:" .. j.id
    rare().store(q, j)
    call("PEXPIRE", j.key, "604800000")
    if j.delay > 0 or j.priority > 0 or j.lifo or j.dedup or j.parentKey then
      records[#records + 1] = "+" .. cmsgpack.pack({j.id, j.name, j.timestamp, j.delay, j.priority, j.lifo or false,
                                                    j.dedup or false, j.parentKey or false})
    else
      records[#records + 1] = "-" .. #j.id .. " " .. j.id .. j.name
    end
    return OK, j.id, 0
  end

  local function add_special(j, id, key)
    local q = j.q
    j.id, j.key = id, key
    if stage then
      return stage_job(q, j)
    end
    if j.dedup then
      local owner, state = rare().dedup_admit(q, j)
      if owner then
        return DEDUPLICATED, owner, state
      end
    end
    rare().store(q, j)
    if j.parent_lives then
      call("SADD", j.parentKey .. ":dependencies", key)
    end
    count(q, "added")
    event(q, "added", "jobId", id, "name", j.name)
    if j.delay > 0 then
      place_delayed(q, id, j.timestamp + j.delay)
      return OK, id, DELAYED
    end
    place_line(q, id, j.priority, j.lifo)
    event(q, "waiting", "jobId", id)
    return OK, id, j.priority > 0 and PRIORITIZED or WAITING
  end

  -- Looks at what the jobs are about to be written to, see lib/sound.lua.
  local function look()
    local sound, owners, parents = rare().sound, {}, {}
    for i = 1, n do
      local q, j = queue_of(i), special[i]
      if conflicts or not stage and j and j.dedup then
        sound(q)
      elseif not stage and j and j.delay > 0 then
        sound(q, "delayed")
      elseif not stage and j and j.priority > 0 then
        sound(q, "prioritized", "pc")
      elseif not stage then
        sound(q, "wait")
      end
      if not stage and n > 1 and j and j.dedup then
        owners[#owners + 1] = q.b .. "de:" .. j.dedup.id
      end
      if not stage and j and j.parent_lives then
        parents[j.parentKey .. ":dependencies"] = true
      end
    end
    for i = 1, call_list(owners, "EXISTS") > 0 and #owners or 0 do
      call("GET", owners[i])
    end
    for key in pairs(parents) do
      call("SCARD", key)
    end
  end

  OTHERS = {read = read_job, avoid = avoid, add = add_special, look = look}
  return OTHERS
end

local function read_entries(at)
  while args[at] do
    n = n + 1
    starts[n], ids[n] = at, args[at]
    custom = custom or args[at] ~= ""
    if args[at + 4] == "" and not stage then
      at = at + 5
    else
      special[n], at = others().read(at)
    end
    local q = queue_of(n)
    q.adds = (q.adds or 0) + 1
  end
end

-- Is one of the ids in use, by a job or by a stage? One key more says whether there are stages at all; what an
-- ended one left is no matter but to another stage.
local function any_in_use()
  local all = n
  for _, q in pairs(queues) do
    all = all + 1
    keys[all] = q.x .. "stages"
  end
  local found = call_list(keys, "EXISTS") > 0
  for i = all, n + 1, -1 do
    keys[i] = nil
  end
  if not found and not stage then
    return false
  end
  local staged = {}
  for i = 1, n do
    staged[i] = queue_of(i).x .. "staged:" .. ids[i]
  end
  return call_list(keys, "EXISTS") + call_list(staged, "EXISTS") > 0
end

-- Each entry counts, whatever becomes of it. Answers whether one of the ids is in use.
local function give_ids()
  for _, q in pairs(queues) do
    q.last_id = call("INCRBY", q.b .. "id", num(q.adds)) - q.adds
  end
  for i = 1, n do
    local q = queue_of(i)
    local number = q.last_id + 1
    q.last_id = number
    if ids[i] == "" then
      ids[i] = num(number)
    end
    keys[i] = q.b .. ids[i]
  end
  return any_in_use()
end

-- The custom id that belongs to another stage which is not published: nobody knows whether that job will
-- ever be.
local function held()
  for i = 1, n do
    if args[starts[i]] ~= "" then
      local of, since = rare().stage_of(queue_of(i), ids[i])
      if of and not (of == stage and since == began) and call("LINDEX", of, "0") == "b" .. since then
        return ids[i]
      end
      call("HEXISTS", keys[i], "timestamp") -- a key of another type refuses all
      call("HEXISTS", queue_of(i).x .. "staged:" .. ids[i], "emq:stage")
    end
  end
end

-- Plain jobs with ids of the counter, the usual case: their ids follow each other.
local function add_plain(q)
  local b = q.b
  call_list(ids, "LPUSH", b .. "wait") -- first of all: it may refuse
  for i = 1, n do
    local at, id = starts[i], ids[i]
    local name = args[at + 1]
    call("HSET", keys[i], "name", name, "data", args[at + 2], "opts", args[at + 3], "timestamp", now_text,
         "delay", "0", "priority", "0")
    event(q, "added", "jobId", id, "name", name)
    event(q, "waiting", "jobId", id)
  end
  q.wake = true
  count(q, "added", n)
  return ids[1]
end

local function add_each()
  local out, seen = {}, {}
  for i = 1, n do
    local outcome, id, state
    if conflicts or seen[keys[i]] then
      outcome, id, state = others().avoid(i)
    end
    if not outcome then
      special[i] = special[i] or others().read(starts[i])
      outcome, id, state = others().add(special[i], ids[i], keys[i])
    end
    seen[keys[i]] = true
    out[3 * i - 2], out[3 * i - 1], out[3 * i] = outcome, id, state
  end
  return out
end

-- Everything that could be refused is read before the first write.
read_entries(8 + 2 * tonumber(ARGV[7]))
conflicts = give_ids()
local waits = conflicts and held()
if waits then
  for _, q in pairs(queues) do
    call("INCRBY", q.b .. "id", num(-q.adds))
  end
  return redis.error_reply("EMQHELD " .. waits) -- EMQ__TEXT_HELD_BY_STAGE
end
local plain = not (conflicts or custom or next(special))
if not plain then
  others().look()
end
local reply = {now_ms, plain and add_plain(queue(args[8])) or add_each(), n}
if stage then
  call_list(records, "RPUSH", stage)
  call("PEXPIRE", stage, "3600000")
  for _, q in pairs(queues) do
    if q.staged then
      call("HINCRBY", q.x .. "stages", began .. " " .. stage, num(q.staged))
      call("PEXPIRE", q.x .. "stages", "604800000")
    end
  end
end
save()
receipt_put(ARGV[4], ARGV[5], "add", reply)
return reply
end
return run()
