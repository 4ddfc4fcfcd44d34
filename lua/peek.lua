-- Tells one customer's last decision. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
--
-- Reply    {level, count, reset_in}, as of next.lua; where there is no key the
--          count is 0 and so is reset_in, which is 0 too for a key without TTL.
-- Errors   CORRUPTCOUNT: the key holds no count. Redis's own (LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count'

local count, reset_in = 0, 0
local held = redis.pcall('GET', KEYS[1])
if held then
  -- An error reply is a table with err; indexing a string gives nil there.
  if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  if held.err or not (held == '0' or
    #held <= 16 and string.find(held, '^-?[1-9]%d*$') and math.abs(tonumber(held)) < 1e15) then
    return redis.error_reply('CORRUPTCOUNT the key holds something else than a count')
  end
  count = tonumber(held)
  reset_in = math.max(redis.call('PTTL', KEYS[1]), 0)
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
