-- Writes the report of one process of the fleet, or removes it.
--
-- KEYS[1]  <prefix>:{fleet}:<id>, a string: the report, in JSON, for 30 seconds
-- KEYS[2]  <prefix>:{fleet}:members, a sorted set: the ids of all reports by their ends,
--          in milliseconds of Redis's time. Those that have ended are removed.
-- ARGV[1]  the id
-- ARGV[2]  the report; empty: it is removed
--
-- Reply    {reports}: how many there are now.
-- Errors   Redis's own (WRONGTYPE, READONLY …). With any of them nothing was changed.
--
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' \
--            'priority:{fleet}:members' , w1 '{"format":1,"id":"w1","name":"worker 1"}'

local report, members = KEYS[1], KEYS[2]
local call, lasts = redis.call, 30000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', members, '-inf', string.format('%.0f', now))
if ARGV[2] == '' then
  call('ZREM', members, ARGV[1])
  call('UNLINK', report)
else
  call('ZADD', members, string.format('%.0f', now + lasts), ARGV[1])
  call('PEXPIRE', members, lasts)
  call('SET', report, ARGV[2], 'PX', lasts)
end
return {call('ZCARD', members)}
