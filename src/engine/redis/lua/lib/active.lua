-- Out of `active`.
--@include lib/base.lua

-- Takes ids out of `active`; answers the set of those that were there, nil = all. LREM from the middle
-- of a long list is dear: many ids at once are taken out by writing the list anew. The locks are
-- the caller's.
local function leave_active(q, ids)
  local key, n, there, found = q.b .. "active", #ids, {}, 0
  if n < 4 or call("LLEN", key) > 16 * n then
    for _, id in ipairs(ids) do
      if call("LREM", key, "-1", id) > 0 then
        there[id] = true
        found = found + 1
      end
    end
    return found < n and there or nil
  end
  local want, rest = {}, {}
  for i = 1, n do
    want[ids[i]] = true
  end
  local list = call("LRANGE", key, "0", "-1")
  for i = 1, #list do
    local id = list[i]
    if not want[id] then
      rest[#rest + 1] = id
    end
  end
  if #rest < #list then
    call("DEL", key)
    call_list(rest, "RPUSH", key)
  end
  if #list - #rest == n then
    return nil
  end
  for _, id in ipairs(list) do
    there[id] = want[id]
  end
  return there
end
