-- What readers share: which state a job is in, and its hash with what is known beside.
--@include lib/others.lua

-- A job, else nil: its flat hash, the bytes of its values, and what they say about where it is. What has no
-- timestamp is no job, but meta, a scheduler, or what somebody wrote into a record that was gone.
local TELLS = {timestamp = true, finishedOn = true, processedOn = true, priority = true, rjk = true}
local function read_job(b, id)
  local hash = try_record("HGETALL", b .. id)
  local job = {hash = hash, bytes = 0}
  if hash.err then
    return nil
  end
  for i = 1, #hash, 2 do
    local field, value = hash[i], hash[i + 1]
    job.bytes = job.bytes + #value
    if TELLS[field] then
      job[field] = value
    end
  end
  return job.timestamp and job or nil
end

local function place_in(b, id, states)
  for _, state in ipairs(states) do
    local score = call("ZSCORE", b .. STATE_NAME[state], id)
    if score then
      return state, tonumber(score)
    end
  end
end

-- Where a job is: its state and its score there; 0: nowhere. Looked for first where its record says.
-- `steps` bounds the search through a list; a job of a longer one that is nowhere else is taken to be there.
local function where_is(b, id, job, steps)
  if job.finishedOn then
    local state = place_in(b, id, {COMPLETED, FAILED})
    if state then
      return state
    end
  end
  local state, score = place_in(b, id, job.priority == "0" and {DELAYED} or {PRIORITIZED, DELAYED})
  if state then
    return state, score
  elseif job.processedOn and (call("EXISTS", b .. id .. ":lock") == 1 or call("LPOS", b .. "active", id)) then
    return ACTIVE
  end
  for _, list in ipairs({"wait", "paused"}) do
    local n = call("LLEN", b .. list)
    if n > 0 and n <= steps and call("LPOS", b .. list, id, "RANK", -1) then
      return WAITING
    elseif n > steps then
      return place_in(b, id, {WAITING_CHILDREN}) or WAITING
    end
  end
  state, score = place_in(b, id, {WAITING_CHILDREN, COMPLETED, FAILED, DELAYED, PRIORITIZED})
  if state then
    return state, score
  end
  return call("LPOS", b .. "active", id) and ACTIVE or 0
end

-- What the engine makes a job of: {hash, id, state, due ms, ms left of the lock, token of the lock, 1 = the next run
-- of a scheduler}.
local function row(b, id, job, state, score)
  local left, token = 0, ""
  if state == ACTIVE then
    token = try_record("GET", b .. id .. ":lock")
    token = type(token) == "string" and token or ""
    left = token ~= "" and call("PTTL", b .. id .. ":lock") or 0
  end
  return {job.hash, id, state, state == DELAYED and floor(score / 4096) or 0, left, token,
          is_pending_iteration(b, id, job.rjk) and 1 or 0}
end

-- The ids of a state from a rank on, at most n, oldest first or newest first, and their scores.
local function ids_of_set(key, from, n, newest)
  local flat = call(newest and "ZREVRANGE" or "ZRANGE", key, from, from + n - 1, "WITHSCORES")
  local ids, scores = {}, {}
  for i = 1, #flat, 2 do
    ids[#ids + 1] = flat[i]
    scores[#scores + 1] = tonumber(flat[i + 1])
  end
  return ids, scores
end

-- Lists grow at the head: the oldest is the last one.
local function ids_of_list(key, from, n, newest)
  if newest then
    return call("LRANGE", key, from, from + n - 1)
  end
  local back, ids = call("LRANGE", key, -from - n, -from - 1), {}
  for i = #back, 1, -1 do
    ids[#ids + 1] = back[i]
  end
  return ids
end

local function ids_of(b, state, from, n, newest)
  if state == ACTIVE then
    return ids_of_list(b .. "active", from, n, newest)
  elseif state ~= WAITING then
    return ids_of_set(b .. STATE_NAME[state], from, n, newest)
  end
  local ids = ids_of_list(b .. "wait", from, n, newest)
  if #ids < n and call("EXISTS", b .. "paused") == 1 then -- of BullMQ 5
    local before = call("LLEN", b .. "wait")
    for _, id in ipairs(ids_of_list(b .. "paused", math.max(from - before, 0), n - #ids, newest)) do
      ids[#ids + 1] = id
    end
  end
  return ids
end

-- The rank of a job in its state; nil when it is not there. Linear in a list.
local function rank_in_list(key, id, newest)
  local at = call("LPOS", key, id, "RANK", newest and 1 or -1)
  return at and (newest and at or call("LLEN", key) - 1 - at) or nil
end

local function rank_of(b, state, id, newest)
  if state == ACTIVE then
    return rank_in_list(b .. "active", id, newest)
  elseif state ~= WAITING then
    return call(newest and "ZREVRANK" or "ZRANK", b .. STATE_NAME[state], id) or nil
  end
  local at = rank_in_list(b .. "wait", id, newest)
  if not at and call("EXISTS", b .. "paused") == 1 then
    at = rank_in_list(b .. "paused", id, newest)
    at = at and at + call("LLEN", b .. "wait")
  end
  return at
end

-- The same for a job that stood at the rank `guess` not long ago; nil: it is not near there any more.
local NEAR = 5000
local function rank_near(b, state, id, newest, guess)
  if state ~= ACTIVE and state ~= WAITING then
    return rank_of(b, state, id, newest)
  end
  for _, reach in ipairs({100, NEAR}) do
    local from = math.max(guess - reach, 0)
    for i, there in ipairs(ids_of(b, state, from, reach + 100, newest)) do
      if there == id then
        return from + i - 1
      end
    end
  end
end

-- One slice of the search for a job wherever it stands, a list from its new end: jobs that are added and
-- taken meanwhile don't bring it behind the search. Answers its rank, or nil and where the search goes on
-- (nil: it is not there).
local function search_rank(b, state, id, newest, from)
  local SEARCH = 20000
  local key = b .. (state == WAITING and "wait" or STATE_NAME[state])
  if state ~= ACTIVE and state ~= WAITING then
    return rank_of(b, state, id, newest)
  end
  local ids = call("LRANGE", key, num(from), num(from + SEARCH - 1))
  for i, there in ipairs(ids) do
    if there == id then
      local at = from + i - 1
      return newest and at or call("LLEN", key) - 1 - at
    end
  end
  if #ids == SEARCH then
    return nil, from + SEARCH
  end
  local at = state == WAITING and rank_in_list(b .. "paused", id, newest)
  return at and at + call("LLEN", key) or nil
end
