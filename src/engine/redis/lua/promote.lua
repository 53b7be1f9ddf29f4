-- promote: moves delayed jobs that are due into their lines
-- ARGV[4]    jobs at most
-- reply      {now_ms, count, next_due_ms, more}
-- calls      3 when nothing is due; 12, and 3 a job

--@include lib/promote.lua
local q = queue(B)
local n, due = promote_due(q, tonumber(ARGV[4]))
save()
return {now_ms, n, due, due > 0 and due <= now_ms and 1 or 0}
