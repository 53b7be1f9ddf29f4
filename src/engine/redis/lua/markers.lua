-- markers: what is known of the effects of a queue's jobs, in the order of id, timestamp and step
-- KEYS[1]  the queue's meta key
-- ARGV[4]  id, "" = of all jobs
-- ARGV[5]  behind the marker of this id, "" = from the start
-- ARGV[6]  and timestamp
-- ARGV[7]  and step
-- ARGV[8]  how many
-- reply    {now_ms, {id, timestamp, step, state, token, fingerprint, claimed, done, ends, kind of the result,
--          result}, ...}
-- calls    4 a job

--@include lib/marker.lua
--@include lib/job.lua
local DONE_STATE, IN_DOUBT, BUSY = 2, 3, 4
local PAGE, EXPIRE = 100, 5000
local id, limit, q = ARGV[4], tonumber(ARGV[8]), queue(B)
local after = ARGV[5] ~= "" and marker_member(ARGV[5], ARGV[6])
local low, high = "-", "+"
if id ~= "" then
  low, high = "[" .. id .. "\0", "(" .. id .. "\1"
end
if after then
  low = "[" .. after
end

-- Does the hand-out live that has claimed it?
local function lives(job, timestamp, m)
  local h = try_record("HMGET", B .. job, "timestamp", "emq:tk", "processedOn")
  return m.token ~= "" and h[1] and tonumber(h[1]) == tonumber(timestamp) and
         owns(q, job, m.token, call("GET", B .. job .. ":lock"), h[2], h[3])
end

local out = {now_ms}
local function list(member)
  local job, timestamp = string.match(member, "^(.*)%z(%d+)$")
  local steps, stored = {}, {}
  local flat = call("HGETALL", marker_key(q, job, timestamp))
  for i = 1, #flat, 2 do
    local m = marker_read(flat[i + 1])
    if m and not (member == after and flat[i] <= ARGV[7]) then
      steps[#steps + 1] = flat[i]
      stored[flat[i]] = m
    end
  end
  table.sort(steps)
  for _, step in ipairs(steps) do
    local m = stored[step]
    local state = m.state == DONE and DONE_STATE or lives(job, timestamp, m) and BUSY or IN_DOUBT
    if #out <= limit then
      out[#out + 1] = {job, num(tonumber(timestamp)), step, state, m.token, m.fingerprint, num(m.claimed),
                       num(m.done), num(m.ends), m.kind, m.result}
    end
  end
end

marker_expire(q, EXPIRE)
repeat
  local page = call("ZRANGEBYLEX", X .. "ef", low, high, "LIMIT", "0", num(PAGE))
  for _, member in ipairs(page) do
    list(member)
    low = "(" .. member
  end
until #page < PAGE or #out > limit
return out
