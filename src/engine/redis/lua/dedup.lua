-- dedup: who holds a producer's dedup id, and its release by comparison
-- KEYS[1]  the queue's meta key
-- ARGV[4]  session
-- ARGV[5]  sequence
-- ARGV[6]  dedup id
-- ARGV[7]  its owner, or "" = whoever holds it
-- ARGV[8]  1 = release
-- reply    {now_ms, 0 = nobody holds it or another job does, owner, ms left or 0}
-- calls    4
--@include lib/base.lua
--@include lib/receipt.lua

local id, key, release = ARGV[6], B .. "de:" .. ARGV[6], ARGV[8] == "1"

local function answer()
  local owner, left = call("GET", key), call("PTTL", key)
  if owner and left < 0 and try_record("HEXISTS", B .. owner, "timestamp") ~= 1 then -- held by nobody
    if release then
      call("DEL", key, B .. "dn:" .. id)
    end
    owner = nil
  end
  if not owner or (release and ARGV[7] ~= "" and ARGV[7] ~= owner) then
    return {now_ms, 0, "", 0}
  end
  if release then
    call("DEL", key, B .. "dn:" .. id)
  end
  return {now_ms, 1, owner, math.max(left, 0)}
end

if not release then
  return answer()
end
local out = receipt_find(ARGV[4], ARGV[5], "dedup")
if not out then
  out = answer()
  receipt_put(ARGV[4], ARGV[5], "dedup", out)
end
return out
