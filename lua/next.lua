-- Counts documents of one customer and decides the level of the last of them. The count is
-- 0 after a customer's first document and goes down by one with each further one.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
--          For a user of an account the keys are <prefix>:{<account>}/<user>:count and …:override.
-- KEYS[2]  <prefix>:{<customer>}:override, a string: what an operator has set for the
--          customer until its TTL ends: "=1" for level 1, ">=7" for level 7 or a later
--          one, "<=3" for level 3 or an earlier one. More may follow after a space.
--          Another text, or a key of another kind, is no override. Without this key, no
--          override is read.
-- KEYS[3]  for a user of an account its override, for users who have none of their own
-- ARGV[1]  how many documents, 1 to 1000000 (default 1)
--
-- Reply    {level, count} or {level, count, reset_in}: the last document's level,
--          1 being first; the count after it; the milliseconds until the count is reset
--          if nothing more comes, left out if that is the whole interval. Of n
--          documents, the first has count + n - 1.
--          With an override {level, count, reset_in, rule_level, earliest, latest,
--          ends_in}: rule_level is the level without it, earliest and latest are its
--          bounds, and it ends in ends_in milliseconds, -1: never.
-- Errors   CORRUPTCOUNT: the key holds no count. ERR the …: ARGV[1] is no such number.
--          Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval next.lua 'priority:{acme}:count'
--
-- The lines between "begin" and "end" are written by the module: policy, queue and levels
-- are those of the default policy, override is common to several scripts.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin queue
local queue_levels = 9
-- end queue

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local key, n, first_override, override_step = KEYS[1], ARGV[1], 2, 1
if n and not (string.find(n, '^[1-9]%d*$') and n + 0 <= 1000000) then
  return redis.error_reply('ERR the number of documents is not 1 to 1000000')
end

-- begin override
-- The bounds of an operator's override, if one is in force: of the first of its keys that holds
-- one. A key of another kind is none; a right to read it that is missing is an error.
local earliest, latest, override
for at = first_override, #KEYS, override_step do
  local ruling = redis.pcall('GET', KEYS[at])
  if ruling and ruling.err then
    if not string.find(ruling.err, 'wrong kind of value', 1, true) then
      return ruling
    end
  elseif ruling then
    local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
    if how and (rest == '' or rest == ' ') then
      level = math.min(level + 0, queue_levels)
      earliest = how == '<=' and 1 or level
      latest = how == '>=' and queue_levels or level
      override = KEYS[at]
      break
    end
  end
end
-- end override

-- A key that DECR has just made has no TTL: it starts at 0, with one. So a count of 0
-- without a TTL, which nothing here writes, counts as none.
local count, left, reset_in
if n then
  count = redis.pcall('DECRBY', key, n)
else
  count = redis.pcall('DECR', key)
end
if type(count) == 'table' then
  if string.find(count.err, 'not an integer', 1, true) or
    string.find(count.err, 'wrong kind of value', 1, true) or
    string.find(count.err, 'overflow', 1, true) then
    return redis.error_reply(corrupt)
  end
  return count
end
-- Lua compares numbers of up to 15 digits exactly. Such a count is put back.
if count <= -1e15 or count + (n or 1) >= 1e15 then
  redis.call('INCRBY', key, n or 1)
  return redis.error_reply(corrupt)
end
local first = count == -(n or 1)
if first or since_last_reset then
  left = redis.call('PTTL', key)
end
if first and left == -1 then
  count = count + 1
  redis.call('SET', key, count, 'PX', interval)
elseif since_last_reset and left >= 0 and left <= interval + 0 then
  reset_in = left
else
  redis.call('PEXPIRE', key, interval)
end

-- begin levels
local level = 1
if count < -20 then level = 9
elseif count >= -2 then level = 1
elseif count >= -4 then level = 2
elseif count >= -6 then level = 3
elseif count >= -8 then level = 4
elseif count >= -10 then level = 5
elseif count >= -12 then level = 6
elseif count >= -14 then level = 7
elseif count >= -20 then level = 8
end
-- end levels

if earliest then
  return {math.min(math.max(level, earliest), latest), count, reset_in or interval + 0, level, earliest, latest,
    redis.call('PTTL', override)}
elseif reset_in then
  return {level, count, reset_in}
end
return {level, count}
