-- queues: one slice of the search for queues in the whole store
-- ARGV[4]  cursor, "0" at the start
-- reply    {now_ms, cursor, "0" = that was all, names}; "<type>:<name>" where the meta key belongs to
--          something else
-- calls    1, and 1 a queue
--@include lib/base.lua

local out = {now_ms}
local pattern = string.gsub(B, "[%*%?%[%]%^%\\%-]", "\\%0") .. "*:meta"
local page = call("SCAN", ARGV[4], "MATCH", pattern, "COUNT", 1000)
out[2] = page[1]
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #B + 1, -6)
  if name ~= "" and not string.find(name, ":", 1, true) then -- else of another prefix
    local is = try("TYPE", key).ok or "hash"
    out[#out + 1] = is == "hash" and name or is .. ":" .. name
  end
end
return out
