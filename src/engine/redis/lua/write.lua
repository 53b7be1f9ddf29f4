-- write: progress, data or log of a job, by its owner or an administrator
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    id
-- ARGV[7]    token, "" = an administrator
-- ARGV[8]    administrator
-- ARGV[9]    p progress, d data, l log, c clear the log, n a note for the history
-- ARGV[10]   the value: JSON, JSON, text, "", text
-- ARGV[11]   d: the encoding behind that JSON, "" = none; l, c: lines kept, -1 = all
-- reply      {now_ms, outcome, log lines}
-- calls      9; 10 for a log

--@include lib/receipt.lua
--@include lib/job.lua
local done = receipt_find(ARGV[4], ARGV[5], "write")
if done then
  return done
end
local q = queue(B)
local id, token, kind, value = ARGV[6], ARGV[7], ARGV[9], ARGV[10]
local key = B .. id

-- opts without the mark of an encoding, and with another one. Like rd_opts_mark() in payload.c: it
-- stands right before the last brace.
local function marked(opts, encoding)
  local head, tail = string.match(opts, "^(%s*{.*)(}%s*)$")
  if not head then
    return nil
  end
  head = string.gsub(head, ',?"emqEnc":"%l+%d*"$', "")
  if encoding ~= "" then
    head = head .. (string.find(head, "{%s*$") and "" or ",") .. '"emqEnc":"' .. encoding .. '"'
  end
  return head .. tail
end

local function write_data(enc, opts)
  local set = {"data", value}
  if enc or not marked(opts, "") then
    set[3], set[4] = "emq:enc", ARGV[11] == "" and "json" or ARGV[11]
  else
    set[3], set[4] = "opts", marked(opts, ARGV[11])
  end
  call("HSET", key, unpack(set))
end

local NAME = {p = "progress", d = "data", l = "log", c = "clear-logs"}
local function write()
  local h = try_record("HMGET", key, "timestamp", "emq:tk", "processedOn", "emq:enc", "opts")
  if kind == "l" or kind == "c" then
    call("LLEN", key .. ":logs") -- may refuse all
  end
  if not h[1] then
    return NOT_FOUND
  elseif token == "" then
    history(q, id, kind == "n" and "note" or "admin", ARGV[8], kind == "n" and value or NAME[kind])
  elseif not owns(q, id, token, call("GET", key .. ":lock"), h[2], h[3]) then
    history(q, id, "refused", token, NAME[kind])
    return LOST
  end
  if kind == "p" then
    call("HSET", key, "progress", value)
    event(q, "progress", "jobId", id, "data", value)
  elseif kind == "d" then
    write_data(h[4], h[5] or "")
  elseif kind ~= "n" then
    local keep = tonumber(ARGV[11])
    if kind == "l" then
      call("RPUSH", key .. ":logs", value)
    end
    if keep == 0 then
      call("DEL", key .. ":logs")
    elseif keep > 0 then
      call("LTRIM", key .. ":logs", -keep, -1)
    end
  end
  return OK
end

local reply = {now_ms, write(), 0}
if reply[2] == OK then
  reply[3] = tonumber(try_record("LLEN", key .. ":logs")) or 0
end
save()
receipt_put(ARGV[4], ARGV[5], "write", reply)
return reply
