-- Writes the report of one process of the fleet and lists it, or removes both.
--
-- A process runs it when it joins and leaves, and once a minute. In between, every five
-- seconds, SET <prefix>:{fleet}:<id> <report> PX 30000 XX does for a tenth of the cost;
-- where it answers nil, for the report has ended or Redis was emptied, this follows.
--
-- KEYS[1]  <prefix>:{fleet}:<id>, a string: the report, in JSON, for 30 seconds
-- KEYS[2]  <prefix>:{fleet}:members, a sorted set: the ids by when they end here, in
--          milliseconds of Redis's time: two minutes after this was run. A process whose
--          report has ended before is gone.
-- ARGV[1]  the id
-- ARGV[2]  the report; empty: it is removed
--
-- Reply    {ids}: how many are listed now.
-- Errors   Redis's own (WRONGTYPE, READONLY …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' \
--            'priority:{fleet}:members' , w1 '{"format":1,"id":"w1","name":"worker 1"}'

local report, members = KEYS[1], KEYS[2]
local call, listed = redis.call, 120000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', members, '-inf', now)
if ARGV[2] == '' then
  call('ZREM', members, ARGV[1])
  call('UNLINK', report)
else
  call('ZADD', members, now + listed, ARGV[1])
  call('PEXPIRE', members, listed)
  call('SET', report, ARGV[2], 'PX', 30000)
end
return {call('ZCARD', members)}
