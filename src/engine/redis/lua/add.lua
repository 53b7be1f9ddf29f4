-- add: stores jobs and puts them in their places, or stages them; all or none
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stage, "" = none; it belongs to the prefix of the first queue
-- ARGV[7]    number of queues
-- ARGV[8..]  their B and X, then per entry: id ("" = the counter), name, data (JSON), opts, a word, and
--            for each capital letter of the word an argument: Q number of the queue (1 when left out),
--            T timestamp, D delay, P priority, l lifo, G group, S scheduler, K parentKey, J parent,
--            E encoding of data that opts can't hold, U dedup id, W its window ms, x extend, r replace,
--            k keep the last
-- reply      {now_ms, {outcome, id, state, ...}}
-- calls      8, and 3 a job (auto id or free custom id, no dedup)

--@include lib/receipt.lua
--@include lib/dedup.lua
local done = receipt_find(ARGV[4], ARGV[5], "add")
if done then
  return done
end

local LETTERS = {T = "timestamp", D = "delay", P = "priority", G = "emq:group", S = "rjk", K = "parentKey",
                 J = "parent", E = "emq:enc", U = "deid", W = "ttl", l = "lifo", x = "extend", r = "replace",
                 k = "keep_last"}

-- A stage is a list: "b<when it began>", then "q<B>" before the jobs of a queue, then those, plain ones as
-- "-<length of the id> <id><name>", others as "+" with what their place depends on. Its jobs carry its
-- mark: "<when it began> <key>", since another one of its name may follow it.
local stage, mark, born
if ARGV[6] ~= "" then
  stage = string.match(B, "^(.*):[^:]*:$") .. "::emq::stage:" .. ARGV[6]
  born = call("LINDEX", stage, 0)
  mark = (born and string.sub(born, 2) or num(now_us)) .. " " .. stage
end

local function read_job(at)
  local j = {id = ARGV[at], name = ARGV[at + 1], data = ARGV[at + 2], opts = ARGV[at + 3]}
  local number = 1
  local word = ARGV[at + 4]
  at = at + 5
  for letter in string.gmatch(word, ".") do
    if letter == "Q" then
      number = tonumber(ARGV[at])
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
  j["emq:stage"] = mark
  if j.deid then
    j.dedup = {id = j.deid, ttl = tonumber(j.ttl or 0), extend = j.extend, replace = j.replace,
               keep_last = j.keep_last}
  end
  return at, j, number
end

-- Everything that could be refused is looked at before the first write.
local jobs, by_queue = {}, {}
local at = 8 + 2 * tonumber(ARGV[7])
while ARGV[at] do
  local j, number
  at, j, number = read_job(at)
  local q = queue(ARGV[6 + 2 * number])
  j.q = q
  j.parent_lives = j.parentKey and call("EXISTS", j.parentKey) == 1
  if not by_queue[q] then
    by_queue[q] = 0
    call("LLEN", q.b .. "wait")
    call("ZCARD", q.b .. "delayed")
    call("ZCARD", q.b .. "prioritized")
  end
  by_queue[q] = by_queue[q] + 1
  jobs[#jobs + 1] = j
end
for q, n in pairs(by_queue) do
  by_queue[q] = call("INCRBY", q.b .. "id", n) - n
end

local keys = {}
for i, j in ipairs(jobs) do
  local q = j.q
  by_queue[q] = by_queue[q] + 1
  if j.id == "" then
    j.id, j.auto = num(by_queue[q]), true
  end
  keys[i] = q.b .. j.id
end
local conflicts = call_list(keys, "EXISTS") > 0

-- What stands in the way of an id: nil when it is free now, else its state. Records past their age and
-- jobs of stages that ended are gone for add.
local function in_the_way(q, id, key)
  if call("EXISTS", key) == 0 then
    return nil
  end
  local h = call("HMGET", key, "emq:stage", "emq:exp", "finishedOn")
  local gone = {}
  if h[1] then
    local born, of = string.match(h[1], "^(%d+) (.*)$")
    if h[1] == mark or call("LINDEX", of, 0) == "b" .. born then
      return 0
    end
  elseif h[2] and h[3] and tonumber(h[2]) <= now_ms then
    call("ZREM", q.b .. "completed", id)
    call("ZREM", q.b .. "failed", id)
    count(q, "removed")
  else
    return state_of(q, id)
  end
  job_keys(gone, q, id)
  call("DEL", unpack(gone))
  return nil
end

local records, record_b = {born == false and "b" .. num(now_us) or nil}, nil
local function stage_job(q, j)
  store(q, j)
  call("PEXPIRE", q.b .. j.id, 86400000)
  if q.b ~= record_b then
    record_b = q.b
    records[#records + 1] = "q" .. q.b
  end
  if j.delay > 0 or j.priority > 0 or j.lifo or j.dedup or j.parentKey then
    records[#records + 1] = "+" .. cmsgpack.pack({j.id, j.name, j.timestamp, j.delay, j.priority, j.lifo or false,
                                                  j.dedup or false, j.parentKey or false})
  else
    records[#records + 1] = "-" .. #j.id .. " " .. j.id .. j.name
  end
end

local seen = {}
local function add(j)
  local q, key = j.q, j.q.b .. j.id
  while conflicts or seen[key] do
    local state = in_the_way(q, j.id, key)
    if not state then
      break
    elseif not j.auto then
      if q.exists then
        event(q, "duplicated", "jobId", j.id)
      end
      return DUPLICATE, j.id, state
    end
    j.id = num(call("INCR", q.b .. "id"))
    key = q.b .. j.id
  end
  seen[key] = true
  if stage then
    stage_job(q, j)
    return OK, j.id, 0
  end
  if j.dedup then
    local owner, state = dedup_admit(q, j)
    if owner then
      return DEDUPLICATED, owner, state
    end
  end
  store(q, j)
  if j.parent_lives then
    call("SADD", j.parentKey .. ":dependencies", key)
  end
  enter(q, j)
  q.exists = true
  return OK, j.id, j.delay > 0 and DELAYED or j.priority > 0 and PRIORITIZED or WAITING
end

local out = {}
for i, j in ipairs(jobs) do
  out[3 * i - 2], out[3 * i - 1], out[3 * i] = add(j)
end
if stage then
  call_list(records, "RPUSH", stage)
  call("PEXPIRE", stage, 3600000)
end
save()
local reply = {now_ms, out}
receipt_put(ARGV[4], ARGV[5], "add", reply)
return reply
