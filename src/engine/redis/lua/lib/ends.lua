-- Entries of a settlement that are not just a completion by the owner.
--@include lib/rare.lua

local ENDS
local function ends(q)
  if ENDS then
    return ENDS
  end
  local PENDING_CHILDREN, FAILED_CHILD = 14, 15
  local LETTERS = {A = "admin", E = "renc", R = "reason", T = "trace", L = "traces", D = "delay", M = "max"}
  local MORE = {"processedOn", "emq:tk", "priority", "ats", "stc", "parent", "rjk"}

  -- The entry at ARGV[at]; keep: of the one before. Also answers where the next one is.
  local function read(at, keep)
    local word = ARGV[at + 2]
    local e = {id = ARGV[at], key = q.b .. ARGV[at], token = ARGV[at + 1], kind = string.sub(word, 1, 1), keep = keep,
               reason = ""}
    at = at + 3
    if e.kind == "c" then
      e.value = ARGV[at]
      at = at + 1
    end
    for letter in string.gmatch(word, "[%ul]") do
      if letter == "l" then
        e.lifo = true
      elseif letter == "C" then
        e.keep = new_keep(tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
        at = at + 2
      else
        e[LETTERS[letter]] = ARGV[at]
        at = at + 1
      end
    end
    return e, at
  end

  -- Fills e.refused, an outcome, unless the entry may settle the job. v: of its hash: timestamp, atm, deid,
  -- parentKey, emq:cancel, defa.
  local function look(e, lock, v)
    local R, more = rare(), try_record("HMGET", e.key, unpack(MORE))
    local h = {atm = v[2], deid = v[3], parentKey = v[4], ["emq:cancel"] = v[5], defa = v[6]}
    for i, name in ipairs(MORE) do
      h[name] = more[i]
    end
    h.token, h.mode = R.last_token(h["emq:tk"], h.processedOn)
    e.h = h
    e.refused = nil
    if not v[1] then
      e.refused = NOT_FOUND
    elseif e.token ~= "" then
      if not R.owns(q, e.id, e.token, lock, h["emq:tk"], h.processedOn) then
        e.refused = LOST
      end
    elseif not R.in_active(q, e.id) then
      e.refused = WRONG_STATE
    end
    if not e.refused and (e.kind == "r" or e.kind == "b") and h.mode == AT_MOST_ONCE then
      e.refused = WRONG_STATE
    end
  end

  -- The keys that the entry may write to, see lib/sound.lua.
  local function sound(e)
    local R, h = rare(), e.h
    local back = (e.kind == "r" or e.kind == "b") and not h["emq:cancel"]
    if e.kind == "c" then
      finish_top(q, COMPLETED)
    elseif not back then
      finish_top(q, FAILED)
    end
    if back and tonumber(e.delay or 0) > 0 then
      R.sound(q, "delayed")
    elseif back or e.kind == "s" then
      R.sound(q, "wait", "prioritized", "pc")
    end
    if not back then
      R.sound_parent(h)
      if h.deid then
        R.sound_dedup(q)
      end
    end
  end

  -- Why a parent may not complete: its children are not all done, or one has failed that fails it; nil: it may.
  local function of_children(e)
    local waits, failed = try_record("SCARD", e.key .. ":dependencies"), try_record("ZCARD", e.key .. ":unsuccessful")
    return type(waits) == "number" and waits > 0 and PENDING_CHILDREN or
           type(failed) == "number" and failed > 0 and FAILED_CHILD or nil
  end

  -- An entry whose job was not in `active` any more when all were taken out: perhaps the same job once
  -- more, as the entries before it have left it.
  local function look_again(e)
    finish_flush(q)
    flush(q)
    look(e, call("GET", e.key .. ":lock"),
         try_record("HMGET", e.key, "timestamp", "atm", "deid", "parentKey", "emq:cancel", "defa"))
    if not e.refused and e.kind == "c" then
      e.refused = of_children(e)
    end
    if not e.refused then
      if leave_active(q, {e.id}) then
        e.refused = LOST
      else
        call("DEL", e.key .. ":lock")
        call("SREM", q.b .. "stalled", e.id)
      end
    end
  end

  local function refuse(e)
    finish_flush(q) -- it may have been on its way out
    if e.refused == NOT_FOUND or call("EXISTS", e.key) == 0 then
      return NOT_FOUND, 0
    end
    if e.refused == LOST then
      rare().history(q, e.id, "refused", e.token, "settle")
    end
    local known, state = where_sound(rare().state_of, q, e.id) -- other entries have been settled
    return e.refused, known and state or 0
  end

  -- The elements of a JSON array of strings, as they are written; none if it is something else.
  local function elements(json)
    local list, at = {}, string.match(json, "^%s*%[%s*()")
    while at and string.sub(json, at, at) == '"' do
      local stop = at + 1
      while true do
        stop = string.find(json, '["\\]', stop)
        if not stop then
          return {}
        elseif string.sub(json, stop, stop) == '"' then
          break
        end
        stop = stop + 2
      end
      list[#list + 1] = string.sub(json, at, stop)
      at = string.match(json, "^%s*,%s*()", stop + 1)
    end
    return list
  end

  -- The fields of an attempt that failed.
  local function attempt(e, made)
    local set = {"atm", made}
    if e.trace then
      local list = elements(call("HGET", e.key, "stacktrace") or "")
      list[#list + 1] = e.trace
      local limit = tonumber(e.traces or -1)
      local from = limit >= 0 and math.max(#list - limit + 1, 1) or 1
      set[3], set[4] = "stacktrace", "[" .. table.concat(list, ",", from) .. "]"
    end
    return set
  end

  local function go_back(e, set, front)
    local h, delay = e.h, tonumber(e.delay or 0)
    local owner = e.token ~= "" and e.token or h.token or ""
    rare().history(q, e.id, e.kind == "r" and "retried" or "released", owner, e.reason)
    if delay > 0 then
      set[#set + 1] = "delay"
      set[#set + 1] = num(delay)
    end
    call("HSET", e.key, unpack(set))
    if delay > 0 then
      rare().place_delayed(q, e.id, now_ms + delay)
      return DELAYED
    end
    local priority = tonumber(h.priority or 0) or 0
    place_line(q, e.id, priority, front)
    event(q, "waiting", "jobId", e.id, "prev", "active")
    return priority > 0 and PRIORITIZED or WAITING
  end

  local function fail(e, reason, keep, set, made)
    local own = rare().own_opts(q, e.id)
    return rare().finish(q, e.id, e.h, {state = FAILED, reason = reason, keep = keep or own.keep, set = set,
                                        prev = "active",
                                        made = made and tonumber(made) >= own.attempts and made or nil})
  end

  local function settle(e)
    local h, made = e.h, plus_one(e.h.atm)
    if e.kind == "c" then
      return rare().finish(q, e.id, h, {state = COMPLETED, value = e.value, renc = e.renc, keep = e.keep,
                                        set = {"atm", made}, prev = "active"})
    elseif e.kind == "f" then
      return fail(e, e.reason, e.keep, attempt(e, made), made)
    elseif e.kind == "s" then
      return rare().stall(q, e.id, h, {max = tonumber(e.max or 0), reason = e.reason, keep = e.keep})
    end
    local retry = e.kind == "r"
    local set = retry and attempt(e, made) or {"ats", num((tonumber(h.ats or 0) or 0) - 1)}
    if h["emq:cancel"] then -- it does not run again
      return fail(e, rare().CANCELLED, nil, set, retry and made)
    elseif retry then
      set[#set + 1] = "failedReason"
      set[#set + 1] = e.reason
      count(q, "retried")
    end
    return go_back(e, set, e.lifo or not retry)
  end

  -- Ends the entry. Answers outcome and state.
  local function finish_entry(e)
    if e.again or e.refused == NOT_FOUND then -- an entry before it may have brought that id into line
      look_again(e)
    end
    if e.refused then
      return refuse(e)
    end
    if e.token == "" then
      rare().history(q, e.id, "admin", e.admin, "settle")
    end
    return OK, settle(e)
  end

  ENDS = {read = read, look = look, sound = sound, of_children = of_children, finish = finish_entry}
  return ENDS
end
