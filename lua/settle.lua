-- Counts documents of one customer that were answered before, unless the count was
-- reset since.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- ARGV[1]  how many documents, 1 to 1000000
-- ARGV[2]  the count that was known when they were answered
--
-- Reply    {1, level, count, reset_in}: they are counted; level, count and the
--          milliseconds until the count starts afresh, as of next.lua.
--          {0, 0, 0, 0}: they are not, because the count is above ARGV[2] or there
--          is none: it was reset or has expired, and starts afresh without them.
-- Errors   CORRUPTCOUNT: the key holds no count. Redis's own (READONLY, OOM …).
--          With any of them nothing was changed.
--
-- Try it   redis-cli --eval settle.lua 'priority:{acme}:count' , 5 -30

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local key, n = KEYS[1], ARGV[1] + 0
local held = redis.pcall('GET', key)
if not held then
  return {0, 0, 0, 0}
end
-- An error reply is a table with err; indexing a string gives nil there.
if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
  return held
end
if held.err or not (held == '0' or
  #held <= 16 and string.find(held, '^-?[1-9]%d*$') and math.abs(tonumber(held)) < 1e15) or
  held - n <= -1e15 then
  return redis.error_reply(corrupt)
end
if held + 0 > ARGV[2] + 0 then
  return {0, 0, 0, 0}
end

local count = redis.call('DECRBY', key, n)
local reset_in = interval + 0
local left = since_last_reset and redis.call('PTTL', key) or -1
if left >= 0 and left <= reset_in then
  reset_in = left
else
  redis.call('PEXPIRE', key, interval)
end

-- begin levels
local level = 1
if count < -2 then
  if count < -20 then level = 9
  elseif count < -14 then level = 8
  elseif count < -12 then level = 7
  elseif count < -10 then level = 6
  elseif count < -8 then level = 5
  elseif count < -6 then level = 4
  elseif count < -4 then level = 3
  else level = 2
  end
end
-- end levels

return {1, level, count, reset_in}
