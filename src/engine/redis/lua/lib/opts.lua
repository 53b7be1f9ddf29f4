-- What a job's own opts say about failing, read as emq__opts_read() does: what can't be read has
-- BullMQ's defaults.

local function whole(v)
  local n = tonumber(v)
  return n and (n < 0 and math.ceil(n) or floor(n))
end

local function keep_of(v)
  local keep = {count = -1, age = 0}
  if v == true then
    keep.count = 0
  elseif type(v) == "table" then
    keep.count = math.max(whole(v.count) or -1, -1)
    if type(v.age) == "number" then
      keep.age = math.min(floor(v.age * 1000 + 0.5), 3155760000000)
      if keep.age < 1 then
        keep = {count = 0, age = 0}
      end
    end
  elseif v ~= nil and v ~= false and v ~= cjson.null then
    keep.count = math.max(whole(v) or -1, -1)
  end
  if keep.count == 0 then
    keep.age = 0
  end
  return keep
end

-- {attempts >= 1, keep of failed jobs}
local function own_opts(q, id)
  local read, o = pcall(cjson.decode, call("HGET", q.b .. id, "opts") or "")
  if not read or type(o) ~= "table" then
    o = {}
  end
  return {attempts = math.max(whole(o.attempts) or 1, 1), keep = keep_of(o.removeOnFail)}
end
