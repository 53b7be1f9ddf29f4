-- queues: one slice of the search for queues in the whole store
-- ARGV[4]  cursor, "0" at the start
-- ARGV[5]  1 = also those that have jobs and no settings, which nobody sees
-- reply    {now_ms, cursor, "0" = that was all, names}; "<type>:<name>" where the meta key belongs to
--          something else
-- calls    1, and 1 a queue; with those without settings 3 a key
--@include lib/base.lua

local out = {now_ms}
local unseen, asked = ARGV[5] == "1", {}
local KIND = {wait = "list", paused = "list", active = "list", delayed = "zset", prioritized = "zset",
              ["waiting-children"] = "zset", completed = "zset", failed = "zset"}

-- Is the key a place with jobs, or the record of one?
local function has_jobs(key, rest)
  local is = try("TYPE", key).ok
  if is ~= "hash" then
    return is and is == KIND[rest]
  end
  local h = try("HMGET", key, "name", "data", "timestamp")
  return h[1] and h[2] and h[3]
end

local function look(key)
  local name, rest = string.match(string.sub(key, #B + 1), "^([^:]+):(.+)$") -- a name with ":" is of another prefix
  if rest == "meta" then
    local is = try("TYPE", key).ok or "hash"
    out[#out + 1] = is == "hash" and name or is .. ":" .. name
  elseif unseen and name and not asked[name] and has_jobs(key, rest) then
    asked[name] = true
    if try("EXISTS", B .. name .. ":meta") == 0 then
      out[#out + 1] = name
    end
  end
end

local pattern = string.gsub(B, "[%*%?%[%]%^%\\%-]", "\\%0") .. (unseen and "*" or "*:meta")
local page = call("SCAN", ARGV[4], "MATCH", pattern, "COUNT", 1000)
out[2] = page[1]
for _, key in ipairs(page[2]) do
  look(key)
end
return out
