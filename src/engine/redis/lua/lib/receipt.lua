-- Receipts: the last sequence of a session and what its act answered. The key X.."rc:<session>" lives
-- for 20 minutes. Of another queue's acts it knows nothing: a repeated call names the same queue.
--@include lib/base.lua

-- nil: go on, and call receipt_put() at the end. Else the answer: the act's stored one (its first
-- member is the time, which is now's), or an error to answer.
local function receipt_find(session, seq, act)
  if session == "" then
    return nil
  end
  local stored = call("GET", X .. "rc:" .. session)
  if not stored then
    return nil
  end
  local last, of, reply = unpack(cmsgpack.unpack(stored))
  seq = tonumber(seq)
  if seq > last then
    return nil
  end
  if seq < last or of ~= act then
    return redis.error_reply("EMQ sequence " .. num(seq) .. " of a session that is at " .. num(last) ..
                             "; each act needs the next one")
  end
  reply[1] = now_ms
  return reply
end

-- reply: an array without nil and booleans.
local function receipt_put(session, seq, act, reply)
  if session ~= "" then
    call("SET", X .. "rc:" .. session, cmsgpack.pack({tonumber(seq), act, reply}), "PX", 1200000)
  end
end
