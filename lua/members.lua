-- Lists the processes of the fleet that reported within the last hour. As a script it runs on
-- the master, wherever the client sends commands that read.
--
-- KEYS[1]  <prefix>:{fleet}:members, the sorted set that report.lua explains
-- ARGV[1]  how many ids at most
--
-- Reply    the ids
-- Errors   Redis's own (WRONGTYPE, NOPERM, LOADING …)
--
-- Try it   redis-cli --eval members.lua 'priority:{fleet}:members' , 1000

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
return redis.call('ZRANGEBYSCORE', KEYS[1], now, '+inf', 'LIMIT', 0, ARGV[1])
