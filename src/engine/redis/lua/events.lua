-- events: reads a queue's events behind a cursor
-- KEYS[1]  the queue's meta key
-- ARGV[4]  "" = from the oldest on, "$" = nothing but the cursor, or the id of an event
-- ARGV[5]  how many
-- ARGV[6]  bytes at which to stop
-- ARGV[7]  bytes of a result beyond which it is answered as null: the job has it
-- reply    {now_ms, id of the last one answered or else the cursor, {id, fields}...}
-- calls    1 for 16 events
--@include lib/base.lua

local key, after = B .. "events", ARGV[4]
local limit, bytes_max, value_max = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

if after == "$" then
  local info = try("XINFO", "STREAM", key)
  for i = 1, #info, 2 do
    if info[i] == "last-generated-id" then
      return {now_ms, info[i + 1]}
    end
  end
  return {now_ms, "0-0"}
end
local out, bytes = {now_ms, after == "" and "0-0" or after}, 0
local from = after == "" and "-" or "(" .. after
while #out - 2 < limit and bytes < bytes_max do
  local n = math.min(16, limit - (#out - 2))
  local page = call("XRANGE", key, from, "+", "COUNT", n)
  for _, entry in ipairs(page) do
    local fields = entry[2]
    for i = 1, #fields, 2 do
      if fields[i] == "returnvalue" and #fields[i + 1] > value_max then
        fields[i + 1] = "null"
      end
      bytes = bytes + #fields[i] + #fields[i + 1]
    end
    out[#out + 1] = entry
    out[2] = entry[1]
  end
  if #page < n then
    break
  end
  from = "(" .. out[2]
end
return out
