-- suspects: one slice of a walk over a queue
-- KEYS[1]  the queue's meta key
-- ARGV[4]  what to read: types, place, keys, queue, events
-- ARGV[5]  place: which; keys: the cursor; events: behind which one, "" = from the oldest on
-- ARGV[6]  place: from which rank on
-- ARGV[7]  place: how many ids
-- reply    {now_ms, cursor or "", ids that are there, {flaw, job, key, about, ...}}
-- calls    6 an id of a place, 2 more for a child, 4 a key
--@include lib/keys.lua
--@include lib/flaws.lua

local what, ids, out, cursor = ARGV[4], {}, {}, ""
local function add(flaw, id, key, about)
  local n = #out
  out[n + 1], out[n + 2], out[n + 3], out[n + 4] = flaw, id, key, about or ""
end

local function look_at_place(place)
  local key, from, n = B .. place, tonumber(ARGV[6]), tonumber(ARGV[7])
  local flat = LIST[place] and call("LRANGE", key, from, from + n - 1) or
               call("ZRANGE", key, from, from + n - 1, "WITHSCORES")
  for i = 1, #flat, LIST[place] and 1 or 2 do
    local id = flat[i]
    ids[#ids + 1] = id
    local flaw, about = flaw_at(place, id, tonumber(flat[i + 1]))
    if flaw then
      add(flaw, id, "at " .. place, about)
    end
  end
end

local function look_at_key(rest)
  local flaw, id, about = flaw_of_key(rest)
  if flaw then
    add(flaw, id, "key " .. rest, type(about) == "string" and about)
  elseif about == true then
    ids[#ids + 1] = id
  end
end

local function look_at_keys()
  local page = call("SCAN", ARGV[5], "MATCH", keys_pattern(), "COUNT", 1000)
  cursor = page[1] == "0" and "" or page[1]
  for _, key in ipairs(page[2]) do
    local staged = staged_id(key)
    if staged and flaw_of_staged(staged) then
      add("staged", staged, "staged")
    elseif string.sub(key, 1, #B) == B then
      look_at_key(string.sub(key, #B + 1))
    end
  end
end

local function look_at_events()
  local page = call("XRANGE", B .. "events", ARGV[5] == "" and "-" or "(" .. ARGV[5], "+", "COUNT", 500)
  for _, entry in ipairs(page) do
    local flaw, id = flaw_of_event(entry)
    if flaw then
      add(flaw, id, "event " .. entry[1])
    end
    cursor = entry[1]
  end
  cursor = #page == 500 and cursor or ""
end

if what == "types" then
  for rest, kind in pairs(KIND) do
    local is = call("TYPE", B .. rest).ok
    if is ~= "none" and is ~= kind then
      add("type", "", "type " .. rest, rest .. " is a " .. is)
    end
  end
elseif what == "place" then
  look_at_place(ARGV[5])
elseif what == "keys" then
  look_at_keys()
elseif what == "queue" then
  local flaws = flaws_of_queue()
  for i = 1, #flaws, 3 do
    add(flaws[i], flaws[i + 1], "queue " .. flaws[i + 2], flaws[i + 2])
  end
else
  look_at_events()
end
return {now_ms, cursor, ids, out}
