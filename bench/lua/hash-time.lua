-- A hash with the count and the time of the last update, by Redis's clock.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local held = redis.call('HMGET', KEYS[1], 'count', 'at')
local count = 0
if held[1] and now - held[2] <= 1500000 then
  count = held[1] - 1
end
redis.call('HSET', KEYS[1], 'count', count, 'at', now)
redis.call('PEXPIRE', KEYS[1], '1500000')
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
return {level, count}
