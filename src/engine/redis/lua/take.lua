-- take: promotes what is due, then hands out jobs under locks
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  count, worker, lock ms, limit max, limit ms, mode, claims key ("" = none)
-- reply      {now_ms, paused, maxed, limited_ms, next_due_ms, deferred, {id, lock ms, record}, ...}
-- calls      14, 52, 412 for 1, 10, 100 jobs (12, and 4 a job)

--@include lib/base.lua
local function run()
--@include lib/receipt.lua
--@include lib/take.lua
local done = receipt_find(ARGV[4], ARGV[5], "take")
local q = queue(B)
if done then
  return done.err and done or {now_ms, unpack(rare().taken_again(q, done[2]))}
end
if q.publishes then
  q = rare().help_publish(q, 100)
end
local t = take_args(unpack(ARGV, 6, 12))
local taken = take(q, t)
finish_flush(q)
save()
if #t.jobs + t.deferred > 0 then -- "nothing" may be answered anew
  receipt_put(ARGV[4], ARGV[5], "take", {now_ms, taken_short(taken, t.mode)})
end
return {now_ms, unpack(taken)}
end
return run()
