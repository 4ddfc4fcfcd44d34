-- GET, and SET of what Lua has reckoned: two calls, but of a costly command.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local count = redis.call('GET', KEYS[1])
count = count and count - 1 or 0
redis.call('SET', KEYS[1], count, 'PX', '1500000')
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
