-- What a job's own opts say about failing, read as emq__opts_read() does: what can't be read has
-- BullMQ's defaults.
--@include lib/finish.lua

local function whole(v)
  local n = tonumber(v)
  return n and (n < 0 and math.ceil(n) or floor(n))
end

local function keep_of(v)
  local count, age = -1, 0
  if v == true then
    count = 0
  elseif type(v) == "table" then
    count = math.max(whole(v.count) or -1, -1)
    if type(v.age) == "number" then
      age = math.min(floor(v.age * 1000 + 0.5), 3155760000000)
      count = age < 1 and 0 or count
    end
  elseif v ~= nil and v ~= false and v ~= cjson.null then
    count = math.max(whole(v) or -1, -1)
  end
  return new_keep(count, count == 0 and 0 or age)
end

-- {attempts >= 1, keep of failed jobs}
local function own_opts(q, id)
  local read, o = pcall(cjson.decode, call("HGET", q.b .. id, "opts") or "")
  if not read or type(o) ~= "table" then
    o = {}
  end
  return {attempts = math.max(whole(o.attempts) or 1, 1), keep = keep_of(o.removeOnFail)}
end
