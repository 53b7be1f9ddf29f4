-- mark: claims an effect of a job, or ends the claim; by its owner or an administrator
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    id
-- ARGV[7]    token, "" = an administrator
-- ARGV[8]    administrator
-- ARGV[9]    kind, a number of enum emq__mark_kind
-- ARGV[10]   how a history names it
-- ARGV[11]   step
-- ARGV[12]   fingerprint
-- ARGV[13]   kind of the result
-- ARGV[14]   the result
-- ARGV[15]   for how many ms it is known
-- ARGV[16]   how a history names a claim that takes it over
-- reply      {now_ms, outcome, state, timestamp, token, fingerprint, claimed, done, ends, kind of the result,
--            result}; behind outcome and state 0 nothing
-- calls      18 for a claim, 18 for the record

--@include lib/marker.lua
--@include lib/receipt.lua
--@include lib/job.lua
local CONFLICT = 11
local CLAIM, TAKE_OVER, IS_DONE, RELEASE, FORGET = 1, 2, 3, 4, 6
local FRESH, TOLD_DONE, IN_DOUBT, BUSY = 1, 2, 3, 4
local q = queue(B)
local id, token, kind, step = ARGV[6], ARGV[7], tonumber(ARGV[9]), ARGV[11]

-- The receipt has outcome and state; what the marker holds is read again.
local function answer(outcome, state, timestamp)
  local out = {now_ms, outcome, state}
  local m = state ~= 0 and marker_get(q, id, timestamp, step)
  if m then
    for i, v in ipairs({timestamp, m.token, m.fingerprint, num(m.claimed), num(m.done), num(m.ends), m.kind, m.result}) do
      out[3 + i] = v
    end
  end
  return out
end

local done = receipt_find(ARGV[4], ARGV[5], "mark")
if done then
  return done.err and done or answer(done[2], done[3], done[4])
end

local function now_done(m)
  m.state, m.done, m.ends = DONE, now_ms, now_ms + tonumber(ARGV[15])
  m.kind, m.result = tonumber(ARGV[13]), ARGV[14]
end

-- Each works on what is stored (state nil = nothing) and answers outcome and whether to write it.
local function claim(m)
  if m.fingerprint ~= "" and ARGV[12] ~= "" and m.fingerprint ~= ARGV[12] then
    return CONFLICT, false
  elseif m.state == DONE or m.state and kind == CLAIM then
    return OK, false
  end
  m.state, m.token, m.claimed, m.ends = CLAIMED, token, now_ms, now_ms + tonumber(ARGV[15])
  m.kind, m.result = 0, ""
  if ARGV[12] ~= "" then
    m.fingerprint = ARGV[12]
  end
  return OK, true
end

local function end_claim(m)
  local mine = m.state and m.token == token
  if mine and m.state == DONE and kind == IS_DONE then
    return OK, false
  elseif not mine or m.state == DONE then
    return WRONG_STATE, false
  elseif kind == IS_DONE then
    now_done(m)
  else
    m.state = nil
  end
  return OK, true
end

local function administer(m)
  if kind == FORGET then
    local outcome = m.state and OK or NOT_FOUND
    m.state = nil
    return outcome, outcome == OK
  end
  m.claimed = m.state and m.claimed or now_ms
  m.token = ""
  now_done(m)
  return OK, true
end

local function told(m, written)
  if not m.state then
    return 0
  elseif m.state == DONE then
    return TOLD_DONE
  elseif written then
    return FRESH
  end
  return m.token == token and BUSY or IN_DOUBT
end

-- Answers outcome, state and the job's timestamp.
local function mark()
  local h = try_record("HMGET", B .. id, "timestamp", "emq:tk", "processedOn")
  if not h[1] then
    return NOT_FOUND, 0, "0"
  elseif token ~= "" and not owns(q, id, token, call("GET", B .. id .. ":lock"), h[2], h[3]) then
    history(q, id, "refused", token, ARGV[10])
    return LOST, 0, "0"
  end
  local m = marker_get(q, id, h[1], step) or
            {token = "", fingerprint = "", claimed = 0, done = 0, kind = 0, result = ""}
  local decide = (kind == CLAIM or kind == TAKE_OVER) and claim or
                 (kind == IS_DONE or kind == RELEASE) and end_claim or administer
  local before = m.state == CLAIMED and m.token
  local outcome, write = decide(m)
  if write and token == "" then
    history(q, id, "admin", ARGV[8], ARGV[10])
  elseif decide == claim and outcome == OK and before and before ~= token then
    history(q, id, write and ARGV[16] or "doubt", token, step .. " " .. before)
  end
  if write and m.state then
    marker_put(q, id, h[1], step, m)
  elseif write then
    marker_drop(q, id, h[1], step)
  end
  return outcome, told(m, write), h[1]
end

local outcome, state, timestamp = mark()
save()
receipt_put(ARGV[4], ARGV[5], "mark", {now_ms, outcome, state, timestamp})
return answer(outcome, state, timestamp)
