-- Scripts do not roll back. So what an act will write to is looked at before it writes anything: a key that belongs
-- to something else then refuses it as a whole. A key that the act reads first anyway, or writes to first of
-- all, needs no look.
--@include lib/base.lua

local READ = {wait = "LLEN", paused = "LLEN", active = "LLEN", stalled = "SCARD", delayed = "ZCARD",
              prioritized = "ZCARD", ["waiting-children"] = "ZCARD", completed = "ZCARD", failed = "ZCARD",
              id = false, pc = false} -- counters

-- What a counter holds. What is no number is refused as INCR does.
local function counter(key)
  local text = call("GET", key)
  return text and not string.find(text, "^%-?%d+$") and call("INCR", key) or text
end

-- sound(q, name, ...): each of these keys once in an act; without names all.
local function sound(q, ...)
  local names = {...}
  if not names[1] then
    for name in pairs(READ) do
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(names) do
    if not q.sound[name] then
      local key = q.b .. name
      local _ = READ[name] and call(READ[name], key) or counter(key)
      q.sound[name] = true
    end
  end
end
