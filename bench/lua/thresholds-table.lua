-- As exists-decr, with the thresholds in a table, which Lua makes at each call.
--
-- KEYS[1]  the count
-- Reply    {level, count}

local count = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  count = redis.call('DECR', KEYS[1])
  redis.call('PEXPIRE', KEYS[1], '1500000')
else
  redis.call('SET', KEYS[1], '0', 'PX', '1500000')
end
local level = 1
for _, threshold in ipairs({-2, -4, -6, -8, -10, -12, -14, -20}) do
  if count >= threshold then
    break
  end
  level = level + 1
end
return {level, count}
