-- Tells a worker which rules operators have set, if it does not know. As a script it runs
-- on the master, wherever the client sends commands that read.
--
-- KEYS[1]  <prefix>:{control}:rules, the string that rules.lua explains
-- ARGV[1]  how the rules begin that the caller knows, up to the number behind "changed":
--          {"version":12,"changed":1764115200000. Empty: it knows none.
--
-- Reply    {now} if KEYS[1] begins like this, or does not exist and ARGV[1] is empty; else
--          {now, rules}: Redis's time in milliseconds, and what KEYS[1] holds, empty if it
--          does not exist
-- Errors   CORRUPT: the key is not a string. Redis's own (NOPERM, LOADING …).
--
-- A worker follows rules of a later version than all that it has read, or that were changed
-- later. If the rules are gone or not newer, Redis lost data, in a failover for instance:
-- the worker keeps the rules that it follows, and reports it. Rules of null are newer
-- rules too: the worker's own options apply.
--
-- Try it   redis-cli --eval follow.lua 'priority:{control}:rules' , ''

local rules = redis.pcall('GET', KEYS[1])
if type(rules) == 'table' then
  if string.find(rules.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPT ' .. KEYS[1] .. ' is not a string')
  end
  return rules
end
rules = rules or ''
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if (rules == '' and '' or string.match(rules, '^{"version":%d+,"changed":%d+')) == ARGV[1] then
  return {now}
end
return {now, rules}
