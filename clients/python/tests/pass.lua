-- Lets time pass for one customer, in a test. Redis's clock cannot be moved, but what
-- it is compared with can.
--
-- KEYS[1]  <prefix>:{<customer>}:count
-- KEYS[2]  <prefix>:{<customer>}:pending
-- KEYS[3]  <prefix>:{<customer>}:usage
-- KEYS[4]  <prefix>:{<customer>}:override
-- ARGV[1]  how many milliseconds
-- ARGV[2]  how many milliseconds of the count's time stand for one of them
--
-- Reply    OK
--
-- Try it   redis-cli --eval clients/python/tests/pass.lua 'priority:{acme}:count' \
--            'priority:{acme}:pending' 'priority:{acme}:usage' \
--            'priority:{acme}:override' , 60000 1

local passed, stretch = tonumber(ARGV[1]), tonumber(ARGV[2])

-- A document is pending until a lease after its Submit, whose time is in its score, 64
-- times. So earlier scores are less lease left. Those beyond the last load are below zero.
local documents = redis.pcall('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
if not documents.err then -- else the key holds something else
  for i = 1, #documents, 2 do
    local submitted = tonumber(documents[i + 1])
    local earlier = submitted > 0 and submitted - 64 * passed or submitted + 64 * passed
    redis.call('ZADD', KEYS[2], string.format('%.0f', earlier), documents[i])
  end
end

for i, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  local shorter = left - (i == 1 and passed * stretch or passed)
  if left >= 0 and shorter > 0 then
    redis.call('PEXPIRE', key, string.format('%.0f', shorter))
  elseif left >= 0 then
    redis.call('DEL', key)
  end
end
return redis.status_reply('OK')
