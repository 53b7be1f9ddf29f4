-- claims: the active jobs of a worker
-- KEYS[1]    that set, or the meta key of the queue
-- ARGV[4]    the worker
-- ARGV[5]    key of the set of queues it has taken from; "" = look at this queue only
-- reply      {now_ms, {queue, id, token, lock_left_ms, record}, ...}
-- calls      2, 1 a queue, 1 an active job of it, and 2 a claim

--@include lib/job.lua
local worker, out = ARGV[4] .. ":", {now_ms}
local prefix, names = string.match(B, "^(.*):[^:]*:$"), nil
if ARGV[5] == "" then
  names = {string.match(B, "([^:]*):$")}
else
  prefix, names = string.sub(B, 1, -2), call("SMEMBERS", ARGV[5])
end
for _, name in ipairs(names) do
  local b = prefix .. ":" .. name .. ":"
  local ids = call("LRANGE", b .. "active", 0, -1)
  for i = #ids, 1, -1 do
    local id = ids[i]
    local h = try_record("HMGET", b .. id, "emq:tk", "processedOn")
    local token = last_token(h[1], h[2])
    if token and string.sub(token, 1, #worker) == worker and string.find(token, "^%d+$", #worker + 1) then
      out[#out + 1] = {name, id, token, call("PTTL", b .. id .. ":lock"), call("HGETALL", b .. id)}
    end
  end
end
return out
