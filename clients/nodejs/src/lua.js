'use strict';

// The scripts of the folder lua. Written by go test ./lua -update.

exports.done = `-- Ends the pending state of documents of one customer, and learns from them how long
-- the customer's documents take.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, the sorted set that submit.lua explains
-- KEYS[2]  <prefix>:{<customer>}:usage, the string that submit.lua explains
-- ARGV[1]  how long they were worked on, in thousandths of what the documents of all
--          customers take, 1 to 999999; 0: not known
-- ARGV     then the ids of 1 to 1000 documents
--
-- Reply    {sojourn, level, …}: for each document the milliseconds since its Submit
--          and the level that it was given; 0 and 0 for one that was not pending. A
--          document whose lease has ended counts as pending here, within a day.
-- Errors   CORRUPTPENDING, CORRUPTUSAGE: a key holds something else. ERR: ARGV[1] is
--          no such number. Redis's own (READONLY …). With any of them nothing was
--          changed, except that without a right to a command here those before it have
--          run.
--
-- Try it   redis-cli --eval done.lua 'priority:{acme}:pending' \\
--            'priority:{acme}:usage' , 0 invoice-1

local set, usage = KEYS[1], KEYS[2]
local call, find = redis.call, string.find
local floor, min, max = math.floor, math.min, math.max
local cost = ARGV[1]
if cost ~= '0' and not (cost and #cost <= 6 and find(cost, '^%d+$')) then
  return redis.error_reply('ERR the cost is not 0 to 999999')
end
cost = cost + 0
local n = #ARGV - 1
local scores
if n == 1 then
  scores = redis.pcall('ZSCORE', set, ARGV[2])
else
  scores = redis.pcall('ZMSCORE', set, unpack(ARGV, 2))
end
if type(scores) == 'table' and scores.err then
  if find(scores.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return scores
end
local held = redis.pcall('GET', usage)
if held and (held.err or #held > 15 or not find(held, '^[1-9]%d*$')) then
  if held.err and not find(held.err, 'wrong kind of value', 1, true) then
    return held
  end
  if not held.err and find(held, '^v%d') then
    return redis.error_reply('CORRUPTUSAGE a later version wrote the key')
  end
  return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
end
if not scores then
  call('ZREM', set, ARGV[2]) -- a replica, which may not know the document yet, refuses it
  return {0, 0}
end

-- Both averages move by a tenth of the way for each document, unless it is older
-- than a day and only not cleared yet. The sojourn, in tenths of a second, moves no
-- further than for three times as long as usual: one that was late must not make
-- others look pending for hours.
local sojourn, average = 0, 1000
if held then
  average = held % 1000000
  sojourn = (held - average) / 1000000
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local reply, seen = {}, n > 1 and {}
for i = 1, n do
  local score = scores
  if seen then
    local document = ARGV[i + 1]
    score = nil
    if not seen[document] then
      score, seen[document] = scores[i], true
    end
  end
  local took, level = 0, 0
  if score then
    local at = math.abs(score)
    level = at % 64
    took = max(now - (at - level) / 64, 0)
    if not (took <= 86400000) then -- an infinite score, set by hand, has no time
      took, level = 0, 0
    elseif score + 0 > 0 then
      local tenths = max(floor((took + 50) / 100), 1)
      if sojourn > 0 then
        tenths = floor((9 * sojourn + min(tenths, 3 * max(sojourn, 90)) + 5) / 10)
      end
      sojourn = tenths
    end
    if level > 0 and cost > 0 then
      average = max(floor((9 * average + cost + 5) / 10), 1)
    end
  end
  reply[2 * i - 1], reply[2 * i] = took, level
end
if n == 1 then
  call('ZREM', set, ARGV[2])
else
  call('ZREM', set, unpack(ARGV, 2))
end
if held then
  local more = sojourn * 1000000 + average - held
  if more ~= 0 then
    call('INCRBY', usage, string.format('%d', more))
  end
end
return reply
`;

exports.follow = `-- Tells a worker whether operators have changed anything, and which rules hold. It is a
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
`;

exports.next = `-- Counts documents of one customer and decides the level of the last of them.
--
-- KEYS[1]  <prefix>:{<customer>}:count, a string: the count in decimal
-- KEYS[2]  <prefix>:{<customer>}:override, a string: what an operator has set for the
--          customer until its TTL ends: "=1" for level 1, ">=7" for level 7 or a later
--          one, "<=3" for level 3 or an earlier one. What is written otherwise, or of
--          another kind, is none. Without this key, no override is read.
-- ARGV[1]  how many documents, 1 to 1000000 (default 1)
--
-- Reply    {level, count} or {level, count, reset_in}: the last document's level,
--          1 being first; the count after it; the milliseconds until the count
--          is reset if nothing more comes, if that is not the whole
--          interval. Of n documents, the first has count + n - 1.
--          With an override {level, count, reset_in, ruled, earliest, latest, ends_in}:
--          ruled is the level without it, earliest and latest are its bounds, and
--          ends_in is for how many milliseconds it holds, -1 if it has no end.
-- Errors   CORRUPTCOUNT: the key holds no count. ERR: ARGV[1] is no such number.
--          Redis's own (READONLY, OOM …). With any of them nothing was changed, except
--          that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval next.lua 'priority:{acme}:count'
--
-- The lines between "begin" and "end" are those of the default policy; the
-- module writes others there for another policy.

-- begin policy
local interval = '1500000'
local since_last_reset = false
-- end policy
-- begin queue
local queue_levels = 9
-- end queue

local corrupt = 'CORRUPTCOUNT the key holds something other than a count'
local key, override, n = KEYS[1], KEYS[2], ARGV[1]
if n and not (string.find(n, '^%d+$') and n + 0 >= 1 and n + 0 <= 1000000) then
  return redis.error_reply('ERR the number of documents is not 1 to 1000000')
end

-- A key that was not there has no TTL now. So a count of 0 without a TTL, which nothing
-- here writes, counts as none.
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
-- Lua compares numbers of up to 15 digits exactly.
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

local ruling
if override then
  ruling = redis.pcall('GET', override)
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

-- begin override
-- The bounds of an operator's override: "=1", ">=7" or "<=3". Anything else is none.
local earliest, latest
if ruling and not ruling.err then
  local how, level = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)$')
  if how then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override
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
-- KEYS[2]  <prefix>:{<customer>}:pending, the sorted set that submit.lua writes
-- KEYS[3]  <prefix>:{<customer>}:usage, the string that submit.lua explains
-- KEYS[4]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
--
-- Reply    {rule, level, next_level, count, reset_in, load, lately, cost, pending,
--          beyond, oldest, sojourn, lease, ruled, earliest, latest, ends_in}
--          rule: 2 if something was submitted, else 1 if there is a count, else 0.
--          level: of the last document by the count; of the newest pending one by the
--          load, 0 if none is pending. next_level: of a document that arrives now.
--          count and reset_in, in milliseconds: 0 if there is no count; a count
--          without a TTL has a reset_in of 0.
--          The rest is 0 unless something was submitted. load: of a document that
--          arrives now, in millionths. lately and cost, in thousandths. pending: how
--          many documents are; beyond: those beyond the last load. oldest: for how
--          long the oldest pending one has been. sojourn: the average time from Submit
--          to Done, 0: not known. lease: how long a document counts as pending. These
--          three in milliseconds.
--          ruled: next_level without the override. earliest and latest: the bounds of
--          the override. ends_in: for how many milliseconds it holds, -1 if it has no
--          end. These four are 0 without an override.
-- Errors   CORRUPTCOUNT, CORRUPTPENDING, CORRUPTUSAGE: a key holds something else.
--          Redis's own (LOADING …).
--
-- Try it   redis-cli --eval peek.lua 'priority:{acme}:count' \\
--            'priority:{acme}:pending' 'priority:{acme}:usage'

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin turns
local last, turns = 9, 0
-- end turns
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, usage, override = KEYS[2], KEYS[3], KEYS[4]
local call, format, find = redis.call, string.format, string.find
local floor, min, max = math.floor, math.min, math.max

local held_count = redis.pcall('GET', KEYS[1])
if held_count and (held_count.err or not (held_count == '0' or #held_count <= 16 and
  find(held_count, '^-?[1-9]%d*$') and math.abs(tonumber(held_count)) < 1e15)) then
  if held_count.err and not find(held_count.err, 'wrong kind of value', 1, true) then
    return held_count
  end
  return redis.error_reply('CORRUPTCOUNT the key holds something other than a count')
end
local reset_in = held_count and max(call('PTTL', KEYS[1]), 0) or 0

-- begin history
local held, ruling
if override then
  local both = call('MGET', usage, override)
  held, ruling = both[1], both[2]
end
if not held then
  held = redis.pcall('GET', usage)
end
local lease, average, lately, sojourn = longest_lease, 1000, 0, 0
if held then
  if held.err or #held > 15 or not find(held, '^[1-9]%d*$') then
    if held.err and not find(held.err, 'wrong kind of value', 1, true) then
      return held
    end
    if not held.err and find(held, '^v%d') then
      return redis.error_reply('CORRUPTUSAGE a later version wrote the key')
    end
    return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
  end
  average = held % 1000000
  sojourn = (held - average) / 10000
  if sojourn > 0 then
    lease = min(max(20 * sojourn, 180000), longest_lease)
  end
  local left = call('PTTL', usage)
  if left > 0 then
    lately = min(floor(1000 * 2 ^ (left / day - 1) + 0.5), 512000)
  end
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local since, newest = 64 * (now - lease), 64 * now + 63
-- end history

-- begin override
-- The bounds of an operator's override: "=1", ">=7" or "<=3". Anything else is none.
local earliest, latest
if ruling and not ruling.err then
  local how, level = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)$')
  if how then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

-- Returns the reply: the numbers, and what the override makes of them.
local function told(reply)
  local ruled, ends_in = 0, 0
  if earliest then
    ruled, ends_in = reply[3], call('PTTL', override)
    reply[3] = min(max(ruled, earliest), latest)
  end
  reply[14], reply[15], reply[16], reply[17] = ruled, earliest or 0, latest or 0, ends_in
  return reply
end

local all = redis.pcall('ZCARD', set)
if type(all) == 'table' then
  if find(all.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return all
end

local ordinary, beyond, only, from, to = 0, 0
if all == 1 then
  only = call('ZRANGE', set, '0', '0', 'WITHSCORES')[2] + 0
  if math.abs(only) > newest then
    only = 0
  elseif only >= since then
    ordinary = 1
  elseif only <= -since then
    beyond = 1
  end
elseif all > 0 then
  from, to = format('%d', since), format('%d', newest)
  ordinary = call('ZCOUNT', set, from, to)
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-' .. to, '-' .. from)
  end
end

if not held and ordinary + beyond == 0 then -- by the count, if there is one
  local last_level, next_level
  for ahead = 0, 1 do
    local count = (held_count or 1) - ahead
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
  if held_count then
    return told({1, last_level, next_level, held_count + 0, reset_in, 0, 0, 0, 0, 0, 0, 0, 0})
  end
  return told({0, 0, next_level, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
end

-- The last document and the oldest, of those before the last load and beyond it.
local last_score, oldest = 0, 64 * now
if only and ordinary + beyond == 1 then
  last_score = math.abs(only)
  oldest = last_score
elseif ordinary > 0 then
  last_score = call('ZRANGE', set, to, from, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
  oldest = last_score
  if ordinary > 1 then
    oldest = call('ZRANGE', set, from, to, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2] + 0
  end
end
if not only and beyond > 0 then
  local lowest, highest = '-' .. to, '-' .. from
  last_score = max(last_score, -call('ZRANGE', set, lowest, highest, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2])
  oldest = min(oldest, -call('ZRANGE', set, highest, lowest, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2])
end

local load = min(min(lately + 1000, 512000) * (ordinary + 1) * average, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 9
elseif load <= 2000000 then level = 1
elseif load <= 8000000 then level = 2
elseif load <= 32000000 then level = 3
elseif load <= 128000000 then level = 4
elseif load <= 512000000 then level = 5
elseif load <= 2048000000 then level = 6
elseif load <= 8192000000 then level = 7
elseif load <= 32768000000 then level = 8
end
-- end loads
if level == last and turns > 0 then
  local _, doublings = math.frexp(beyond + 1)
  level = level + min(doublings - 1, turns)
end
return told({2, last_score % 64, level, (held_count or 0) + 0, reset_in, load, lately, average, ordinary + beyond, beyond,
  ordinary + beyond > 0 and now - floor(oldest / 64) or 0, sojourn, lease})
`;

exports.report = `-- Writes the report of one process of the fleet and lists it, or removes both.
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
-- Try it   redis-cli --eval report.lua 'priority:{fleet}:w1' \\
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
`;

exports.reset = `-- Forgets one customer's count, pending documents and usage, or whatever else the
-- keys hold.
--
-- KEYS     <prefix>:{<customer>}:count, the same with :pending and with :usage
--
-- Reply    {deleted}: how many of the keys there were.
-- Errors   Redis's own (READONLY …), raised before anything is changed.
--
-- Try it   redis-cli --eval reset.lua 'priority:{acme}:count' \\
--            'priority:{acme}:pending' 'priority:{acme}:usage'

return {redis.call('UNLINK', unpack(KEYS))}
`;

exports.submit = `-- Submits documents of one customer: makes them pending, and decides their levels.
--
-- KEYS[1]  <prefix>:{<customer>}:pending, a sorted set: the pending documents, each by
--          64 times the time of its Submit, in milliseconds of Redis's clock, plus its
--          level. Below zero are those beyond the last load.
-- KEYS[2]  <prefix>:{<customer>}:usage, a string. Its TTL says how much was submitted
--          lately: u documents make it 1 + log2(u) days, so that u halves each day.
--          Its value is the average time from Submit to Done in tenths of a second,
--          and then six digits: what a document costs, in thousandths of the average.
--          Digits alone are the first format; a later one begins with "v2", "v3" …
-- KEYS[3]  <prefix>:{<customer>}:override, the string that next.lua explains. Without
--          this key, no override is read.
-- ARGV     for each of 1 to 100 documents its id, and its cost in thousandths of the
--          average of all customers, 0 to 100000; 0: not known
--
-- Reply    {level, load, pending, ruled, …}: for each document its level, 1 being
--          first; its load in millionths, at most a billion loads; the number of
--          pending documents, this one included; and with an override the level
--          without it, else 0. With an override follow {…, earliest, latest, ends_in}
--          of next.lua.
-- Errors   CORRUPTPENDING, CORRUPTUSAGE: a key holds something else. ERR: ARGV is
--          wrong. Redis's own (READONLY, OOM …). With any of them nothing was changed,
--          except that without a right to a command here those before it have run.
--
-- Try it   redis-cli --eval submit.lua 'priority:{acme}:pending' \\
--            'priority:{acme}:usage' , invoice-1 0 invoice-2 0
--
-- The load is submitted lately × pending × cost, this document included. Of more than
-- 512 documents lately, 512 count. What is beyond the last load does not count as
-- pending, nor what is older than a lease: 20 times as long as documents take from
-- Submit to Done. A document of unknown cost has the average of its customer.
--
-- The blocks lease, turns, queue and loads are those of the default policy; the module
-- writes others there for another one.

-- begin lease
local longest_lease = 86400000
-- end lease
-- begin turns
local last, turns = 9, 0
-- end turns
-- begin queue
local queue_levels = 9
-- end queue
local day = 86400000
local set, usage, override = KEYS[1], KEYS[2], KEYS[3]
local call, format, find = redis.call, string.format, string.find
local floor, min, max = math.floor, math.min, math.max

local n = #ARGV / 2
if n < 1 or n > 100 or n % 1 ~= 0 then
  return redis.error_reply('ERR the number of documents is not 1 to 100, each with its cost')
end

-- begin history
local held, ruling
if override then
  local both = call('MGET', usage, override)
  held, ruling = both[1], both[2]
end
if not held then
  held = redis.pcall('GET', usage)
end
local lease, average, lately, sojourn = longest_lease, 1000, 0, 0
if held then
  if held.err or #held > 15 or not find(held, '^[1-9]%d*$') then
    if held.err and not find(held.err, 'wrong kind of value', 1, true) then
      return held
    end
    if not held.err and find(held, '^v%d') then
      return redis.error_reply('CORRUPTUSAGE a later version wrote the key')
    end
    return redis.error_reply('CORRUPTUSAGE the key holds something other than a usage')
  end
  average = held % 1000000
  sojourn = (held - average) / 10000
  if sojourn > 0 then
    lease = min(max(20 * sojourn, 180000), longest_lease)
  end
  local left = call('PTTL', usage)
  if left > 0 then
    lately = min(floor(1000 * 2 ^ (left / day - 1) + 0.5), 512000)
  end
end
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local since, newest = 64 * (now - lease), 64 * now + 63
-- end history

-- begin override
-- The bounds of an operator's override: "=1", ">=7" or "<=3". Anything else is none.
local earliest, latest
if ruling and not ruling.err then
  local how, level = string.match(ruling, '^([<>]?=)([1-9]%d?%d?)$')
  if how then
    level = math.min(level + 0, queue_levels)
    earliest = how == '<=' and 1 or level
    latest = how == '>=' and queue_levels or level
  end
end
-- end override

-- What is pending already: younger than the lease, and of that what is beyond the
-- last load. What is from the future, as after a failover to a clock that is behind, does
-- not count until then: nothing may count for longer than a lease.
local all = redis.pcall('ZCARD', set)
if type(all) == 'table' then
  if find(all.err, 'wrong kind of value', 1, true) then
    return redis.error_reply('CORRUPTPENDING the key holds something other than pending documents')
  end
  return all
end
local ordinary, beyond = 0, 0
if all > 0 then
  local from, to = format('%d', since), format('%d', newest)
  ordinary = call('ZCOUNT', set, from, to)
  if ordinary < all then
    beyond = call('ZCOUNT', set, '-' .. to, '-' .. from)
  end
end
local pending = ordinary + beyond
local ended = all - pending

-- Takes a document out that is pending already, as after a lost reply: it is decided
-- about as if it were not there.
local function taken_out(score)
  score = score and score + 0 or 0
  if math.abs(score) > newest then
    pending = pending + 1
  elseif score >= since then
    ordinary = ordinary - 1
  elseif score <= -since then
    beyond = beyond - 1
  else
    return false
  end
  lately = max(lately - 1000, 0)
  return true
end

-- Returns the level, load, score and ruled level of a document that lately has in it,
-- and the other numbers do not.
local function decided(cost)
  if cost == '0' then
    cost = average
  elseif cost and #cost <= 6 and find(cost, '^%d+$') and cost + 0 <= 100000 then
    cost = max(cost + 0, 1)
  else
    return nil
  end
  if lately > 512000 then
    lately = 512000
  end
  local load = min(lately * (ordinary + 1) * cost, 1e15)
-- begin loads
local level = 1
if load > 32768000000 then level = 9
elseif load <= 2000000 then level = 1
elseif load <= 8000000 then level = 2
elseif load <= 32000000 then level = 3
elseif load <= 128000000 then level = 4
elseif load <= 512000000 then level = 5
elseif load <= 2048000000 then level = 6
elseif load <= 8192000000 then level = 7
elseif load <= 32768000000 then level = 8
end
-- end loads
  local sign, ruled = '', 0
  if level >= last then
    sign = '-'
    if turns > 0 then
      local _, doublings = math.frexp(beyond + 1)
      level = level + min(doublings - 1, turns)
    end
  end
  if earliest then
    ruled, level = level, min(max(level, earliest), latest)
  end
  return level, load, sign .. format('%d', 64 * now + min(level, 63)), ruled
end

local reply, new
local wrong = 'ERR the cost is not 0 to 100000'
if n == 1 then -- it is new most often, and then one command says so and adds it
  local before = lately
  lately, new = lately + 1000, 1
  local level, load, score, ruled = decided(ARGV[2])
  if not level then
    return redis.error_reply(wrong)
  end
  if call('ZADD', set, 'NX', score, ARGV[1]) == 0 then
    if taken_out(call('ZSCORE', set, ARGV[1])) then
      lately, new = max(before, 1000), 0
      level, load, score, ruled = decided(ARGV[2])
    else
      ended = ended - 1
    end
    call('ZADD', set, score, ARGV[1])
  end
  reply = {level, load, pending + new, ruled}
else
  reply, new = {}, 0
  local ids, seen, scores = {}, {}, {}
  for i = 1, n do
    ids[i] = ARGV[2 * i - 1]
  end
  if all > 0 then
    scores = call('ZMSCORE', set, unpack(ids))
  end
  for i, document in ipairs(ids) do
    if seen[document] == nil then
      seen[document] = taken_out(scores[i]) and 'again' or 'new'
    end
  end
  local adds = {}
  for i, document in ipairs(ids) do
    local was = seen[document]
    if was == 'ordinary' then -- it is twice in this call
      ordinary = ordinary - 1
    elseif was == 'beyond' then
      beyond = beyond - 1
    else
      lately = lately + 1000
      if was == 'new' then
        new = new + 1
      end
    end
    local level, load, score, ruled = decided(ARGV[2 * i])
    if not level then
      return redis.error_reply(wrong)
    end
    if find(score, '-', 1, true) then
      beyond, seen[document] = beyond + 1, 'beyond'
    else
      ordinary, seen[document] = ordinary + 1, 'ordinary'
    end
    adds[2 * i - 1], adds[2 * i] = score, document
    reply[4 * i - 3], reply[4 * i - 2], reply[4 * i - 1], reply[4 * i] = level, load, pending + new, ruled
  end
  call('ZADD', set, unpack(adds))
end
if earliest then
  reply[4 * n + 1], reply[4 * n + 2], reply[4 * n + 3] = earliest, latest, call('PTTL', override)
end
call('PEXPIRE', set, '86400000')
if new > 0 then
  local left = day * (1 + math.log(lately / 1000) / math.log(2))
  left = format('%d', floor(left + 0.5))
  if held then
    call('PEXPIRE', usage, left)
  else
    call('SET', usage, '1000', 'PX', left)
  end
end

-- What is older than a day is cleared, in steps of less than a millisecond, each of
-- which is more than a call adds.
if ended > 0 then
  local old = format('%d', 64 * (now - day))
  old = call('ZRANGEBYSCORE', set, '(-' .. old, '(' .. old, 'LIMIT', '0', '1000')
  if #old > 0 then
    call('ZREM', set, unpack(old))
  end
end
return reply
`;
