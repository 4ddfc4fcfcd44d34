-- Returns what holds for one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
--
-- Reply    {level, count, pending, reset_in}: the level of the count where nothing
--          is pending, else the level that the customer's last document has. Where
--          there is no count it is 0 and so is reset_in, which is 0 too for a key
--          without a TTL.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING: the first or second key holds something
--          else. Redis's own (LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' 'priority:{acme}:pending'

local function level_of(count)
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
return level
end

local function failed(reply, code)
  if string.find(reply.err, 'wrong kind of value', 1, true) then
    return redis.error_reply(code)
  end
  return reply
end

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local held = redis.pcall('GET', KEYS[1])
if held and held.err then
  return failed(held, corrupt)
end
if held and not (held == '0' or
  #held <= 16 and string.find(held, '^-?[1-9]%d*$') and math.abs(tonumber(held)) < 1e15) then
  return redis.error_reply(corrupt)
end
local count = held and tonumber(held) or 0
local reset_in = held and math.max(redis.call('PTTL', KEYS[1]), 0) or 0

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local pending = redis.pcall('ZCOUNT', KEYS[2], now, '+inf')
if type(pending) == 'table' then
  return failed(pending, 'CORRUPTPENDING the key holds something other than pending documents')
end
local level = level_of(count)
if pending > 0 then
  level = math.floor((level + level_of(1 - pending) + 1) / 2)
end
return {level, count, pending, reset_in}
