-- Counts documents of one customer and decides the level of the last of them.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- ARGV[1]  how many documents, 1 to 1000000 (default 1)
--
-- Reply    {level, count, reset_in}: the last document's level, 1 being first;
--          the count after it; the milliseconds until the count starts afresh
--          if nothing more comes. Of n documents, the first has count + n - 1.
-- Errors   CORRUPTCOUNT: the key holds no count. ERR: ARGV[1] is no such number.
--          Redis's own (READONLY, OOM …). With any of them nothing was changed.
--
-- Try it   redis-cli --eval next.lua 'priority:{acme}:count'
--
-- The lines between "begin" and "end" are those of the default policy; the
-- module writes others there for another policy.

-- begin policy
local interval, reset_in = '1500000', 1500000
local since_last_reset = false
-- end policy

local key, n = KEYS[1], ARGV[1] or '1'
if ARGV[1] and not (string.find(n, '^%d+$') and n + 0 >= 1 and n + 0 <= 1000000) then
  return redis.error_reply('ERR the number of documents is not 1 to 1000000')
end

local count
local held = redis.pcall('GET', key)
if not held then
  count = 1 - n
  redis.call('SET', key, count, 'PX', interval)
else
  -- An error reply is a table with err; indexing a string gives nil there.
  if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  if held.err or #held > 15 then
    return redis.error_reply('CORRUPTCOUNT the key holds something else than a count')
  end
  count = redis.pcall('DECRBY', key, n)
  if type(count) == 'table' then
    if string.find(count.err, 'not an integer', 1, true) then
      return redis.error_reply('CORRUPTCOUNT the key holds something else than a count')
    end
    return count
  end
  local left = since_last_reset and redis.call('PTTL', key) or -1
  if left < 0 then
    redis.call('PEXPIRE', key, interval)
  else
    reset_in = left
  end
end

-- begin levels
local level = 1
if count < -20 then level = 9
elseif count < -14 then level = 8
elseif count < -12 then level = 7
elseif count < -10 then level = 6
elseif count < -8 then level = 5
elseif count < -6 then level = 4
elseif count < -4 then level = 3
elseif count < -2 then level = 2
end
-- end levels

return {level, count, reset_in}
