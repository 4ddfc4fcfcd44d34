-- Writes the report of one process of the fleet and lists it, or removes both, and adds what
-- the process counted to the fleet's history.
--
-- A process runs it when it joins and leaves, and every 45 seconds. In between, every five
-- seconds, SET <prefix>:{fleet}:<id> <report> PX 3600000 XX does for a tenth of the cost;
-- where it answers nil, Redis lost the report, and this follows.
--
-- KEYS[1]  <prefix>:{fleet}:<id>, a string: the report, in JSON, for an hour. A process
--          whose report is older than 30 seconds hangs or is gone.
-- KEYS[2]  <prefix>:{fleet}:members, a sorted set: the ids by when they end here, in
--          milliseconds of Redis's time: an hour and two minutes after this was run
-- KEYS[3]  <prefix>:{fleet}:emptied, a string, for a day: when a process first found that Redis
--          had lost its report and its place in the list, in milliseconds
-- KEYS[4]  <prefix>:{fleet}:history, with which the names of hashes begin, each for 25 hours:
--          <prefix>:{fleet}:history:5985973 is the 5985973rd five minutes of Redis's time
-- ARGV[1]  the id
-- ARGV[2]  the report; empty: it is removed
-- ARGV[3]  what this replied to the process last; 0: it never has
-- ARGV[4…] for the history: a field, what to add to it, a field, …
--
-- Reply    {now}: Redis's time in milliseconds
-- Errors   Redis's own (WRONGTYPE, READONLY …). With any of them nothing was changed,
--          except that without a right to a command here, or beside a history of another
--          type, the commands before it have run.
--
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' 'priority:{fleet}:members' \
--            'priority:{fleet}:emptied' 'priority:{fleet}:history' , w1 \
--            '{"format":1,"id":"w1","name":"worker 1"}' 0 d1 12 w1.9 7

local report, members, emptied, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local call, lasts, listed = redis.call, 3600000, 3720000
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
call('ZREMRANGEBYSCORE', members, '-inf', now)
local ends = call('ZMSCORE', members, ARGV[1])[1]
if ARGV[2] == '' then
  call('ZREM', members, ARGV[1])
  call('UNLINK', report)
else
  call('ZADD', members, now + listed, ARGV[1])
  local written = call('SET', report, ARGV[2], 'PX', lasts, 'GET')
  if not ends and not written and now - ARGV[3] < lasts then
    call('SET', emptied, string.format('%d', now), 'PX', 86400000, 'NX')
  end
  call('PEXPIRE', members, listed)
end
-- A run whose reply was lost has counted, and this may be a repetition of it: better too few.
local again = ends and ends - listed ~= ARGV[3] + 0 or not ends and ARGV[2] == ''
if ARGV[4] and not again then
  local slot = history .. string.format(':%d', math.floor(now / 300000))
  for i = 4, #ARGV, 2 do
    call('HINCRBY', slot, ARGV[i], ARGV[i + 1])
  end
  call('PEXPIRE', slot, 90000000)
end
return {now}
