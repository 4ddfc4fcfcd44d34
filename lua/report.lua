-- Writes the report of one process of the fleet and lists it, or removes both.
--
-- A process runs it when it joins and leaves, and once a minute. In between, every five
-- seconds, SET <prefix>:{fleet}:<id> <report> PX 3600000 XX does for a tenth of the cost;
-- where it answers nil, Redis lost the report, and this follows.
--
-- KEYS[1]  <prefix>:{fleet}:<id>, a string: the report, in JSON, for an hour. A process
--          whose report is older than 30 seconds hangs or is gone.
-- KEYS[2]  <prefix>:{fleet}:members, a sorted set: the ids by when they end here, in
--          milliseconds of Redis's time: an hour and two minutes after this was run
-- KEYS[3]  <prefix>:{fleet}:emptied, a string, for a day: when a process first found that Redis
--          had lost its report and its place in the list, in milliseconds
-- ARGV[1]  the id
-- ARGV[2]  the report; empty: it is removed
-- ARGV[3]  what this replied to the process last; 0: it never has
--
-- Reply    {now}: Redis's time in milliseconds
-- Errors   Redis's own (WRONGTYPE, READONLY …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' \
--            'priority:{fleet}:members' 'priority:{fleet}:emptied' , w1 \
--            '{"format":1,"id":"w1","name":"worker 1"}' 0

local report, members, emptied = KEYS[1], KEYS[2], KEYS[3]
local call, lasts, listed = redis.call, 3600000, 3720000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', members, '-inf', now)
if ARGV[2] == '' then
  call('ZREM', members, ARGV[1])
  call('UNLINK', report)
else
  local new = call('ZADD', members, now + listed, ARGV[1]) == 1
  local written = call('SET', report, ARGV[2], 'PX', lasts, 'GET')
  if new and not written and now - ARGV[3] < lasts then
    call('SET', emptied, string.format('%d', now), 'PX', 86400000, 'NX')
  end
  call('PEXPIRE', members, listed)
end
return {now}
