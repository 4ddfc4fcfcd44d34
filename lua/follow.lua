-- Tells a worker whether operators have changed anything, and which rules hold. It is a
-- script so that it is run by the master, wherever the client sends commands that read.
--
-- KEYS[1]  <prefix>:{control}:version, a string: "<version> <at> <token>" of the last
--          change of any kind. <at> is Redis's time in milliseconds, <token> is random.
-- KEYS[2]  <prefix>:{control}:rules, a string: the fleet's policies as a JSON object,
--          see change.lua
-- ARGV[1]  what KEYS[1] held when the caller last asked; empty: it never has
--
-- Reply    {version} if KEYS[1] still holds ARGV[1]; else {version, rules, now}: what the
--          keys hold, an empty version and nil for rules if they do not exist, and
--          Redis's time in milliseconds
-- Errors   CORRUPT: a key is not a string. Redis's own (NOPERM, LOADING …).
--
-- A worker follows rules that are newer than those it knows: of a later version, or of a
-- later <at>, or of the same version and yet different. If the rules are gone or not
-- newer, Redis lost data, in a failover for instance: the worker keeps the rules that it
-- knows and reports it. Rules of null are newer rules too: the worker's own options hold.
--
-- Try it   redis-cli --eval follow.lua 'priority:{control}:version' 'priority:{control}:rules' , ''

local held = {}
for i, key in ipairs(KEYS) do
  held[i] = redis.pcall('GET', key)
  if type(held[i]) == 'table' then
    if string.find(held[i].err, 'wrong kind of value', 1, true) then
      return redis.error_reply('CORRUPT ' .. key .. ' is not a string')
    end
    return held[i]
  end
  if i == 1 and held[1] and held[1] ~= '' and held[1] == ARGV[1] then
    return {held[1]}
  end
end
local time = redis.call('TIME')
return {held[1] or '', held[2], time[1] * 1000 + math.floor(time[2] / 1000)}
