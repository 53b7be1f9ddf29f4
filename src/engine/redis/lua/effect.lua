-- effect: completes a job together with commands of the application
-- KEYS[1]    the queue's meta key
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6]    step
-- ARGV[7]    for how many ms it is known to be done
-- ARGV[8]    kind of the result
-- ARGV[9]    the result
-- ARGV[10]   how many commands
-- ARGV[11..] an entry as settle has it, of a completion; then of each command: how many words, what is known of
--            it, as act_effect.c says, and the words
-- reply      {now_ms, outcome, state, "" or what has failed behind others that were done}
-- calls      36, 38, 42 for 1, 2, 4 commands (34, and 2 a command on a new key, 3 where its value is looked at)

--@include lib/base.lua
local function run()
--@include lib/receipt.lua
--@include lib/active.lua
--@include lib/complete.lua
--@include lib/ends.lua
--@include lib/marker.lua
local FAILED_PARTLY, KIND_TEXT = 9, 2
local done = receipt_find(ARGV[4], ARGV[5], "effect")
if done then
  return done
end
local q = queue(B)
local e, at = ends(q).read(11, new_keep(-1, 0))
local step = ARGV[6]

-- The commands: words, and what is known of each: a letter of the type that its keys must have, what it makes of
-- them, and the places of its keys.
local commands = {}
for i = 1, tonumber(ARGV[10]) do
  local n, known = tonumber(ARGV[at]), ARGV[at + 1]
  local kind, makes, keys = string.match(known, "^(%l)(%l) ?(.*)$")
  local c = {words = {unpack(ARGV, at + 2, at + 1 + n)}, kind = kind, makes = makes, keys = {}}
  for key in string.gmatch(keys, "%d+") do
    c.keys[#c.keys + 1] = c.words[tonumber(key) + 1]
  end
  commands[i], at = c, at + 2 + n
end

local KINDS = {s = "string", h = "hash", l = "list", t = "set", z = "zset", x = "stream"}
local BROKEN = "EMQ command %d (%s): %s; nothing was done"
local types, values = {}, {} -- as the commands so far will leave them; values: true = not known

local function type_of(key)
  if not types[key] then
    types[key] = call("TYPE", key).ok
  end
  return types[key]
end

-- A whole number of 64 bits, as a server takes it? A number of Lua does not hold all of them.
local function is_whole(v)
  local sign, digits = string.match(v, "^(%-?)(%d+)$")
  if not digits or #digits > 19 or string.find(v, "^%-?0") and v ~= "0" then
    return false
  end
  return #digits < 19 or digits <= (sign == "" and "9223372036854775807" or "9223372036854775808")
end

-- v + sign * by, of whole numbers; nil: it has more than 64 bits.
local function sum(v, sign, by)
  local BASE = 1000000000
  local function halves(text)
    local minus, digits = string.match(text, "^(%-?)(%d+)$")
    local s = minus == "-" and -1 or 1
    return s * (tonumber(string.sub(digits, 1, -10)) or 0), s * tonumber(string.sub(digits, -9))
  end
  local high, low = halves(v)
  local by_high, by_low = halves(by)
  high, low = high + sign * by_high, low + sign * by_low
  local carry = low >= BASE and 1 or low <= -BASE and -1 or 0
  high, low = high + carry, low - carry * BASE
  carry = high > 0 and low < 0 and -1 or high < 0 and low > 0 and 1 or 0
  high, low = high + carry, low - carry * BASE
  local text = high == 0 and format("%d", math.abs(low)) or
               format("%d%09d", math.abs(high), math.abs(low))
  text = (high < 0 or low < 0) and "-" .. text or text
  return is_whole(text) and text or nil
end

-- Why the number in a key, or in a field of a hash, can't be changed; nil: nothing is known against it.
local function against_number(c)
  local key, field = c.words[2], c.words[3]
  local of_hash = c.kind == "h"
  local place = of_hash and key .. "\0" .. field or key
  local v = values[place]
  if v == nil and types[key] ~= "none" then
    v = of_hash and call("HGET", key, field) or not of_hash and call("GET", key)
  end
  v = v or "0"
  local name = string.upper(c.words[1])
  if v == true then
    return nil
  elseif c.makes == "f" then
    values[place] = true
    return not tonumber(v) and "what '" .. key .. "' holds is no number" or nil
  elseif not is_whole(v) then
    return "what '" .. key .. "' holds is no number"
  end
  values[place] = sum(v, string.find(name, "^DECR") and -1 or 1, c.words[of_hash and 4 or 3] or "1")
  return not values[place] and "the number in '" .. key .. "' would have more than 64 bits" or nil
end

-- What a command that has nothing against it leaves in strings and fields: the words that it writes.
local function note_values(c)
  local name, w = string.upper(c.words[1]), c.words
  if name == "SET" and #w == 3 or name == "GETSET" then
    values[w[2]] = w[3]
  elseif name == "SETEX" or name == "PSETEX" then
    values[w[2]] = w[4]
  elseif name == "HDEL" then
    for i = 3, #w do
      values[w[2] .. "\0" .. w[i]] = true
    end
  elseif name == "HSET" or name == "HMSET" then
    for i = 3, #w - 1, 2 do
      values[w[2] .. "\0" .. w[i]] = w[i + 1]
    end
  elseif name == "MSET" or name == "SETNX" or name == "MSETNX" then
    for i = 2, name == "MSET" and 0 or #w - 1, 2 do
      if types[w[i]] ~= "none" then
        return -- it writes nothing
      end
    end
    for i = 2, #w - 1, 2 do
      types[w[i]], values[w[i]] = "string", w[i + 1]
    end
  end
end

-- Why a command can't be done; nil: nothing is known against it. Notes what it leaves.
local function problem(c)
  local want = KINDS[c.kind]
  for _, key in ipairs(c.keys) do
    local is = type_of(key)
    if want and is ~= "none" and is ~= want and c.makes ~= "o" then
      return "'" .. key .. "' holds a " .. is .. ", not a " .. want
    end
  end
  local against = (c.makes == "i" or c.makes == "f") and against_number(c)
  if against then
    return against
  end
  for _, key in ipairs(c.keys) do
    if c.makes == "d" then
      types[key], values[key] = "none", nil
      for place in pairs(values) do
        if string.sub(place, 1, #key + 1) == key .. "\0" then
          values[place] = nil
        end
      end
    elseif want then
      types[key] = want
      if c.kind == "s" and (c.makes == "o" or c.makes == "w") then
        values[key] = true
      end
    end
  end
  note_values(c)
end

-- Does them. Answers an error to answer, when nothing was done; or what has failed behind others.
local function make()
  for i, c in ipairs(commands) do
    local against = problem(c)
    if against then
      return redis.error_reply(format(BROKEN, i, c.words[1], against))
    end
  end
  for i, c in ipairs(commands) do
    local r = try(unpack(c.words))
    if type(r) == "table" and r.err then
      if i == 1 and string.find(r.err, "OOM", 1, true) == 1 then
        return r -- it is asked for again, in another way
      elseif i == 1 then
        return redis.error_reply(format(BROKEN, i, c.words[1], r.err))
      end
      return nil, format("partial effect: command %d (%s): %s", i, c.words[1], r.err)
    end
  end
end

local function look()
  ends(q).look(e, call("GET", e.key .. ":lock"),
               try_record("HMGET", e.key, "timestamp", "atm", "deid", "parentKey", "emq:cancel", "defa"))
  e.refused = e.refused or ends(q).of_children(e) or not rare().in_active(q, e.id) and LOST or nil
  if not e.refused then
    ends(q).sound(e)
    rare().sound(q, "stalled", "failed") -- failed: an effect that was done in part
  end
end

-- The owner's effect, unless it is known to be done. Answers as make() does.
local function effect()
  local timestamp = call("HGET", e.key, "timestamp")
  local m = marker_get(q, e.id, timestamp, step)
  if m and marker_has_done(m) then -- in part: somebody has asked for the job to be run without it
    return nil
  end
  local failure, partly = make()
  if failure then
    return failure
  end
  m = m or {fingerprint = "", claimed = now_ms}
  m.state, m.token, m.done, m.ends = DONE, e.token, now_ms, now_ms + tonumber(ARGV[7])
  m.kind, m.result = tonumber(ARGV[8]), ARGV[9]
  if partly then -- neither done nor free
    m.state, m.done, m.kind, m.result = CLAIMED, 0, KIND_TEXT, partly
  end
  marker_put(q, e.id, timestamp, step, m)
  return nil, partly
end

look()
local partly
if not e.refused then
  local failure
  failure, partly = effect()
  if failure then
    return failure
  end
  leave_active(q, {e.id})
  call("DEL", e.key .. ":lock")
  call("SREM", B .. "stalled", e.id)
  q.freed = true
end
if partly then
  e.kind, e.reason, e.keep = "f", partly, nil
end
local outcome, state = ends(q).finish(e)
finish_flush(q)
local busy = false
--@include lib/out.lua
finish_flush(q)
save()
local out = {now_ms, partly and FAILED_PARTLY or outcome, state, partly or ""}
receipt_put(ARGV[4], ARGV[5], "effect", out)
return out
end
return run()
