-- publish: makes the jobs of a stage visible, in the order in which they were staged, or drops them; a slice a call
-- KEYS[1]    the stage, or what the last call answered
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stage
-- ARGV[7]    what the last call answered, "" in the first one
-- ARGV[8]    1 = drop
-- reply      {now_ms, outcome, count, what the next call is to name or "" if that was all, the list of what was
--            not published, how many those are}
-- calls      37, 91, 631 for 1, 10, 100 jobs; 18, 36, 216 when they are dropped (20, 11 a queue, and 6 a job, 4 of one
--            whose events the stream has no room for; 2 more for a slice with jobs that are not published)

--@include lib/receipt.lua
--@include lib/publish.lua
X = string.sub(B, 1, -2) .. "::emq::" -- the stages of a prefix belong to no queue
local done = receipt_find(ARGV[4], ARGV[5], "publish")
if done and (done.err or done[4] == "") then
  return done
end
local stage = X .. "stage:" .. ARGV[6]
local pub = done and done[4] or ARGV[7]
local reply = {now_ms, NOT_FOUND, 0, "", "", 0}
if pub == "" then
  local born = string.match(call("LINDEX", stage, "0") or "", "^b(%d+)$")
  if born then
    if ARGV[8] == "0" then
      sound_records(call("LRANGE", stage, "1", num(PUBLISH_SLICE)))
    end
    pub = stage .. ":" .. born
    call("RENAME", stage, pub)
    call("DEL", pub .. ":missed") -- of one that began in the same microsecond
    call("LSET", pub, "0", (ARGV[8] == "1" and "d" or "c") .. born .. " 0 0 0")
  end
end
local published, finished, jobs
if pub ~= "" then
  published, finished, jobs = publish_slice(pub, PUBLISH_SLICE, true)
end
if published then
  save()
  reply = {now_ms, OK, published, finished and "" or pub, pub .. ":missed", jobs - published}
end
receipt_put(ARGV[4], ARGV[5], "publish", reply)
return reply
