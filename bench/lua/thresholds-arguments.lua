-- As exists-decr, with the interval and the thresholds as arguments.
--
-- KEYS[1]  the count
-- ARGV     1500000 -2 -4 -6 -8 -10 -12 -14 -20
-- Reply    {level, count}

local count = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  count = redis.call('DECR', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
else
  redis.call('SET', KEYS[1], '0', 'PX', ARGV[1])
end
local level = 1
for i = 2, #ARGV do
  if count >= tonumber(ARGV[i]) then
    break
  end
  level = level + 1
end
return {level, count}
