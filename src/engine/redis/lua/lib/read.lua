-- What readers share: which state a job is in, and its hash with what is known beside.

-- The flat hash of a job that can be seen, else nil. A staged one can't; what has no timestamp is none,
-- but meta, a scheduler, or what somebody wrote into a record that was gone.
local function visible(b, id)
  local hash = try("HGETALL", b .. id)
  if hash.err then
    return nil
  end
  local is_job = false
  for i = 1, #hash, 2 do
    if hash[i] == "emq:stage" then
      return nil
    elseif hash[i] == "timestamp" then
      is_job = true
    end
  end
  return is_job and hash or nil
end

-- Structures whose name is that of the state, and which answer in no time.
local SETS = {{COMPLETED, "completed"}, {FAILED, "failed"}, {DELAYED, "delayed"}, {PRIORITIZED, "prioritized"},
              {WAITING_CHILDREN, "waiting-children"}}

-- Where a job that has a hash is: its state and its score there; 0: nowhere. `steps` bounds the search
-- through `wait`, which is linear: a job of a longer list that is nowhere else is taken to be there.
local function where_is(b, id, steps)
  for _, set in ipairs(SETS) do
    local score = call("ZSCORE", b .. set[2], id)
    if score then
      return set[1], tonumber(score)
    end
  end
  if call("EXISTS", b .. id .. ":lock") == 1 or
     (call("HEXISTS", b .. id, "processedOn") == 1 and call("LPOS", b .. "active", id)) then
    return ACTIVE
  end
  for _, list in ipairs({"wait", "paused"}) do
    if call("LLEN", b .. list) > steps or call("LPOS", b .. list, id, "RANK", -1) then
      return WAITING
    end
  end
  return 0
end

-- What the engine makes a job of: {hash, id, state, due ms, ms left of the lock, token of the lock}.
local function row(b, id, hash, state, score)
  local left, token = 0, ""
  if state == ACTIVE then
    token = call("GET", b .. id .. ":lock") or ""
    left = token ~= "" and call("PTTL", b .. id .. ":lock") or 0
  end
  return {hash, id, state, state == DELAYED and floor(score / 4096) or 0, left, token}
end

-- Bytes of a hash's values.
local function size_of(hash)
  local n = 0
  for i = 2, #hash, 2 do
    n = n + #hash[i]
  end
  return n
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

-- The rank of a job in its state; nil when it is not there. In a list the search is linear, unless the
-- job stands about where it is guessed to be.
local function rank_in_list(key, id, newest, guess)
  if guess > 0 then
    local from = math.max(guess - 100, 0)
    for i, there in ipairs(ids_of_list(key, from, 110, newest)) do
      if there == id then
        return from + i - 1
      end
    end
  end
  local at = call("LPOS", key, id, "RANK", newest and 1 or -1)
  return at and (newest and at or call("LLEN", key) - 1 - at) or nil
end

local function rank_of(b, state, id, newest, guess)
  if state == ACTIVE then
    return rank_in_list(b .. "active", id, newest, guess)
  elseif state ~= WAITING then
    return call(newest and "ZREVRANK" or "ZRANK", b .. STATE_NAME[state], id) or nil
  end
  local at = rank_in_list(b .. "wait", id, newest, guess)
  if not at and call("EXISTS", b .. "paused") == 1 then
    at = rank_in_list(b .. "paused", id, newest, 0)
    at = at and at + call("LLEN", b .. "wait")
  end
  return at
end
