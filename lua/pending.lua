-- Tells one customer's count and pending documents. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
--
-- Reply    {level, count, pending, reset_in}, as of submit.lua; where there is no
--          count it is 0 and so is reset_in, which is 0 too for a key without TTL.
-- Errors   CORRUPTCOUNT: a key holds something else. Redis's own (LOADING …).
--
-- Try it   redis-cli --eval pending.lua 'priority:{acme}:count' 'priority:{acme}:pending'

local function level_of(count)
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
return level
end

local corrupt = 'CORRUPTCOUNT the key holds something else than a count'
local function failed(reply)
  if string.find(reply.err, 'wrong kind of value', 1, true) then
    return redis.error_reply(corrupt)
  end
  return reply
end

local held = redis.pcall('GET', KEYS[1])
if held and held.err then
  return failed(held)
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
  return failed(pending)
end
return {math.floor((level_of(count) + level_of(1 - pending) + 1) / 2), count, pending, reset_in}
