-- The end of a settlement, in line, without a function of its own. q: its queue; busy: the same act handed
-- jobs out.
-- The last one out says so; a slot may be free for others.
local finished = (q.plus.completed or q.plus.failed) and true
local slot = q.freed and q.concurrency > 0
if slot or finished and not busy then
  finish_flush(q)
  flush(q)
  if some("LLEN", B .. "wait") + some("ZCARD", B .. "prioritized") > 0 then
    q.wake = q.wake or slot
  elseif finished and some("LLEN", B .. "active") == 0 then
    event(q, "drained")
  end
end
