-- Where a queue's keys are looked for in the whole store.
--@include lib/base.lua

-- Matches the keys of the queue, B.., and ours of it, X..; and some of others.
local function keys_pattern()
  local escaped = string.gsub(B, "[%*%?%[%]%^%\\%-]", "\\%0")
  return string.gsub(escaped, "^(.*:)([^:]*:)$", "%1*%2") .. "*"
end

-- The id of a job of a stage, whose key it is.
local function staged_id(key)
  local head = X .. "staged:"
  return string.sub(key, 1, #head) == head and string.sub(key, #head + 1) or nil
end
