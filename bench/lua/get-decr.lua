-- GET tells whether the key is there; then DECR and PEXPIRE, or SET.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local count = 0
if redis.call('GET', KEYS[1]) then
  count = redis.call('DECR', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], '1500000')
else
  redis.call('SET', KEYS[1], '0', 'PX', '1500000')
end
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
