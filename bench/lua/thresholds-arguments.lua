-- As decr-first, with the interval and the thresholds as arguments.
--
-- KEYS[1]  the count
-- ARGV     1500000 -2 -4 -6 -8 -10 -12 -14 -20
-- Reply    {level, count}

local count = redis.call('DECR', KEYS[1])
if count == -1 and redis.call('PTTL', KEYS[1]) == -1 then
  count = redis.call('INCR', KEYS[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local level = 1
for i = 2, #ARGV do
  if count >= tonumber(ARGV[i]) then
    break
  end
  level = level + 1
end
return {level, count}
