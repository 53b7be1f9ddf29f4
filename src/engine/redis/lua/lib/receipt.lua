-- Receipts: the last sequence of a session and what its act answered. The key X.."rc:<session>" lives
-- for 20 minutes and holds "<sequence> <act> <packed answer>". Of another queue's acts it knows nothing: a
-- repeated call names the same queue.
--@include lib/base.lua

-- nil: go on, and call receipt_put() at the end. Else the answer: the act's stored one (its first
-- member is the time, which is now's), or an error to answer.
local function receipt_find(session, seq, act)
  local stored = session ~= "" and call("GET", X .. "rc:" .. session)
  if not stored then
    return nil
  end
  local last, of, at = string.match(stored, "^(%d+) (%l+) ()")
  local ahead = tonumber(seq) - tonumber(last)
  if ahead > 0 then
    return nil
  end
  if ahead < 0 or of ~= act then
    return redis.error_reply("EMQ sequence " .. seq .. " of a session that is at " .. last ..
                             "; each act needs the next one")
  end
  local reply = cmsgpack.unpack(string.sub(stored, at))
  reply[1] = now_ms
  return reply
end

-- reply: an array without nil and booleans.
local function receipt_put(session, seq, act, reply)
  if session ~= "" then
    call("SET", X .. "rc:" .. session, seq .. " " .. act .. " " .. cmsgpack.pack(reply), "PX", "1200000")
  end
end
