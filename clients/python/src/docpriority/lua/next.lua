-- Counts documents of one customer and decides the level of the last of them.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:override, a string: what an operator has set for the
--          customer until its TTL ends: "=1" for level 1, ">=7" for level 7 or a later
--          one, "<=3" for level 3 or an earlier one. What is written otherwise, or of
--          another kind, is none. Without this key, no override is read.
-- ARGV[1]  how many documents, 1 to 1000000 (default 1)
--
-- Reply    {level, count} or {level, count, reset_in}: the last document's level,
--          1 being first; the count after it; the milliseconds until the count
--          is reset if nothing more comes, if that is not the whole
--          interval. Of n documents, the first has count + n - 1.
--          With an override {level, count, reset_in, ruled, earliest, latest, ends_in}:
--          ruled is the level without it, earliest and latest are its bounds, and
--          ends_in is for how many milliseconds it holds, -1 if it has no end.
-- Errors   CORRUPTCOUNT: the key holds no count. ERR: ARGV[1] is no such number.
--          Redis's own (READONLY, OOM …). With any of them nothing was changed, except
--          that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval next.lua 'priority:{acme}:count'
--
-- The lines between "begin" and "end" are those of the default policy; the
-- module writes others there for another policy.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin queue
local queue_levels = 9
-- end queue

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local key, override, n = KEYS[1], KEYS[2], ARGV[1]
if n and not (string.find(n, '^%d+$') and n + 0 >= 1 and n + 0 <= 1000000) then
  return redis.error_reply('ERR the number of documents is not 1 to 1000000')
end

-- A key that was not there has no TTL now. So a count of 0 without a TTL, which nothing
-- here writes, counts as none.
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
-- Lua compares numbers of up to 15 digits exactly.
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

local ruling
if override then
  ruling = redis.pcall('GET', override)
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

-- begin override
-- The bounds of an operator's override: "=1", ">=7" or "<=3". Anything else is none.
local earliest, latest
if ruling and not ruling.err then
  local how, level = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)$')
  if how then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override
if earliest then
  return {math.min(math.max(level, earliest), latest), count, reset_in or interval + 0, level, earliest, latest,
    redis.call('PTTL', override)}
elseif reset_in then
  return {level, count, reset_in}
end
return {level, count}
