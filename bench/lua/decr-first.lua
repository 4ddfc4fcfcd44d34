-- DECR first, as the module's own, but with nothing checked: what the checks cost.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local count = redis.call('DECR', KEYS[1])
if count == -1 and redis.call('PTTL', KEYS[1]) == -1 then
  count = redis.call('INCR', KEYS[1])
end
redis.call('PEXPIRE', KEYS[1], '1500000')
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
return {level, count}
