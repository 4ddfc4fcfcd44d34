-- Tells a worker which policies operators have set, if it does not know. As a script it runs
-- on the master, wherever the client sends commands that read.
--
-- KEYS[1]  <prefix>:{control}:policies, the string that policies.lua explains
-- KEYS[2]  <prefix>:{control}:log, the stream of what operators change; may be left out
-- ARGV[1]  how the policies begin that the caller follows, up to the number behind "changed":
--          {"version":12,"changed":1764115200000. Empty: it follows none. "refused": it
--          cannot follow what it has read.
--
-- Reply    {now} if KEYS[1] begins like this, or does not exist and ARGV[1] is empty; else
--          {now, policies}: Redis's time in milliseconds, and what KEYS[1] holds, empty if
--          it does not exist. With KEYS[2], behind now comes when operators last changed
--          something, by the log, in milliseconds; 0: that is not known.
-- Errors   CORRUPT: the key is not a string. Redis's own (NOPERM, LOADING …).
--
-- A worker follows policies of a later version than all that it has read, or that were changed
-- later. If the policies are gone or not newer, Redis lost data, in a failover for instance:
-- the worker keeps the policies that it follows, and reports it. Policies of null
-- are newer ones too: the worker's own options apply.
--
-- Try it   redis-cli --eval follow.lua 'priority:{control}:policies' , ''

local policies = redis.pcall('GET', KEYS[1])
if type(policies) == 'table' then
  if string.find(policies.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPT ' .. KEYS[1] .. ' is not a string')
  end
  return policies
end
policies = policies or ''
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = {now}
if KEYS[2] then
  local latest = redis.pcall('XREVRANGE', KEYS[2], '+', '-', 'COUNT', '1')
  if latest.err and not string.find(latest.err, 'wrong kind of value', 1, true) then
    return latest
  end
  reply[2] = latest[1] and string.match(latest[1][1], '^%d+') + 0 or 0
end
if (policies == '' and '' or string.match(policies, '^{"version":%d+,"changed":%d+')) == ARGV[1] then
  return reply
end
reply[#reply + 1] = policies
return reply
