-- publish: makes the jobs of a stage visible, in the order in which they were staged, a slice a call
-- KEYS[1]    the stage, or what the last call answered
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    stage
-- ARGV[7]    what the last call answered, "" in the first one
-- reply      {now_ms, outcome, count, what the next call is to name or "" if that was all}
-- calls      10, 11 a queue, 5 a job, and 2 for each of the last jobs that the stream of events has room for

--@include lib/receipt.lua
--@include lib/publish.lua
X = string.sub(B, 1, -2) .. "::emq::" -- the stages of a prefix belong to no queue
local done = receipt_find(ARGV[4], ARGV[5], "publish")
if done and (done.err or done[4] == "") then
  return done
end
local stage = X .. "stage:" .. ARGV[6]
local pub = done and done[4] or ARGV[7]
local reply = {now_ms, NOT_FOUND, 0, ""}
if pub == "" then
  local born = string.match(call("LINDEX", stage, "0") or "", "^b(%d+)$")
  if born then
    pub = stage .. ":" .. born
    call("RENAME", stage, pub)
    call("LSET", pub, "0", "c" .. born .. " 0 0")
  end
end
local published, finished = publish_slice(pub)
if published then
  save()
  reply = {now_ms, OK, published, finished and "" or pub}
end
receipt_put(ARGV[4], ARGV[5], "publish", reply)
return reply
