-- extend: renews locks of their owners
-- ARGV[4]    lock ms
-- ARGV[5]    number of queues
-- ARGV[6..]  their B and X, then three an entry: number of its queue (1 = the first), id, token
-- reply      {now_ms, {outcome, cancel, ...}}
-- calls      5, 23, 203 for 1, 10, 100 jobs (2, 1 a queue, and 2 an entry)

--@include lib/job.lua
local lock_ms, n_queues = tonumber(ARGV[4]), tonumber(ARGV[5])
local entries, locks, renewed, out = {}, {}, {}, {}
for at = 6 + 2 * n_queues, #ARGV, 3 do
  local b = ARGV[4 + 2 * tonumber(ARGV[at])]
  entries[#entries + 1] = {b = b, id = ARGV[at + 1], token = ARGV[at + 2]}
  locks[#locks + 1] = b .. ARGV[at + 1] .. ":lock"
end
local values = #locks > 0 and call("MGET", unpack(locks)) or {}
for i, e in ipairs(entries) do
  local key, lock = e.b .. e.id, values[i]
  local h = lock == e.token and try_record("HMGET", key, "emq:cancel") or
            try_record("HMGET", key, "emq:cancel", "emq:tk", "processedOn")
  local outcome = OK
  if lock == e.token then
    call("PEXPIRE", locks[i], span(lock_ms))
  elseif owns({b = e.b}, e.id, e.token, lock, h[2], h[3]) then
    call("SET", locks[i], e.token, "PX", span(lock_ms))
  else
    outcome = LOST
  end
  if outcome == OK then
    renewed[e.b] = renewed[e.b] or {}
    table.insert(renewed[e.b], e.id)
  end
  out[#out + 1] = outcome
  out[#out + 1] = outcome == OK and h[1] and 1 or 0
end
for b, ids in pairs(renewed) do
  try_record("SREM", b .. "stalled", unpack(ids)) -- a key of another type marks nobody
end
return {now_ms, out}
