-- settle: ends hand-outs, each entry for itself, and may take the next jobs in the same act
-- ARGV[4]    session
-- ARGV[5]    sequence
-- ARGV[6..]  of the next take, as take has them (count 0: none), then the number of entries, then per
--            entry: id, token ("" = an administrator), a word, the result (JSON) if it is completed, and
--            what the letters of the word want. Its first letter: c completed, f failed, r retry, b release,
--            s stalled. Then C count and age in ms that are kept of its state (without it: as the entry
--            before), A administrator, E encoding of the result, R reason, T trace (a JSON string), L traces
--            kept, D delay ms, M stalls allowed, l lifo
-- reply      {now_ms, {outcome, state, ...} or {outcome, state, for how many}, what take answers behind now_ms or 0}
-- calls      18, 50, 320 for 1, 10, 100 completed jobs; 25, 95, 725 when as many are taken (20 and 3 a job under
--            a living lock, as many kept as may be, others active; 25 and 7 with the take; fewer for one)

--@include lib/base.lua
local function run()
--@include lib/receipt.lua
--@include lib/active.lua
--@include lib/take.lua
--@include lib/ends.lua
local done = receipt_find(ARGV[4], ARGV[5], "settle")
local q = queue(B)
if done then
  if not done.err and done[3] ~= 0 then
    done[3] = rare().taken_again(q, done[3])
  end
  return done
end
if q.publishes then
  q = rare().help_publish(q, 100)
end

-- By number of the entry: where it begins, id, keys, what is kept, attempts made. What is not just a
-- completion is an entry of lib/ends.lua besides.
local args, n = ARGV, tonumber(ARGV[13])
local starts, ids, keys, locks, keeps, made, special = {}, {}, {}, {}, {}, {}, {}
local rules -- does what is kept differ?

local function read_entries()
  local at, keep = 14, new_keep(-1, 0)
  for i = 1, n do
    local id, word = args[at], args[at + 2]
    local key = B .. id
    starts[i], ids[i], keys[i], locks[i] = at, id, key, key .. ":lock"
    if word == "c" then
      at = at + 4
    elseif word == "cC" then
      keep = new_keep(tonumber(args[at + 4]), tonumber(args[at + 5]))
      rules = i > 1
      at = at + 6
    else
      special[i], at = ends(q).read(at, keep)
      keep = special[i].keep
    end
    keeps[i] = keep
  end
end

-- May each entry settle its job? Those that are not plain completions by the owner become special.
local function look()
  local tokens = n > 0 and call("MGET", unpack(locks)) or {}
  local children = {B .. "stalled"}
  for i = 1, n do
    local v = try_record("HMGET", keys[i], "timestamp", "atm", "deid", "parentKey", "emq:cancel", "defa")
    if special[i] or tokens[i] ~= args[starts[i] + 1] or not v[1] or v[3] or v[4] or v[5] or v[6] then
      special[i] = special[i] or ends(q).read(starts[i], keeps[i])
      ends(q).look(special[i], tokens[i], v)
    end
    made[i] = v[2]
    if not special[i] and keeps[i].count ~= 0 then
      finish_top(q, COMPLETED)
    elseif special[i] and not special[i].refused then
      ends(q).sound(special[i])
    end
    if not special[i] or special[i].kind == "c" then
      children[#children + 1] = keys[i] .. ":dependencies"
      children[#children + 1] = keys[i] .. ":unsuccessful"
    end
  end
  if call_list(children, "EXISTS") == 0 then
    return
  end
  q.stalled = call("SCARD", B .. "stalled") > 0
  for i = 1, n do
    local e = special[i] or ends(q).read(starts[i], keeps[i])
    if e.kind == "c" and not e.refused then
      e.refused = ends(q).of_children(e)
      special[i] = special[i] or e.refused and e
    end
  end
end

-- An entry of a job that is not in `active` any more, or that another entry has named: it is looked at
-- when its turn comes.
local function put_off(i)
  special[i] = special[i] or ends(q).read(starts[i], keeps[i])
  special[i].again = true
end

-- Takes the jobs that may be settled out of `active`, with their locks.
local function leave()
  local leaving, unlocked = ids, locks
  if next(special) then
    local seen = {}
    leaving, unlocked = {}, {}
    for i = 1, n do
      if seen[ids[i]] then
        put_off(i)
      elseif not special[i] or not special[i].refused then
        leaving[#leaving + 1] = ids[i]
        unlocked[#unlocked + 1] = locks[i]
      end
      seen[ids[i]] = true
    end
  end
  if #leaving == 0 then
    return
  end
  local there = leave_active(q, leaving)
  finish_begin(q)
  for i = 1, #unlocked do
    q.gone[i] = unlocked[i]
  end
  if q.stalled then
    call_list(leaving, "SREM", B .. "stalled")
  end
  q.freed = true
  for i = 1, there and n or 0 do
    local e = special[i]
    if not there[ids[i]] and not (e and (e.refused or e.again)) then
      put_off(i)
    end
    there[ids[i]] = nil -- a second entry of the same job finds it gone
  end
end

local t, out = take_args(unpack(ARGV, 6, 12)), {}
read_entries()
look()
leave()
local alike = n > 1 and not rules and not next(special)
for i = 1, n do
  local e = special[i]
  if e then
    out[2 * i - 1], out[2 * i] = ends(q).finish(e)
  else
    complete(q, ids[i], keys[i], plus_one(made[i]), args[starts[i] + 3], keeps[i])
    if not alike then
      out[2 * i - 1], out[2 * i] = OK, keeps[i].count == 0 and 0 or COMPLETED
    end
  end
end
if alike then
  out = {OK, keeps[1].count == 0 and 0 or COMPLETED, n}
end
finish_flush(q)
local taken = t.count > 0 and go_on(n > 0, take, q, t) or 0

local busy = t.jobs and #t.jobs > 0 and t.mode ~= FIRE_AND_FORGET
--@include lib/out.lua
if taken ~= 0 then
  finish_flush(q)
end
save()
receipt_put(ARGV[4], ARGV[5], "settle", {now_ms, out, taken ~= 0 and taken_short(taken, t.mode) or 0})
return {now_ms, out, taken}
end
return run()
