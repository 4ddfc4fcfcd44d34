'use strict';

// The scripts of the folder lua. Written by go test ./lua -update.

exports.done = `-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- ARGV[1]  how long each of them was worked on, in thousandths of what the documents of
--          all customers take, 1 to 999999; 0: not known
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {latency, level, …}: for each document the milliseconds since its Submit
--          and the level that it was given; 0 and 0 for one that was not pending, and for
--          the second of two of the same id. A document whose lease has ended counts as
--          pending here, within a day.
-- Errors   CORRUPTPENDING: the key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY …). With any of them nothing was changed, except that
--          without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' , 0 invoice-1

local set, cost, n = KEYS[1], ARGV[1], #ARGV - 1
local floor, min, max = math.floor, math.min, math.max
if not (cost and #cost <= 6 and (cost == '0' or string.find(cost, '^[1-9]%d*$'))) then
  return redis.error_reply('ERR the cost is not 0 to 999999')
elseif n < 1 or n > 1000 then
  return redis.error_reply('ERR the number of documents is not 1 to 1000')
end
cost = cost + 0
local members = {':averages'}
for i = 1, n do
  local id = ARGV[i + 1]
  if string.byte(id) == 58 then
    id = ':' .. id
  end
  members[i + 1] = id
end

local scores = redis.pcall('ZMSCORE', set, unpack(members))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local averages = scores[1] and scores[1] + 0
if averages and averages < 0 then
  return redis.error_reply('CORRUPTPENDING a later version wrote the key')
elseif averages and (averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0) then
  return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
end
-- Also if none is pending: a read-only replica, which may not know a document yet, must
-- answer READONLY and not 0.
redis.call('ZREM', set, unpack(members, 2))

-- Both averages move by a tenth of the way for each document of the last day. The latency,
-- in tenths of a second, moves no further than for three times as long as usual, and nine
-- seconds are usual: one that was late must not make others look pending for hours. What a
-- flood's documents wait does not count. The cost moves no further than for eight times the
-- usual one of the customer's, or of all: one wild number changes little.
local average = averages and averages % 1000000
local latency = averages and (averages - average) / 1000000
local time = redis.call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local reply, seen = {}, {}
for i = 1, n do
  local id, score = members[i + 1], scores[i + 1]
  local took, level = 0, 0
  if score and not seen[id] then
    seen[id] = true
    local at = math.abs(score)
    level = at % 256
    took = max(now - (at - level) / 256, 0)
    if not (took <= 86400000) then -- an infinite score, set by hand, has no time
      took, level = 0, 0
    elseif averages and score + 0 > 0 then
      local tenths = max(floor((took + 50) / 100), 1)
      if latency > 0 then
        tenths = floor((9 * latency + min(tenths, 3 * max(latency, 90)) + 5) / 10)
      end
      latency = tenths
    end
    if averages and level > 0 and cost > 0 then
      average = max(floor((9 * average + min(cost, 8 * max(average, 1000)) + 5) / 10), 1)
    end
  end
  reply[2 * i - 1], reply[2 * i] = took, level
end
local learned = averages and latency * 1000000 + average
if learned ~= averages then
  redis.call('ZADD', set, string.format('%d', learned), ':averages')
end
return reply
`;

exports.follow = `-- Tells a worker which rules operators have set, if it does not know. As a script it runs
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
`;

exports.next = `-- Counts documents of one customer and decides the level of the last of them. The count is
-- 0 after a customer's first document and goes down by one with each further one.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:override, a string: what an operator has set for the
--          customer until its TTL ends: "=1" for level 1, ">=7" for level 7 or a later
--          one, "<=3" for level 3 or an earlier one. More may follow after a space.
--          Another text, or a key of another kind, is no override. Without this key, no
--          override is read.
-- ARGV[1]  how many documents, 1 to 1000000 (default 1)
--
-- Reply    {level, count} or {level, count, reset_in}: the last document's level,
--          1 being first; the count after it; the milliseconds until the count is reset
--          if nothing more comes, left out if that is the whole interval. Of n
--          documents, the first has count + n - 1.
--          With an override {level, count, reset_in, rule_level, earliest, latest,
--          ends_in}: rule_level is the level without it, earliest and latest are its
--          bounds, ends_in is for how many milliseconds it holds, -1: it has no end.
-- Errors   CORRUPTCOUNT: the key holds no count. ERR the …: ARGV[1] is no such number.
--          Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval next.lua 'priority:{acme}:count'
--
-- The lines between "begin" and "end" are written by the module: policy, queue and levels
-- are those of the default policy, override is common to several scripts.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin queue
local queue_levels = 9
-- end queue

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local key, override, n = KEYS[1], KEYS[2], ARGV[1]
if n and not (string.find(n, '^[1-9]%d*$') and n + 0 <= 1000000) then
  return redis.error_reply('ERR the number of documents is not 1 to 1000000')
end

-- begin override
-- The bounds of an operator's override, if one is in force. A key of another kind is none;
-- a right to read it that is missing is an error.
local earliest, latest
local ruling = override and redis.pcall('GET', override)
if ruling and ruling.err then
  if not string.find(ruling.err, 'wrong kind of value', 1, true) then
    return ruling
  end
elseif ruling then
  local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
  if how and (rest == '' or rest == ' ') then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

-- A key that DECR has just made has no TTL: it starts at 0, with one. So a count of 0
-- without a TTL, which nothing here writes, counts as none.
local count, left, reset_in
if n then
  count = redis.pcall('DECRBY', key, n)
else
  count = redis.pcall('DECR', key)
end
if type(count) == 'table' then
  if string.find(count.err, 'not an integer', 1, true) or
    string.find(count.err, 'wrong kind of value', 1, true) or
    string.find(count.err, 'overflow', 1, true) then
    return redis.error_reply(corrupt)
  end
  return count
end
-- Lua compares numbers of up to 15 digits exactly. Such a count is put back.
if count <= -1e15 or count + (n or 1) >= 1e15 then
  redis.call('INCRBY', key, n or 1)
  return redis.error_reply(corrupt)
end
local first = count == -(n or 1)
if first or since_last_reset then
  left = redis.call('PTTL', key)
end
if first and left == -1 then
  count = count + 1
  redis.call('SET', key, count, 'PX', interval)
elseif since_last_reset and left >= 0 and left <= interval + 0 then
  reset_in = left
else
  redis.call('PEXPIRE', key, interval)
end

-- begin levels
local level = 1
if count < -20 then level = 9
elseif count >= -2 then level = 1
elseif count >= -4 then level = 2
elseif count >= -6 then level = 3
elseif count >= -8 then level = 4
elseif count >= -10 then level = 5
elseif count >= -12 then level = 6
elseif count >= -14 then level = 7
elseif count >= -20 then level = 8
end
-- end levels

if earliest then
  return {math.min(math.max(level, earliest), latest), count, reset_in or interval + 0, level, earliest, latest,
    redis.call('PTTL', override)}
elseif reset_in then
  return {level, count, reset_in}
end
return {level, count}
`;

exports.peek = `-- Returns all that is known of one customer now. Writes nothing.
--
-- KEYS[1]  <prefix>:{<customer>}:count, the string that next.lua writes
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[3]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
--
-- Reply    {rule, level, next_level, count, reset_in, load, recent, cost, pending,
--          beyond, oldest, latency, lease, rule_level, earliest, latest, ends_in}
--          rule: 2 if documents are pending or recent ones have not faded, else 1 if
--          there is a count, else 0. level: of the last document by the count, without
--          an override; as the newest pending document was given it by the load, 0 if
--          none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The next eight are 0 unless rule is 2. load: of a document
--          that arrives now, in millionths. recent and cost, in thousandths. pending:
--          how many documents are; beyond: those beyond the last load. oldest: for how
--          long the oldest pending one has been. latency: the average time from Submit
--          to Done, 0: not known. lease: how long a document counts as pending. oldest,
--          latency and lease are in milliseconds.
--          rule_level: next_level without the override. earliest and latest: the
--          bounds of the override. ends_in: for how many milliseconds it holds, -1 if
--          it has no end. These three are 0 without an override.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING: a key holds something else. Redis's own
--          (NOPERM, LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' 'priority:{acme}:pending'
--
-- The lines between "begin" and "end" are written by the module: lease, queue, levels and
-- loads are those of the default policy, the others are common to several scripts.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, override = KEYS[2], KEYS[3]
local call, format = redis.call, string.format
local floor, min, max = math.floor, math.min, math.max
local members = {':fades', ':averages'}

local count = redis.pcall('GET', KEYS[1])
if count and (count.err or not (count == '0' or #count <= 16 and
  string.find(count, '^-?[1-9]%d*$') and math.abs(count) < 1e15)) then
  if count.err and not string.find(count.err, 'wrong kind of value', 1, true) then
    return count
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = count and max(call('PTTL', KEYS[1]), 0) or 0

-- begin pending
-- What the set holds: two scores of our own, those of the documents in members, and how
-- many documents are pending, before the last load and beyond it. Our own lie below 1e13,
-- which is less than 256 times the time.
local scores = redis.pcall('ZMSCORE', set, unpack(members))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local fades, averages = scores[1], scores[2]
local recent, average, latency, lease, own_members = 0, 1000, 0, longest_lease, 0
if fades or averages then
  fades, averages, own_members = (fades or 1e13) + 0, (averages or 1e13) + 0, 2
  if fades < 0 or averages < 0 then
    return redis.error_reply('CORRUPTPENDING a later version wrote the key')
  elseif fades >= 1e13 or averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0 then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  if now <= fades then
    average = averages % 1000000
    latency = (averages - average) / 10000 -- in milliseconds
    if latency > 0 then
      lease = min(max(20 * latency, 180000), longest_lease)
    end
    if now < fades then
      recent = min(floor(1000 * 2 ^ ((fades - now) / day - 1) + 0.5), 512000)
    end
  end
end
local all = call('ZCARD', set) - own_members
local since, ordinary, beyond = 256 * (now - lease), 0, 0
if all > 0 then
  local from = format('%d', since)
  ordinary = call('ZCOUNT', set, from, '+inf')
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-inf', '-' .. from)
  end
end
-- end pending

-- begin override
-- The bounds of an operator's override, if one is in force. A key of another kind is none;
-- a right to read it that is missing is an error.
local earliest, latest
local ruling = override and redis.pcall('GET', override)
if ruling and ruling.err then
  if not string.find(ruling.err, 'wrong kind of value', 1, true) then
    return ruling
  end
elseif ruling then
  local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
  if how and (rest == '' or rest == ' ') then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

local reply
if ordinary + beyond > 0 or fades and now <= fades then -- by the load
  -- The newest document and the oldest. In the set, a flood's documents come first, the
  -- newest of them at 0, and the others last, the newest of them at -1.
  local newest, oldest = 0, 256 * now
  if ordinary > 0 then
    newest = call('ZRANGE', set, '-1', '-1', 'WITHSCORES')[2] + 0
    oldest = newest
    if ordinary > 1 then
      oldest = call('ZRANGE', set, format('%d', since), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
    end
  end
  if beyond > 0 then
    newest = max(newest, -call('ZRANGE', set, '0', '0', 'WITHSCORES')[2])
    oldest = min(oldest, -call('ZRANGE', set, format('-%d', since), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2])
  end
  local load = min(min(recent + 1000, 512000) * (ordinary + 1) * average, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 6
elseif load <= 8000000 then level = 1
elseif load <= 64000000 then level = 2
elseif load <= 512000000 then level = 3
elseif load <= 8192000000 then level = 4
elseif load <= 32768000000 then level = 5
end
local flood = level == 6 -- beyond the last load: take turns
if not flood then -- its level stands
elseif beyond + 1 >= 4096 then level = 9
elseif beyond + 1 >= 256 then level = 8
elseif beyond + 1 >= 16 then level = 7
end
-- end loads
  reply = {2, newest % 256, level, (count or 0) + 0, reset_in, load, recent, average, ordinary + beyond, beyond,
    max(now - floor(oldest / 256), 0), latency, lease}
else -- by the count, if there is one
  local last_level, next_level
  for ahead = 0, 1 do -- the last document, and then the next one
    local count = (count or 1) - ahead
-- begin levels
local level = 1
if count < -20 then level = 9
elseif count >= -2 then level = 1
elseif count >= -4 then level = 2
elseif count >= -6 then level = 3
elseif count >= -8 then level = 4
elseif count >= -10 then level = 5
elseif count >= -12 then level = 6
elseif count >= -14 then level = 7
elseif count >= -20 then level = 8
end
-- end levels
    last_level, next_level = next_level, level
  end
  if count then
    reply = {1, last_level, next_level, count + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0}
  else
    reply = {0, 0, next_level, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
  end
end
reply[14], reply[15], reply[16], reply[17] = reply[3], 0, 0, 0
if earliest then
  reply[3] = min(max(reply[3], earliest), latest)
  reply[15], reply[16], reply[17] = earliest, latest, call('PTTL', override)
end
return reply
`;

exports.report = `-- Writes the report of one process of the fleet and lists it, or removes both.
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
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' \\
--            'priority:{fleet}:members' 'priority:{fleet}:emptied' , w1 \\
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
`;

exports.reset = `-- Forgets one customer's count and pending documents, or whatever else the keys hold.
--
-- KEYS     <prefix>:{<customer>}:count, and the same with :pending
--
-- Reply    {deleted}: how many of the keys there were.
-- Errors   Redis's own (NOPERM, READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count' 'priority:{acme}:pending'

return {redis.call('UNLINK', unpack(KEYS))}
`;

exports.submit = `-- Submits documents of one customer: makes them pending, and decides their levels. A
-- document that is pending already is counted once; its lease begins again.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set. Its members are the pending
--          documents, by 256 times the time of their Submit in milliseconds of Redis's
--          clock, plus the level; negative beyond the last load, in a flood. And two of
--          our own, whose scores lie between 0 and all documents':
--          ":fades"     when less than half a document is left of the recent ones, in
--                       milliseconds. They halve each day: u fade in 1 + log2(u) days.
--          ":averages"  a million times the average time from Submit to Done in tenths
--                       of a second, 0: not known; plus what a document costs, in
--                       thousandths of the average of all customers, 1 to 999999.
--          An id that begins with a colon has a second one in front. A later format
--          marks itself by negative scores of the two. The set's TTL ends after
--          ":fades", and a day after the last Submit at the earliest.
-- KEYS[2]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- ARGV     for each of 1 to 100 documents its id, and its cost in thousandths of the
--          average of all customers, 0 to 100000; 0: not known
--
-- Reply    {level, load, pending, rule_level, …}: for each document its level, 1 being
--          first; its load in millionths, at most 10^15; the number of
--          pending documents, this one included; and the level without the override.
--          With an override follow {…, earliest, latest, ends_in} of next.lua.
-- Errors   CORRUPTPENDING: the key holds something else. ERR the …: ARGV is wrong.
--          Redis's own (NOPERM, READONLY, OOM …). With any of them nothing was changed, except
--          that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:pending' , invoice-1 0 invoice-2 0
--
-- The load is recent × pending × cost, this document included. Of more than 512 recent
-- documents, 512 count. What is beyond the last load does not count as pending, nor what
-- is older than a lease: 20 times the average time from Submit to Done. A document of
-- unknown cost has its customer's average.
--
-- The lines between "begin" and "end" are written by the module: lease, queue and levels
-- are those of the default policy, the others are common to several scripts.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, override = KEYS[1], KEYS[2]
local call, format = redis.call, string.format
local floor, min, max = math.floor, math.min, math.max

local n = #ARGV / 2
if n < 1 or n > 100 or n % 1 ~= 0 then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end
local members = {':fades', ':averages'}
for i = 1, n do
  local id = ARGV[2 * i - 1]
  if string.byte(id) == 58 then
    id = ':' .. id
  end
  members[i + 2] = id
end

-- begin pending
-- What the set holds: two scores of our own, those of the documents in members, and how
-- many documents are pending, before the last load and beyond it. Our own lie below 1e13,
-- which is less than 256 times the time.
local scores = redis.pcall('ZMSCORE', set, unpack(members))
if scores.err then
  if string.find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local fades, averages = scores[1], scores[2]
local recent, average, latency, lease, own_members = 0, 1000, 0, longest_lease, 0
if fades or averages then
  fades, averages, own_members = (fades or 1e13) + 0, (averages or 1e13) + 0, 2
  if fades < 0 or averages < 0 then
    return redis.error_reply('CORRUPTPENDING a later version wrote the key')
  elseif fades >= 1e13 or averages >= 1e13 or averages % 1 > 0 or averages % 1000000 == 0 then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  if now <= fades then
    average = averages % 1000000
    latency = (averages - average) / 10000 -- in milliseconds
    if latency > 0 then
      lease = min(max(20 * latency, 180000), longest_lease)
    end
    if now < fades then
      recent = min(floor(1000 * 2 ^ ((fades - now) / day - 1) + 0.5), 512000)
    end
  end
end
local all = call('ZCARD', set) - own_members
local since, ordinary, beyond = 256 * (now - lease), 0, 0
if all > 0 then
  local from = format('%d', since)
  ordinary = call('ZCOUNT', set, from, '+inf')
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-inf', '-' .. from)
  end
end
-- end pending

-- begin override
-- The bounds of an operator's override, if one is in force. A key of another kind is none;
-- a right to read it that is missing is an error.
local earliest, latest
local ruling = override and redis.pcall('GET', override)
if ruling and ruling.err then
  if not string.find(ruling.err, 'wrong kind of value', 1, true) then
    return ruling
  end
elseif ruling then
  local how, level, rest = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)(.?)')
  if how and (rest == '' or rest == ' ') then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

-- Documents that are pending already, as after a lost reply, are taken out of the numbers,
-- and then decided about like new ones: they get the levels that they got before.
local pending, ended, any_new = ordinary + beyond, all - ordinary - beyond, false
local again = {}   -- by id, what such a document was of the recent ones
local decided = {} -- by id, that it was earlier in this call
for i = 3, n + 2 do
  local id, score = members[i], scores[i]
  if score and not again[id] then
    score = score + 0
    if score >= since then
      ordinary, again[id] = ordinary - 1, min(recent, 1000)
    elseif score <= -since then
      beyond, again[id] = beyond - 1, min(recent, 1000)
    end
    recent = recent - (again[id] or 0)
  end
end

local reply, adds = {}, {}
for i = 1, n do
  local id, cost = members[i + 2], ARGV[2 * i]
  if cost == '0' then
    cost = average
  elseif #cost <= 6 and string.find(cost, '^[1-9]%d*$') and cost + 0 <= 100000 then
    cost = cost + 0
  else
    return redis.error_reply('ERR the cost is not 0 to 100000')
  end
  if decided[id] == 'ordinary' then
    ordinary = ordinary - 1
  elseif decided[id] == 'flood' then
    beyond = beyond - 1
  else
    recent = min(recent + (again[id] or 1000), 512000)
    if not again[id] then
      pending, any_new = pending + 1, true
    end
  end
  local load = min(recent * (ordinary + 1) * cost, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 6
elseif load <= 8000000 then level = 1
elseif load <= 64000000 then level = 2
elseif load <= 512000000 then level = 3
elseif load <= 8192000000 then level = 4
elseif load <= 32768000000 then level = 5
end
local flood = level == 6 -- beyond the last load: take turns
if not flood then -- its level stands
elseif beyond + 1 >= 4096 then level = 9
elseif beyond + 1 >= 256 then level = 8
elseif beyond + 1 >= 16 then level = 7
end
-- end loads
  local rule_level, sign = level, ''
  if flood then
    beyond, sign, decided[id] = beyond + 1, '-', 'flood'
  else
    ordinary, decided[id] = ordinary + 1, 'ordinary'
  end
  if earliest then
    level = min(max(level, earliest), latest)
  end
  adds[2 * i - 1], adds[2 * i] = sign .. format('%d', 256 * now + level), id
  reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, load, pending, rule_level
end
if earliest then
  reply[4 * n + 1], reply[4 * n + 2], reply[4 * n + 3] = earliest, latest, call('PTTL', override)
end

local faded_on = fades and floor(fades / day) -- the day, as it was before this call
if any_new then
  if not fades or now > fades then -- what was learned has faded too
    adds[2 * n + 1], adds[2 * n + 2] = '1000', ':averages'
  end
  fades = now + floor(day * (1 + math.log(recent / 1000) / math.log(2)) + 0.5)
  adds[#adds + 1] = format('%d', fades)
  adds[#adds + 1] = ':fades'
end
call('ZADD', set, unpack(adds))

-- The set ends with the day in which the recent documents have faded, or with the one after
-- today, whichever is later. For most calls that is the same day as before.
local ends = floor(max(fades or 0, now + day) / day)
if ends ~= faded_on then
  call('PEXPIREAT', set, format('%d', (ends + 1) * day))
end

-- Documents of more than a day ago are cleared, at most 500 before the last load and beyond
-- it: that takes less than a millisecond, and is more than a call adds.
if ended > 0 then
  local old = format('%d', 256 * (now - day))
  for _, range in ipairs({{'(-' .. old, '(0'}, {'1e13', '(' .. old}}) do
    local ids = call('ZRANGE', set, range[1], range[2], 'BYSCORE', 'LIMIT', '0', '500')
    if #ids > 0 then
      call('ZREM', set, unpack(ids))
    end
  end
end
return reply
`;
