-- DECR first, and only where the key may be new a look whether it was: the least,
-- but a key without a TTL would be there if what follows were refused.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local count = redis.call('DECR', KEYS[1])
if count == -1 and redis.call('PTTL', KEYS[1]) == -1 then
  count = redis.call('INCR', KEYS[1])
end
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
