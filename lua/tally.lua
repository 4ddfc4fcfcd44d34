-- Adds up what a worker has seen of a policy on trial.
--
-- KEYS[1]  <prefix>:{control}:trial, a hash: the trial's version, and documents by
--          "<level> <level by the policy on trial>". It lives for 30 days after the
--          last of them.
-- ARGV[1]  the trial's version
-- ARGV[2…] level, level by the policy on trial, documents; and so on
--
-- Reply    {1}; {0} if a later trial has begun, and nothing was changed
-- Errors   CORRUPTTRIAL: the key holds something else. Redis's own (READONLY …).
--
-- Try it   redis-cli --eval tally.lua 'priority:{control}:trial' , 17 9 8 250

local corrupt = redis.error_reply('CORRUPTTRIAL the key holds something other than a trial\'s total')
local held = redis.pcall('HGET', KEYS[1], 'version')
if held and (held.err or #held > 15 or not string.find(held, '^%d+$')) then
  if held.err and not string.find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  return corrupt
end
if held and held + 0 > ARGV[1] + 0 then
  return {0}
end
if not held or held + 0 < ARGV[1] + 0 then
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], 'version', ARGV[1])
end
for i = 2, #ARGV, 3 do
  redis.call('HINCRBY', KEYS[1], ARGV[i] .. ' ' .. ARGV[i + 1], ARGV[i + 2])
end
redis.call('PEXPIRE', KEYS[1], 30 * 24 * 60 * 60 * 1000)
return {1}
